"""Nodes that sleep, as labels, annotations and conditions of Nodes say."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire.metadata import WireConditions, WireObject
from joulie_cli.views import make_decoder
from joulie_core import labels as keys
from joulie_core.plausible import MOST_WATTS
from joulie_core.sleep_state import GOING_TO_SLEEP, SWITCHED_OFF, SleepState, labels_of
from joulie_core.timestamps import epoch_seconds, rfc3339

#: State of a node without the label; the others are values of the label, as the operator writes them.
AWAKE: Final = SleepState.AWAKE.label
ASLEEP: Final = SleepState.ASLEEP.label
WAKING: Final = SleepState.WAKING.label
QUARANTINED: Final = SleepState.QUARANTINED.label
#: What is said of a node that was deleted meanwhile; no value of the label.
GONE: Final = "gone"
#: States in which a node goes to sleep, and may still be called back without a boot or not.
GOING_STATES: Final = labels_of(GOING_TO_SLEEP)
#: States in which the power is off, is being switched off, or was just switched on.
OFF_STATES: Final = labels_of(SWITCHED_OFF) | {WAKING}
#: What wakes a node that is asleep, or calls back one that goes to sleep.
WOKEN_BY: Final = (
    "pods that kube-scheduler finds no node for and that have room here; the minimum, the spare nodes and the "
    "schedules of its policy; roll-outs of DaemonSets"
)
#: Type of the condition that the operator writes.
_CONDITION: Final = f"{keys.PREFIX}Asleep"

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Watts = Annotated[float, msgspec.Meta(ge=0, le=MOST_WATTS)]


class _Record(msgspec.Struct, rename="camel"):
    """The part of the operator's record that is shown."""

    sleeps: _Count = 0
    cycles: tuple[float, ...] = ()
    idle_watts: _Watts | None = None
    idle_measured: bool = False


class _Node(WireObject):
    status: WireConditions | None = None


@dataclass(frozen=True, slots=True)
class Sleeper:
    """The state of a node, with what the operator says about it, and until when it is requested to be awake."""

    name: str
    state: str = AWAKE
    #: Empty, and None, while the condition is that of another state.
    reason: str = ""
    since_s: float | None = None
    #: Seconds since the epoch; None without a request, and for one that cannot be read.
    until_s: float | None = None

    def stays_until(self, until_s: float) -> bool:
        """Return whether it is requested to be awake until then already."""
        return self.until_s is not None and self.until_s >= until_s

    def data(self) -> dict[str, Any]:
        """Return the state for JSON and YAML."""
        since = None if self.since_s is None else rfc3339(self.since_s, "seconds")
        return {"state": self.state, "reason": self.reason or None, "since": since}


@dataclass(frozen=True, slots=True)
class SleepingNode:
    """A node that is not awake, with its record; what is None in the record is unknown."""

    sleeper: Sleeper
    labels: Mapping[str, str]
    #: Power cycles.
    cycle_times_s: tuple[float, ...] | None = None
    cycles: int | None = None
    #: What it drew before it was put to sleep.
    idle_watts: float | None = None
    idle_measured: bool = False
    #: Who works on the server, and why; None without a maintenance.
    maintenance: str | None = None


def sleep_style(state: str) -> str:
    """Return the style of a state of sleep."""
    return "red" if state == QUARANTINED else "blue"


def _sleeper(node: _Node) -> Sleeper:
    meta = node.metadata
    state = (meta.labels or {}).get(keys.SLEEP_STATE, AWAKE)
    until_s = epoch_seconds((meta.annotations or {}).get(keys.AWAKE_UNTIL))
    found = node.status.find(_CONDITION) if node.status else None
    # The condition is written after the label.
    if found is None or found.reason.lower() != state.replace("-", ""):
        return Sleeper(meta.name, state, until_s=until_s)
    since_s = epoch_seconds(found.last_transition_time)
    return Sleeper(meta.name, state, found.message.partition(": ")[2], since_s, until_s)


def _sleeping_node(node: _Node) -> SleepingNode:
    annotations = node.metadata.annotations or {}
    known = SleepingNode(_sleeper(node), node.metadata.labels or {}, maintenance=annotations.get(keys.MAINTENANCE))
    try:
        record = decode(_RECORDS.decode, annotations[keys.SLEEP_RECORD].encode(), "record")
    except (KeyError, DecodeError):
        # Of a record that cannot be read nothing is known.
        return known
    return replace(
        known,
        cycle_times_s=record.cycles,
        cycles=record.sleeps,
        idle_watts=record.idle_watts,
        idle_measured=record.idle_measured,
    )


_RECORDS: Final = msgspec.json.Decoder(_Record)
decode_sleeper: Final = make_decoder(_Node, "Node", _sleeper)
decode_sleeping_node: Final = make_decoder(_Node, "Node", _sleeping_node)
