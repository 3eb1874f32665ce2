"""The status of a NodeSleepPolicy."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_api.wire import Versioned
from joulie_core.kinds import Condition, NodeSleepPolicy, NodeSleepPolicyStatus
from joulie_core.kinds.base import ConditionStatus, set_condition
from joulie_core.kinds.node_sleep_policy import (
    MOST_NAMES,
    ConsolidationStatus,
    PowerCyclesStatus,
    RackBootsStatus,
    SleepCounts,
    SleepMode,
    SleepRecommendation,
    SleepRefusalCount,
)
from joulie_core.names import NodeName
from joulie_core.sleep import SleepNode, SleepRecord, SleepState
from joulie_core.sleep.bounds import BootRoom, rack_of
from joulie_core.sleep.machine import sleep_refusal
from joulie_core.sleep.power_cycles import cycles_of_day
from joulie_core.text import first_of, printable
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.facts import SleepFacts
from joulie_operator.sleep.planner import SleepPlan, UsablePolicy
from joulie_operator.sleep.windows import UnusableSpec

#: Characters of a message. A selector, and names of policies, are as long as people write them.
_MOST_CHARACTERS: Final = 4_096


@dataclass(frozen=True, slots=True)
class SleepSight:
    """Inputs of the statuses."""

    facts: SleepFacts
    #: Of all nodes.
    records: Mapping[NodeName, SleepRecord]
    now_s: float


def policy_status(
    policy: UsablePolicy,
    seen: Versioned[NodeSleepPolicy],
    sight: SleepSight,
    plan: SleepPlan,
) -> NodeSleepPolicyStatus:
    """Return the status of a policy that can be used.

    Args:
        policy: the policy.
        seen: its object.
        sight: what is seen and decided.
        plan: what is decided and recommended.
    """
    facts, records, now_s = sight.facts, sight.records, sight.now_s
    recommended, to_empty = plan.recommended.get(policy.name), plan.to_empty.get(policy.name)
    states = {name: records[name].state if name in records else SleepState.AWAKE for name in policy.nodes}
    counts = Counter(state.field for state in states.values())
    awake = [facts.nodes[name] for name, state in states.items() if state is SleepState.AWAKE]
    refusals = Counter(sleep_refusal(node, _record(records, node.name), now_s, policy.settings) for node in awake)
    quarantined = sorted(name for name, state in states.items() if state is SleepState.QUARANTINED)
    asleep = [facts.nodes[name] for name, state in states.items() if state is SleepState.ASLEEP]
    saved = sum(node.idle_watts for node in asleep)
    acting = policy.mode is SleepMode.ACT
    found = {
        "Accepted": _accepted(policy),
        "Acting": _yes("Act") if acting else _no(policy.mode.value, "set spec.mode to Act to power nodes off"),
        "Overlapping": _overlapping(policy),
        "Maintenance": _maintenance(facts.nodes[name] for name in policy.nodes),
        "Healthy": _no("Quarantined", f"{len(quarantined)} nodes did not boot") if quarantined else _yes("NoFailure"),
    }
    return NodeSleepPolicyStatus(
        observed_generation=seen.metadata.generation,
        nodes=SleepCounts(selected=len(policy.nodes), **counts),
        refusals=tuple(
            SleepRefusalCount(reason=reason.value, nodes=number)
            for reason, number in sorted(refusals.items(), key=lambda item: str(item[0]))
            if reason is not None
        ),
        power_cycles=_power_cycles(policy, sight),
        rack_boots=_rack_boots(policy, sight),
        saved_watts=round(saved) if acting else None,
        recommendation=None if recommended is None else _recommendation(recommended, facts),
        consolidation=None if to_empty is None else _consolidation(to_empty),
        quarantined=tuple(quarantined[:MOST_NAMES]),
        conditions=_conditions(seen, found, now_s),
    )


def refused_status(seen: Versioned[NodeSleepPolicy], error: UnusableSpec, now_s: float) -> NodeSleepPolicyStatus:
    """Return the status of a policy that cannot be used."""
    found = {"Accepted": _no("Invalid", str(error)), "Acting": _no("Invalid", "its nodes stay awake, or are woken")}
    return NodeSleepPolicyStatus(
        observed_generation=seen.metadata.generation, conditions=_conditions(seen, found, now_s)
    )


def _record(records: Mapping[NodeName, SleepRecord], name: NodeName) -> SleepRecord:
    return records.get(name) or SleepRecord(since_s=0.0)


def _power_cycles(policy: UsablePolicy, sight: SleepSight) -> PowerCyclesStatus:
    limit = policy.settings.rates.power_cycles_per_day
    cycles = [cycles_of_day(_record(sight.records, name), sight.now_s) for name in policy.nodes]
    return PowerCyclesStatus(
        limit=limit,
        used=max(cycles, default=0),
        total=sum(cycles),
        exhausted=sum(number >= limit for number in cycles),
    )


def _rack_boots(policy: UsablePolicy, sight: SleepSight) -> RackBootsStatus:
    """Return the boots in the racks of the policy, those of nodes that are not its own included."""
    settings = policy.settings
    everything = ((node, _record(sight.records, name)) for name, node in sight.facts.nodes.items())
    booting = BootRoom.beside(everything, sight.now_s, settings).by_rack
    racks = Counter(rack_of(sight.facts.nodes[name], settings) for name in policy.nodes)
    of_racks = [booting[rack] for rack in racks]
    return RackBootsStatus(
        limit=settings.rates.waking_per_rack,
        used=max(of_racks, default=0),
        full=sum(number >= settings.rates.waking_per_rack for number in of_racks),
        without_rack=racks[""],
    )


def _accepted(policy: UsablePolicy) -> Condition:
    if policy.nodes or policy.taken:
        return _yes("Valid")
    selector = ",".join(f"{key}={value}" for key, value in sorted(policy.selector.items()))
    return _yes(
        "NoNodes",
        f"spec.nodeSelector {selector} matches no managed node; change it, or label nodes: those with these labels are "
        f"shown by kubectl get nodes -l {selector}",
    )


def _overlapping(policy: UsablePolicy) -> Condition:
    if not policy.taken:
        return _no("None")
    owners = " and ".join(f"{number} to {name}" for name, number in sorted(policy.taken.items()))
    return _yes(
        "OtherPolicy",
        f"of the nodes that spec.nodeSelector matches belong {owners}, which come first by name; change one of the "
        "selectors so that they do not overlap",
    )


def _maintenance(nodes: Iterable[SleepNode]) -> Condition:
    names = sorted(node.name for node in nodes if node.maintenance)
    if not names:
        return _no("None")
    return _yes("PeopleWork", f"people work on {first_of(names, MOST_NAMES)}: they neither sleep nor wake")


def _recommendation(names: Iterable[NodeName], facts: SleepFacts) -> SleepRecommendation:
    ordered = sorted(names)
    watts = sum(facts.nodes[name].idle_watts for name in ordered)
    return SleepRecommendation(asleep=len(ordered), watts=round(watts), nodes=tuple(ordered[:MOST_NAMES]))


def _consolidation(nodes: Sequence[SleepNode]) -> ConsolidationStatus:
    return ConsolidationStatus(
        nodes=len(nodes),
        pods=sum(len(node.movable_pods) for node in nodes),
        watts=round(sum(node.idle_watts for node in nodes)),
        names=tuple(node.name for node in nodes[:MOST_NAMES]),
    )


def _yes(reason: str, message: str = "") -> Condition:
    return _condition(ConditionStatus.TRUE, reason, message)


def _no(reason: str, message: str = "") -> Condition:
    return _condition(ConditionStatus.FALSE, reason, message)


def _condition(status: ConditionStatus, reason: str, message: str) -> Condition:
    return Condition(type="", status=status, reason=reason, message=printable(message, _MOST_CHARACTERS))


def _conditions(
    seen: Versioned[NodeSleepPolicy], found: Mapping[str, Condition], now_s: float
) -> tuple[Condition, ...]:
    """Return the conditions that were found, and no other."""
    now = rfc3339(now_s, "seconds")
    generation = seen.metadata.generation
    conditions = tuple(each for each in seen.model.status.conditions if each.type in found)
    for kind, each in found.items():
        conditions = set_condition(
            conditions, kind, each.status, each.reason, each.message, now=now, generation=generation
        )
    return conditions
