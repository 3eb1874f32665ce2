"""`kubectl joulie sleep`: who sleeps, since when, why, and what that saves.

What is unknown stays so: a node whose power was neither measured nor modelled is in no sum of watts, and is counted
beside it.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES
from joulie_api.wire import Versioned, decode_kind
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import connect
from joulie_cli.layout import (
    UNKNOWN,
    Cell,
    Line,
    TableColumn,
    age,
    counted,
    line,
    pairs,
    table,
    total_watts,
    watts,
    word,
)
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.views.bmcs import BmcView, decode_bmc
from joulie_cli.views.sleep import (
    ASLEEP,
    AWAKE,
    QUARANTINED,
    WOKEN_BY,
    SleepingNode,
    decode_sleeping_node,
    sleep_style,
)
from joulie_core.kinds import NodeSleepPolicy
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import SpareOf
from joulie_core.labels import SLEEP_STATE
from joulie_core.sleep.power_cycles import within_day
from joulie_core.twin.server_power import MOST_INTERVALS

#: What wakes a node that a policy has put to sleep, for programs.
_WOKEN_BY: Final = ("pending_pods", "min_awake", "spare", "schedule", "rollout", "request")
_MEASURED, _MODELLED = "measured", "modelled"
_COLUMNS: Final = (
    TableColumn("NODE", elastic=True),
    TableColumn("STATE"),
    TableColumn("FOR", right=True),
    TableColumn("WHY", elastic=True),
    TableColumn("TODAY", right=True),
    TableColumn("EVER", right=True),
    TableColumn("NOT DRAWN", right=True),
    TableColumn("SOURCE"),
    TableColumn("BMC"),
    TableColumn("POLICY", elastic=True),
)
_NO_NODE: Final = "no node sleeps, is going to sleep or is waking"
#: Names of nodes in one line.
_MOST_SHOWN: Final = 8
_SILENT: Final = "no answer"
_decode_policy: Final = decode_kind(NodeSleepPolicy)


@dataclass(frozen=True, slots=True)
class SleepRow:
    """Row that shows one node."""

    node: SleepingNode
    #: Name of the policy that it belongs to; None: none, and the operator wakes it.
    policy: str | None
    bmc: BmcView | None
    now_s: float

    @property
    def cycles_today(self) -> int | None:
        """Power cycles of the last 24 hours."""
        times_s = self.node.cycle_times_s
        return None if times_s is None else within_day(times_s, self.now_s)

    @property
    def sleeps(self) -> bool:
        """Whether it draws no power for work: it is asleep, and not on the way to it or back."""
        return self.node.sleeper.state == ASLEEP

    @property
    def _is_woken(self) -> bool:
        """Whether what its policy says wakes it."""
        node = self.node
        return self.policy is not None and node.maintenance is None and node.sleeper.state != QUARANTINED

    @property
    def not_drawn_watts(self) -> float | None:
        """Watts that it would draw on and without work, less those that its BMC measures now; None: unknown."""
        if not self.sleeps or self.node.idle_watts is None:
            return None
        return self.node.idle_watts - (self._standby_watts or 0.0)

    @property
    def _standby_watts(self) -> float | None:
        """Watts that the BMC measures of the server while it is off; None where that is not known.

        A reading is kept for some intervals, so that one from right after the power-off is of before it. One that is
        not lower than what the server drew while it was on is none either.
        """
        bmc, since_s, idle_watts = self.bmc, self.node.sleeper.since_s, self.node.idle_watts
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
            "name": self.node.sleeper.name,
            "policy": self.policy,
            **self.node.sleeper.data(),
            "maintenance": self.node.maintenance,
            "wokenBy": list(_WOKEN_BY) if self._is_woken else [],
            "powerCycles": {"today": self.cycles_today, "total": self.node.cycles},
            "notDrawnWatts": self.not_drawn_watts,
            "source": self.source,
            "bmc": None if bmc is None else {"power": bmc.power, "reachable": bmc.reachable, "watts": bmc.watts},
        }


@dataclass(frozen=True, slots=True)
class SleepReport:
    """All that is shown."""

    rows: Sequence[SleepRow]
    policies: Sequence[Versioned[NodeSleepPolicy]]

    def sums(self) -> dict[str, Any]:
        """Return the sums over the nodes, for JSON and YAML."""
        asleep = [row for row in self.rows if row.sleeps]
        watts_of = {
            source: sum(row.not_drawn_watts or 0.0 for row in asleep if row.source == source)
            for source in (_MEASURED, _MODELLED)
        }
        return {
            "asleep": len(asleep),
            "otherStates": len(self.rows) - len(asleep),
            "powerCyclesToday": sum(row.cycles_today or 0 for row in self.rows),
            "notDrawnWatts": {**watts_of, "unknownNodes": sum(row.source is None for row in asleep)},
        }

    def data(self) -> dict[str, Any]:
        """Return the report for JSON and YAML."""
        return {
            "nodes": [row.data() for row in self.rows],
            "sums": self.sums(),
            "policies": [_policy_data(policy) for policy in self.policies],
        }


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "sleep",
        run,
        summary="nodes that sleep, and what that saves",
        description="Who sleeps, goes to sleep or is waking, since when and why; power cycles within 24 hours (TODAY) "
        "and ever; the watts that are not drawn, from what the BMC measured before the node was put to sleep or from "
        "the model of its hardware; and of each policy what wakes its nodes and why others stay awake.",
        example="kubectl joulie sleep\nkubectl joulie sleep --policy night -o json | jq .sums",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("--policy", metavar="NAME", help="only this NodeSleepPolicy and its nodes")


async def run(options: Namespace) -> ExitCode:
    """Print the nodes that sleep and their policies."""
    async with connect(options) as cluster:
        nodes, bmcs, policies = await asyncio.gather(
            cluster.read(NODES, decode_sleeping_node, label_selector=SLEEP_STATE),
            cluster.read(NODE_BMCS, decode_bmc),
            cluster.read(NODE_SLEEP_POLICIES, lambda raw: _decode_policy(bytes(raw))),
        )
    if options.policy is not None and options.policy not in {each.name for each in policies}:
        raise CliError(f"there is no NodeSleepPolicy {options.policy!r}", "kubectl get nodesleeppolicies lists them")
    found = _report(nodes, bmcs, policies, options.policy)
    show(options, found.data(), lambda width: _lines(found, width))
    return ExitCode.OK


def _report(
    nodes: Iterable[SleepingNode],
    bmcs: Iterable[BmcView],
    policies: Iterable[Versioned[NodeSleepPolicy]],
    policy: str | None,
) -> SleepReport:
    """Return what is shown: of `policy` only, else all policies, and nodes of none."""
    now_s = time.time()
    ordered = sorted(policies, key=lambda each: each.name)
    by_node = {each.name: each for each in bmcs}
    rows = [
        SleepRow(node, _owner(node, ordered), by_node.get(node.sleeper.name), now_s)
        for node in sorted(nodes, key=lambda node: node.sleeper.name)
        if node.sleeper.state != AWAKE
    ]
    return SleepReport(
        [row for row in rows if policy in (None, row.policy)],
        [each for each in ordered if policy in (None, each.name)],
    )


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
        "consolidation": {"mode": spec.consolidation.mode.value}
        | (status.consolidation.dump() if status.consolidation is not None else {}),
        "minAwake": spec.min_awake.dump(),
        "schedules": [each.dump() for each in spec.schedules],
    }


def _lines(found: SleepReport, width: int | None) -> list[Line]:
    """Return the nodes, their sums, and what their policies say."""
    lines = table(_COLUMNS, map(_cells, found.rows), width) if found.rows else [line(_NO_NODE)]
    if found.rows:
        lines += [line(), *pairs(_sums(found), width)]
    for policy in found.policies:
        lines += [line(), *pairs(_policy_fields(policy), width)]
    return lines


def _cells(row: SleepRow) -> list[Cell]:
    node, sleeper = row.node, row.node.sleeper
    return [
        Cell(sleeper.name),
        Cell(sleeper.state, sleep_style(sleeper.state)),
        Cell(age(None if sleeper.since_s is None else row.now_s - sleeper.since_s)),
        Cell(word(sleeper.reason)),
        Cell(_number(row.cycles_today)),
        Cell(_number(node.cycles)),
        Cell(watts(row.not_drawn_watts)),
        Cell(word(row.source)),
        _bmc(row),
        Cell(word(row.policy)),
    ]


def _bmc(row: SleepRow) -> Cell:
    if row.bmc is None:
        return Cell(UNKNOWN)
    return Cell(_SILENT, "red") if row.bmc.reachable is False else Cell(word(row.bmc.power))


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _sums(found: SleepReport) -> Iterator[tuple[str, str | Cell]]:
    sums = found.sums()
    others, not_drawn = sums["otherStates"], sums["notDrawnWatts"]
    yield "Nodes", f"{sums['asleep']} asleep" + (f", {others} in other states" if others else "")
    yield "Power cycles", f"{sums['powerCyclesToday']} within 24 hours, of these nodes"
    words = {_MEASURED: "measured before", _MODELLED: "modelled"}
    parts = [f"{total_watts(not_drawn[source])} {text}" for source, text in words.items() if not_drawn[source]]
    if not_drawn["unknownNodes"]:
        parts.append(f"unknown of {counted(not_drawn['unknownNodes'], 'node')}")
    yield "Not drawn", ", ".join(parts) or UNKNOWN


def _policy_fields(policy: Versioned[NodeSleepPolicy]) -> Iterator[tuple[str, str | Cell]]:
    spec, status = policy.model.spec, policy.model.status
    yield "Policy", f"{policy.name}, mode {spec.mode.value}"
    if status.nodes is not None:
        yield "Nodes", f"{status.nodes.selected}, {status.nodes.awake} awake and {status.nodes.asleep} asleep"
    if status.power_cycles is not None:
        used = status.power_cycles
        reached = f"; {counted(used.exhausted, 'node')} at the limit" if used.exhausted else ""
        yield "Power cycles", f"{used.total} within 24 hours, {used.used} of {used.limit} of one node{reached}"
    if status.rack_boots is not None:
        boots = status.rack_boots
        yield "Boots", f"{boots.used} of {boots.limit} in one rack"
    if status.refusals:
        refused = (f"{each.nodes} by {each.reason}" for each in status.refusals)
        yield "Stay awake", ", ".join(refused)
    found = status.consolidation
    if found is not None and found.nodes:
        more = f" and {found.nodes - _MOST_SHOWN} more" if found.nodes > _MOST_SHOWN else ""
        moved = f"{total_watts(found.watts)}, by moving {counted(found.pods, 'pod')}"
        names = ", ".join(found.names[:_MOST_SHOWN])
        yield "Could be emptied", f"{names}{more}, {moved}; spec.consolidation.mode Act does it"
    least = spec.min_awake
    yield "Woken by", f"{WOKEN_BY}; kubectl joulie wake"
    schedules = f", {counted(len(spec.schedules), 'schedule')}" if spec.schedules else ""
    shared = "" if least.spare_of is SpareOf.FAMILY else " of all families with the same resources"
    spare = f"up to {least.spare}" if least.spare_of is SpareOf.ARRIVALS else str(least.spare)
    yield "Kept awake", f"{least.count} of each hardware family, {spare} without pods{shared}{schedules}"
