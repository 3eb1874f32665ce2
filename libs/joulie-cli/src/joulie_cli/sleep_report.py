"""Nodes that sleep and the policies that they belong to: who sleeps, since when, why, and what that saves. No I/O.

What is unknown stays so: a node whose power was neither measured nor modelled is in no sum of watts, and is counted
beside it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire import Versioned, decode_kind
from joulie_cli.sleepers import ASLEEP, AWAKE, QUARANTINED, SleepNote, decode_note
from joulie_cli.views import Raw
from joulie_core import labels as keys
from joulie_core.kinds import NodeSleepPolicy
from joulie_core.kinds.node_bmc import STATUS_HEARTBEAT_S, PowerState
from joulie_core.plausible import MOST_WATTS, plausible_value, reading_watts
from joulie_core.sleep.power_cycles import within_day
from joulie_core.timestamps import epoch_seconds
from joulie_core.twin.server_power import MOST_INTERVALS

#: What wakes a node that a policy has put to sleep, for programs.
_WOKEN_BY: Final = ("pending_pods", "min_awake", "spare", "schedule", "rollout", "request")
_MEASURED, _MODELLED = "measured", "modelled"
_REACHABLE: Final = "Reachable"

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Watts = Annotated[float, msgspec.Meta(ge=0, le=MOST_WATTS)]


class _Record(msgspec.Struct, rename="camel"):
    """The part of the operator's record that is shown."""

    sleeps: _Count = 0
    cycles: tuple[float, ...] = ()
    idle_watts: _Watts | None = None
    idle_measured: bool = False


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _BmcStatus(msgspec.Struct, rename="camel"):
    power_state: str | None = None
    power_watts: float | None = None
    sampled_at: str | None = None
    interval_seconds: float | None = None
    conditions: list[_Condition] | None = None


class _BmcMeta(msgspec.Struct):
    name: str = ""


class _Bmc(msgspec.Struct):
    metadata: _BmcMeta
    status: _BmcStatus | None = None


@dataclass(frozen=True, slots=True)
class SleepingNode:
    """A node that is not awake."""

    note: SleepNote
    labels: Mapping[str, str]
    #: Power cycles; None where the record cannot be read.
    cycle_times_s: tuple[float, ...] | None
    cycles: int | None
    #: What it drew before it was put to sleep; None: unknown.
    idle_watts: float | None
    idle_measured: bool
    #: Who works on the server, and why; None without a maintenance.
    maintenance: str | None = None


@dataclass(frozen=True, slots=True)
class BmcNote:
    """What the BMC of a node says; `reachable` None: nothing is known."""

    node: str
    power: str | None
    reachable: bool | None
    watts: float | None
    sampled_at_s: float | None
    #: Seconds between two readings.
    interval_s: float


@dataclass(frozen=True, slots=True)
class SleepRow:
    """What is shown of one node."""

    node: SleepingNode
    #: Name of the policy that it belongs to; None: none, and the operator wakes it.
    policy: str | None
    bmc: BmcNote | None
    now_s: float

    @property
    def cycles_today(self) -> int | None:
        """Power cycles of the last 24 hours."""
        times_s = self.node.cycle_times_s
        return None if times_s is None else within_day(times_s, self.now_s)

    @property
    def sleeps(self) -> bool:
        """Whether it draws no power for work: it is asleep, and not on the way to it or back."""
        return self.node.note.state == ASLEEP

    @property
    def _is_woken(self) -> bool:
        """Whether what its policy says wakes it."""
        node = self.node
        return self.policy is not None and node.maintenance is None and node.note.state != QUARANTINED

    @property
    def not_drawn_watts(self) -> float | None:
        """Watts that it would draw on and without work, less those that its BMC measures now; None: unknown."""
        if not self.sleeps or self.node.idle_watts is None:
            return None
        return self.node.idle_watts - (self._standby_watts or 0.0)

    @property
    def _standby_watts(self) -> float | None:
        """What the BMC measures of the server while it is off; None where that is not known.

        A reading is kept for some intervals, so that one from right after the power-off is of before it. One that is
        not lower than what the server drew while it was on is none either.
        """
        bmc, since_s, idle_watts = self.bmc, self.node.note.since_s, self.node.idle_watts
        if bmc is None or bmc.power != PowerState.OFF or bmc.watts is None or since_s is None or idle_watts is None:
            return None
        settled = bmc.sampled_at_s is not None and bmc.sampled_at_s - since_s > MOST_INTERVALS * bmc.interval_s
        return bmc.watts if settled and bmc.watts < idle_watts else None

    @property
    def source(self) -> str | None:
        """Where the watts are from."""
        if self.not_drawn_watts is None:
            return None
        return _MEASURED if self.node.idle_measured else _MODELLED

    def data(self) -> dict[str, Any]:
        """Return the node for JSON and YAML."""
        bmc = self.bmc
        return {
            "name": self.node.note.node,
            "policy": self.policy,
            **self.node.note.data(),
            "maintenance": self.node.maintenance,
            "wokenBy": list(_WOKEN_BY) if self._is_woken else [],
            "powerCycles": {"today": self.cycles_today, "total": self.node.cycles},
            "notDrawnWatts": self.not_drawn_watts,
            "source": self.source,
            "bmc": None if bmc is None else {"power": bmc.power, "reachable": bmc.reachable, "watts": bmc.watts},
        }


