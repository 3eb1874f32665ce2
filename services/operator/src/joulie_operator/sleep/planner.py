"""The nodes of each policy, and the next record of every node, policy by policy; no I/O.

Guarantees that a node belongs to at most one policy; that only nodes of a policy in `Act` are put to sleep; that every
other node which is not awake, or which Joulie switched off last, is woken; and that a recommendation changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from joulie_api.failures import Failures
from joulie_api.wire import Versioned
from joulie_core.kinds import NodeSleepPolicy
from joulie_core.kinds.node_bmc import PowerState
from joulie_core.kinds.node_sleep_policy import ConsolidationMode, MinAwakeSpec, SleepMode, SpareOf
from joulie_core.names import NodeName
from joulie_core.sleep import (
    ArrivalHistory,
    AwakeWindow,
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
    to_empty,
)
from joulie_core.sleep.model import OTHERS
from joulie_core.sleep.shutdowns import marked_shutdown
from joulie_core.sleep_state import CLOSED_TO_PODS, SWITCHED_OFF
from joulie_operator.sleep.facts import SleepFacts
from joulie_operator.sleep.nodes import WatchedNode
from joulie_operator.sleep.windows import UnusableSpec, windows_of

_WORK: Final = "decide about sleep of a policy"


@dataclass(frozen=True, slots=True)
class UsablePolicy:
    """A policy, and its nodes."""

    name: str
    mode: SleepMode
    settings: SleepSettings
    windows: tuple[AwakeWindow, ...]
    nodes: frozenset[NodeName]
    #: Selected nodes that belong to other policies: how many, by the name of the policy.
    taken: Mapping[str, int]
    selector: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SleepPlan:
    """Plan of sleep, as it is decided at one moment."""

    #: Of nodes that belong to a policy in `Act`, that are not awake, or that Joulie switched off last.
    records: Mapping[NodeName, SleepRecord]
    #: Nodes that would be asleep, by the name of a policy in `Recommend`.
    recommended: Mapping[str, frozenset[NodeName]]
    #: Nodes that would be emptied, in that order, by the name of a policy whose consolidation is in `Recommend`.
    to_empty: Mapping[str, tuple[SleepNode, ...]]


def usable_policies(
    policies: Iterable[Versioned[NodeSleepPolicy]], nodes: Mapping[str, WatchedNode], managed: Iterable[NodeName]
) -> tuple[dict[str, UsablePolicy], dict[str, UnusableSpec]]:
    """Return the policies that can be used, by name, and the errors of the others."""
    usable: dict[str, UsablePolicy] = {}
    errors: dict[str, UnusableSpec] = {}
    everything = frozenset(name for name in managed if name in nodes)
    owners: dict[NodeName, str] = {}
    for policy in sorted(policies, key=lambda each: each.name):
        spec = policy.model.spec
        selected = {name for name in everything if spec.node_selector.items() <= nodes[name].node.labels.items()}
        own = frozenset(selected - owners.keys())
        taken = Counter(owners[name] for name in selected - own)
        owners |= dict.fromkeys(own, policy.name)
        try:
            windows = windows_of(spec)
        except UnusableSpec as error:
            errors[policy.name] = error
            continue
        usable[policy.name] = UsablePolicy(policy.name, spec.mode, spec, windows, own, taken, spec.node_selector)
    return usable, errors


@dataclass(slots=True)
class SleepPlanner:
    """Plans; between two calls it remembers what it has recommended, and by policy which nodes came into use."""

    failures: Failures
    release: SleepSettings = field(default_factory=SleepSettings)
    """Times and rates for nodes that belong to no policy in `Act`."""
    _imagined: dict[NodeName, SleepRecord] = field(default_factory=dict)
    _histories: dict[str, ArrivalHistory] = field(default_factory=dict)

    def plan(
        self,
        facts: SleepFacts,
        records: Mapping[NodeName, SleepRecord],
        policies: Iterable[UsablePolicy],
        now_s: float,
    ) -> SleepPlan:
        """Decide.

        Args:
            facts: what is seen.
            records: of all nodes.
            policies: those that can be used.
            now_s: the present time.
        """
        policies = list(policies)
        by_arrivals = (each.name for each in policies if each.settings.min_awake.spare_of is SpareOf.ARRIVALS)
        self._histories = {name: self._histories.get(name) or ArrivalHistory() for name in by_arrivals}
        acting = [policy for policy in policies if policy.mode is SleepMode.ACT]
        kept = {name for policy in acting for name in policy.nodes}
        released = frozenset(
            name
            for name, record in records.items()
            if name not in kept and (not _is_awake(record) or _was_switched_off(facts.nodes.get(name)))
        )
        current = dict(records)
        decided: dict[NodeName, SleepRecord] = {}
        for policy in acting:
            # What fails for one policy leaves its nodes in their states.
            with self.failures.contained(_WORK, policy=policy.name):
                found = self._decide(policy, facts, current, now_s)
                current |= found
                decided |= found
        if released:
            # All of them have to be awake, as fast as the rates permit.
            all_nodes = MinAwakeSpec.model_construct(count=len(facts.nodes), spare=0)
            everything = self.release.model_copy(update={"min_awake": all_nodes})
            rest = UsablePolicy("", SleepMode.ACT, everything, (), released, {}, {})
            together = SleepFacts({name: replace(node, group="") for name, node in facts.nodes.items()}, facts.pending)
            with self.failures.contained(_WORK, policy=rest.name):
                decided |= self._decide(rest, together, current, now_s)
        recommended: dict[str, frozenset[NodeName]] = {}
        emptied: dict[str, tuple[SleepNode, ...]] = {}
        for policy in policies:
            if policy.mode is SleepMode.OBSERVE:
                continue
            with self.failures.contained(_WORK, policy=policy.name):
                seen, states = facts, current
                if policy.mode is SleepMode.RECOMMEND:
                    seen, states = self._imagine(facts, current, policy, now_s)
                    found = self._decide(policy, seen, states, now_s)
                    self._imagined |= found
                    states = {**states, **found}
                    closed = (name for name, record in found.items() if record.state in CLOSED_TO_PODS)
                    recommended[policy.name] = frozenset(closed)
                if policy.settings.consolidation.mode is ConsolidationMode.RECOMMEND:
                    emptied[policy.name] = self._to_empty(policy, seen, states, now_s)
        planned = {name for policy in policies if policy.mode is SleepMode.RECOMMEND for name in policy.nodes}
        self._imagined = {name: record for name, record in self._imagined.items() if name in planned}
        return SleepPlan(decided, recommended, emptied)

    def _decide(
        self, policy: UsablePolicy, facts: SleepFacts, records: Mapping[NodeName, SleepRecord], now_s: float
    ) -> dict[NodeName, SleepRecord]:
        """Decide about the nodes of a policy."""
        cluster, used = _seen_by(policy, facts, records)
        history = self._histories.get(policy.name)
        if history is not None:
            history.look(cluster.nodes, used, now_s, policy.settings)
        found = decide(self._expecting(policy, cluster, now_s), used, now_s, policy.settings)
        return {name: found[name] for name in policy.nodes if name in found}

    def _to_empty(
        self, policy: UsablePolicy, facts: SleepFacts, records: Mapping[NodeName, SleepRecord], now_s: float
    ) -> tuple[SleepNode, ...]:
        """Return the nodes of a policy that consolidation would empty."""
        cluster, used = _seen_by(policy, facts, records)
        found = to_empty(self._expecting(policy, cluster, now_s), used, now_s, policy.settings)
        return tuple(node for node in found if node.name in policy.nodes)

    def _expecting(self, policy: UsablePolicy, cluster: SleepCluster, now_s: float) -> SleepCluster:
        """Return a cluster with the spare nodes that suffice by the history of a policy; unknown without one."""
        history = self._histories.get(policy.name)
        return cluster if history is None else replace(cluster, expected=history.expected(now_s))

    def _imagine(
        self, facts: SleepFacts, records: Mapping[NodeName, SleepRecord], policy: UsablePolicy, now_s: float
    ) -> tuple[SleepFacts, dict[NodeName, SleepRecord]]:
        """Return what would be seen if a policy in `Recommend` had been in `Act`."""
        imagined = {name: record for name, record in self._imagined.items() if name in policy.nodes}
        for name, record in imagined.items():
            node = facts.nodes.get(name)
            # Pods that have come since would not have come to a node that is off; the node counts as woken for them.
            if record.state in CLOSED_TO_PODS and (node is None or not node.empty):
                imagined[name] = SleepRecord(since_s=now_s, sleeps=record.sleeps)
        nodes = {
            name: _imagined(node, imagined.get(name), now_s) if name in policy.nodes else node
            for name, node in facts.nodes.items()
        }
        return SleepFacts(nodes, facts.pending), {**records, **imagined}


def _seen_by(
    policy: UsablePolicy, facts: SleepFacts, records: Mapping[NodeName, SleepRecord]
) -> tuple[SleepCluster, dict[NodeName, SleepRecord]]:
    """Return the nodes as a policy decides about them; those of others count in their zones and have room for pods."""
    nodes: list[SleepNode] = []
    used: dict[NodeName, SleepRecord] = {}
    for name, node in facts.nodes.items():
        record = records.get(name)
        if name in policy.nodes:
            nodes.append(node)
            if record is not None:
                used[name] = record
        else:
            # Without power facts it is neither put to sleep nor woken here.
            going = record is not None and record.state in CLOSED_TO_PODS
            nodes.append(replace(node, group=OTHERS, power=None, ready=False if going else node.ready))
            if record is not None and record.state is SleepState.WAKING:
                used[name] = record
    return SleepCluster(nodes=nodes, pending=facts.pending, windows=policy.windows), used


def _imagined(node: SleepNode, record: SleepRecord | None, now_s: float) -> SleepNode:
    """Return a node as it would be seen in a state that is only imagined, with a wake path that is proved."""
    state = record.state if record is not None else SleepState.AWAKE
    off = state in SWITCHED_OFF
    known = node.power
    power = NodePowerFacts(
        state=PowerState.OFF if off else PowerState.ON,
        sampled_at_s=now_s,
        reachable=True,
        wake_proven=True,
        off_allowed=known is None or known.off_allowed,
        boot_s=known.boot_s if known is not None else None,
        way_off=known is None or known.way_off,
        readable=known is None or known.readable,
    )
    return replace(node, power=power, ready=False if off else node.ready, cordoned=state is not SleepState.AWAKE)


def _is_awake(record: SleepRecord) -> bool:
    return record.state is SleepState.AWAKE


def _was_switched_off(node: SleepNode | None) -> bool:
    return node is not None and marked_shutdown(node) is not None
