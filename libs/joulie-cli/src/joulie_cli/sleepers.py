"""Nodes that sleep, as labels, annotations and conditions say, and what becomes of requests to wake them. No I/O."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_cli.views import Raw
from joulie_core import labels as keys
from joulie_core.timestamps import epoch_seconds, rfc3339

#: State of a node without the label; the others are values of the label, as the operator writes them.
AWAKE: Final = "awake"
ASLEEP: Final = "asleep"
WAKING: Final = "waking"
QUARANTINED: Final = "quarantined"
#: What is said of a node that was deleted meanwhile; no value of the label.
GONE: Final = "gone"
#: States in which a node goes to sleep, and may still be called back without a boot or not.
GOING_STATES: Final = frozenset({"cordoned", "draining", "powering-off"})
#: States in which the power is off, is being switched off, or was just switched on.
OFF_STATES: Final = frozenset({"powering-off", ASLEEP, WAKING})


class _Meta(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta
    status: _Status | None = None


@dataclass(frozen=True, slots=True)
class SleepNote:
    """The state of one node, with what the operator says about it in the Node's condition."""

    node: str
    state: str
    #: Empty, and None, while the condition is that of another state.
    reason: str = ""
    since_s: float | None = None

    def data(self) -> dict[str, Any]:
        """Return the state for JSON and YAML."""
        since = None if self.since_s is None else rfc3339(self.since_s, "seconds")
        return {"state": self.state, "reason": self.reason or None, "since": since}


@dataclass(frozen=True, slots=True)
class Sleeper:
    """The state of a node, and until when it is requested to be awake."""

    name: str
    state: str
    #: Seconds since the epoch; None without a request, and for one that cannot be read.
    until_s: float | None = None

    def stays_until(self, until_s: float) -> bool:
        """Return whether it is requested to be awake until then already."""
        return self.until_s is not None and self.until_s >= until_s


@dataclass(frozen=True, slots=True)
class Wake:
    """What was done about a node, and its state since."""

    node: Sleeper
    changed: bool

    @property
    def problem(self) -> str:
        """Why the node does not wake; empty for one that may."""
        if self.node.state == QUARANTINED:
            return "is in quarantine: its boots have failed, and a request does not wake it"
        return "was deleted meanwhile" if self.node.state == GONE else ""

    @property
    def way_out(self) -> str:
        """What to do about the problem; empty without one."""
        if self.node.state != QUARANTINED:
            return ""
        return f"see its console and its BMC, then clear it: kubectl joulie wake {self.node.name} --clear-quarantine"

    @property
    def waits(self) -> bool:
        """Whether it is not awake yet and may still become so."""
        return self.node.state != AWAKE and not self.problem

    def data(self) -> dict[str, Any]:
        """Return the node for JSON and YAML."""
        until_s = self.node.until_s
        return {
            "name": self.node.name,
            "state": self.node.state,
            "changed": self.changed,
            "awakeUntil": None if until_s is None else rfc3339(until_s, "seconds"),
            "problem": self.problem or None,
        }


_NODES: Final = msgspec.json.Decoder(_Node)
#: Type of the condition that the operator writes.
_CONDITION: Final = f"{keys.PREFIX}Asleep"


def decode_sleeper(raw: Raw) -> Sleeper:
    """Decode a Node.

    Raises:
        DecodeError: not a Node.
    """
    meta = decode(_NODES.decode, raw, "Node").metadata
    until_s = epoch_seconds((meta.annotations or {}).get(keys.AWAKE_UNTIL))
    return Sleeper(meta.name, (meta.labels or {}).get(keys.SLEEP_STATE, AWAKE), until_s)


def decode_note(raw: Raw) -> SleepNote:
    """Decode a Node. Raise as `decode_sleeper`."""
    node = decode(_NODES.decode, raw, "Node")
    name, state = node.metadata.name, (node.metadata.labels or {}).get(keys.SLEEP_STATE, AWAKE)
    conditions = (node.status.conditions if node.status else None) or ()
    found = next((each for each in conditions if each.type == _CONDITION), None)
    # The condition is written after the label.
    if found is None or found.reason.lower() != state.replace("-", ""):
        return SleepNote(name, state)
    return SleepNote(name, state, found.message.partition(": ")[2], epoch_seconds(found.last_transition_time))


def request_body(until_s: float) -> dict[str, Any]:
    """Return the merge patch that requests a node to be awake until then."""
    return {"metadata": {"annotations": {keys.AWAKE_UNTIL: rfc3339(until_s, "seconds")}}}


def cleared_body() -> dict[str, Any]:
    """Return the merge patch that clears the quarantine of a node."""
    return {"metadata": {"labels": {keys.SLEEP_STATE: None}}}


def waiting(wakes: Iterable[Wake]) -> Sequence[Wake]:
    """Return those that are not awake yet and may still become so."""
    return [wake for wake in wakes if wake.waits]