@dataclass(frozen=True, slots=True)
class WattsNotDrawn:
    """The sum over nodes that are asleep, by source."""

    measured: float
    modelled: float
    #: Nodes that are asleep and of which the watts are unknown.
    unknown: int

    def data(self) -> dict[str, Any]:
        """Return the sum for JSON and YAML."""
        return {"measured": self.measured, "modelled": self.modelled, "unknownNodes": self.unknown}


@dataclass(frozen=True, slots=True)
class SleepReport:
    """All that is shown."""

    rows: Sequence[SleepRow]
    policies: Sequence[Versioned[NodeSleepPolicy]]

    @property
    def not_drawn(self) -> WattsNotDrawn:
        """The watts that are not drawn."""
        asleep = [row for row in self.rows if row.sleeps]
        return WattsNotDrawn(
            measured=sum(row.not_drawn_watts or 0.0 for row in asleep if row.source == _MEASURED),
            modelled=sum(row.not_drawn_watts or 0.0 for row in asleep if row.source == _MODELLED),
            unknown=sum(row.not_drawn_watts is None for row in asleep),
        )

    def data(self) -> dict[str, Any]:
        """Return the report for JSON and YAML."""
        return {
            "nodes": [row.data() for row in self.rows],
            "sums": {
                "asleep": sum(row.sleeps for row in self.rows),
                "otherStates": sum(not row.sleeps for row in self.rows),
                "powerCyclesToday": sum(row.cycles_today or 0 for row in self.rows),
                "notDrawnWatts": self.not_drawn.data(),
            },
            "policies": [_policy_data(policy) for policy in self.policies],
        }


def decode_sleeping(raw: Raw) -> SleepingNode:
    """Decode a Node.

    Raises:
        DecodeError: not a Node. A record that cannot be read is one of which nothing is known.
    """
    note = decode_note(raw)
    meta = decode(_NODES.decode, raw, "Node").metadata
    text = (meta.annotations or {}).get(keys.SLEEP_RECORD)
    record = None
    if text is not None:
        try:
            record = decode(_RECORDS.decode, text.encode(), "record")
        except DecodeError:
            record = None
    return SleepingNode(
        note,
        meta.labels or {},
        cycle_times_s=record.cycles if record is not None else None,
        cycles=record.sleeps if record is not None else None,
        idle_watts=record.idle_watts if record is not None else None,
        idle_measured=record is not None and record.idle_measured,
        maintenance=(meta.annotations or {}).get(keys.MAINTENANCE),
    )


def decode_bmc_note(raw: Raw) -> BmcNote:
    """Decode a NodeBMC. Raise as `decode_sleeping`."""
    bmc = decode(_BMCS.decode, raw, "NodeBMC")
    status = bmc.status or _BmcStatus()
    states = {each.type: each.status for each in status.conditions or ()}
    reachable = {"True": True, "False": False}.get(states.get(_REACHABLE, ""))
    # A reading from before the BMC fell silent is no reading.
    watts = reading_watts(status.power_watts) if reachable else None
    interval_s = max(STATUS_HEARTBEAT_S, plausible_value(status.interval_seconds) or 0.0)
    sampled_at_s = epoch_seconds(status.sampled_at)
    return BmcNote(bmc.metadata.name, status.power_state, reachable, watts, sampled_at_s, interval_s)


def make_report(
    nodes: Iterable[SleepingNode],
    bmcs: Iterable[BmcNote],
    policies: Iterable[Versioned[NodeSleepPolicy]],
    *,
    policy: str | None,
    now_s: float,
) -> SleepReport:
    """Return the report.

    Args:
        nodes: those that are not awake, and others.
        bmcs: of these and of others.
        policies: all of them.
        policy: name of the only one that is shown; None: all, and nodes of none.
        now_s: the present time.
    """
    ordered = sorted(policies, key=lambda each: each.name)
    by_node = {each.node: each for each in bmcs}
    rows = [
        SleepRow(node, _owner(node, ordered), by_node.get(node.note.node), now_s)
        for node in sorted(nodes, key=lambda node: node.note.node)
        if node.note.state != AWAKE
    ]
    return SleepReport(
        [row for row in rows if policy in (None, row.policy)],
        [each for each in ordered if policy in (None, each.name)],
    )


def decode_policy(raw: Raw) -> Versioned[NodeSleepPolicy]:
    """Decode a NodeSleepPolicy. Raise as `decode_sleeping`."""
    return _POLICIES(bytes(raw))


def _owner(node: SleepingNode, ordered: Iterable[Versioned[NodeSleepPolicy]]) -> str | None:
    """Return the policy that a node belongs to: the first by name that selects it."""
    selected = (each.name for each in ordered if each.model.spec.node_selector.items() <= node.labels.items())
    return next(selected, None)


def _policy_data(policy: Versioned[NodeSleepPolicy]) -> dict[str, Any]:
    spec, status = policy.model.spec, policy.model.status
    return {
        "name": policy.name,
        "mode": spec.mode.value,
        "nodes": status.nodes.dump() if status.nodes is not None else None,
        "powerCycles": status.power_cycles.dump() if status.power_cycles is not None else None,
        "rackBoots": status.rack_boots.dump() if status.rack_boots is not None else None,
        "refusals": {each.reason: each.nodes for each in status.refusals},
        "minAwake": spec.min_awake.dump(),
        "schedules": [each.dump() for each in spec.schedules],
    }


_NODES: Final = msgspec.json.Decoder(_Node)
_RECORDS: Final = msgspec.json.Decoder(_Record)
_BMCS: Final = msgspec.json.Decoder(_Bmc)
_POLICIES: Final = decode_kind(NodeSleepPolicy)
