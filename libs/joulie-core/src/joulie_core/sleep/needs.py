"""Nodes that are needed: for pods without room, spare nodes, the minimum that is awake, and roll-outs of DaemonSets.

Guarantees that a node is woken for a pod only if no node that is awake or about to be has room for it, and that a node
which is needed and still cordoned or draining is taken before one that has to boot, and one whose BMC answers before
one whose BMC does not.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Final

from joulie_core.kinds.node_bmc import DesiredPower, PowerState
from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.names import NodeName
from joulie_core.sleep.bounds import BootRoom
from joulie_core.sleep.fit import PodGroup, Rooms, grouped
from joulie_core.sleep.machine import power_state
from joulie_core.sleep.model import SleepNode, SleepPod, SleepReason, SleepRecord, spare_key
from joulie_core.sleep.neighbours import MAX_RULES, Neighbours
from joulie_core.sleep.waking import RuledGroup, WakeCandidate, WakeOrder, choose_both, in_turn
from joulie_core.sleep.windows import AwakeWindow
from joulie_core.sleep_state import SleepState

#: States from which a node returns without a boot.
_NOT_YET_OFF: Final = frozenset({SleepState.CORDONED, SleepState.DRAINING})
_NOTHING_KNOWN: Final[Mapping[Hashable, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node and its record."""

    node: SleepNode
    record: SleepRecord

    @property
    def serves(self) -> bool:
        """Whether it takes pods now."""
        serving = self.record.state in (SleepState.AWAKE, SleepState.QUARANTINED)
        return serving and self.node.ready is True and not self.node.unschedulable

    @property
    def boots(self) -> bool:
        """Whether it has to boot before it takes pods again, if it sleeps or goes to sleep."""
        return self.record.state not in _NOT_YET_OFF


@dataclass(slots=True)
class Needs:
    """The nodes that are needed, why, and what is short."""

    #: What is left for further boots.
    boots: BootRoom
    reasons: dict[NodeName, SleepReason] = field(default_factory=dict)
    #: Groups that have fewer nodes than they need, even with these.
    short: set[str] = field(default_factory=set)
    #: Nodes that are about to get pods.
    used: set[NodeName] = field(default_factory=set)
    #: Nodes that may be switched on now, of those that are needed and have to boot.
    booting: set[NodeName] = field(default_factory=set)

    def add(self, each: SeenNode, reason: SleepReason) -> None:
        """Add a node that is needed; where it has to boot, only the bounds say whether it may now."""
        name = each.node.name
        self.reasons[name] = reason
        if not each.boots:
            return
        if self.boots.permits(each.node):
            self.boots.take(each.node)
            self.booting.add(name)

    def may_wake(self, each: SeenNode) -> bool:
        """Return whether a node may be woken now."""
        return not each.boots or self.boots.permits(each.node)


def min_awake(group: Iterable[SeenNode], windows: Sequence[AwakeWindow], now_s: float, settings: SleepSettings) -> int:
    """Return how many nodes of a group stay awake, with the windows that begin within its slowest boot."""
    lead_s = max((each.node.boot_s(settings.boot_timeout_seconds) for each in group), default=0.0)
    wanted = [window.min_awake for window in windows if window.covers(now_s, now_s + lead_s)]
    return max([settings.min_awake.count, *wanted])


def find_needs(
    groups: Mapping[str, Sequence[SeenNode]],
    pending: Sequence[SleepPod],
    least: Mapping[str, int],
    now_s: float,
    settings: SleepSettings,
    *,
    expected: Mapping[Hashable, int] = _NOTHING_KNOWN,
) -> Needs:
    """Return the nodes that are needed.

    Args:
        groups: the nodes.
        pending: pods that have no node, in the order in which they wait.
        least: nodes of each group that stay awake.
        now_s: the present time.
        settings: limits and times.
        expected: spare nodes that suffice, by `spare_key`; as many as the settings say where that is unknown.
    """
    seen = [each for group in groups.values() for each in group]
    needs = Needs(BootRoom.beside(((each.node, each.record) for each in seen), now_s, settings))
    for each in seen:
        if each.node.maintenance or not _can_return(each, now_s):
            continue
        if _is_requested(each.node):
            needs.add(each, SleepReason.REQUESTED)
        elif each.node.unschedulable:
            continue
        elif each.record.reason is SleepReason.LEFT_OFF:
            needs.add(each, SleepReason.LEFT_OFF)
        elif each.record.state is SleepState.ASLEEP and each.node.has_pods:
            needs.add(each, SleepReason.PODS_PRESENT)
        elif each.node.rollout_waiting:
            needs.add(each, SleepReason.ROLLOUT)
    if pending:
        _wake_for(pending, seen, needs, now_s, settings)
    _keep_awake(groups, least, needs, now_s, settings, expected=expected)
    return needs


def spare_nodes(key: Hashable, expected: Mapping[Hashable, int], settings: SleepSettings) -> int:
    """Return how many nodes of a `spare_key` stay awake without pods."""
    most = settings.min_awake.spare
    return min(most, expected.get(key, most))


def _counts(each: SeenNode, needs: Needs, now_s: float, settings: SleepSettings) -> bool:
    """Return whether a node is capacity: it serves, or it is expected to within its usual boot time."""
    if each.node.unschedulable or each.node.maintenance:
        return each.serves
    if each.serves or each.node.name in needs.reasons:
        return True
    waking = each.record.state is SleepState.WAKING and not each.record.failed_boots
    return waking and now_s - each.record.since_s <= each.node.boot_s(settings.boot_timeout_seconds)


def _can_wake(each: SeenNode, now_s: float) -> bool:
    """Return whether a node may be brought back to take pods; not one that people keep pods away from."""
    return not each.node.unschedulable and not each.node.maintenance and _can_return(each, now_s)


def _can_return(each: SeenNode, now_s: float) -> bool:
    if each.record.state in _NOT_YET_OFF:
        return True
    return each.record.state is SleepState.ASLEEP and now_s >= each.record.not_before_s


def _is_requested(node: SleepNode) -> bool:
    """Return whether a person wants a node awake."""
    return node.wake_requested or (node.power is not None and node.power.requested is DesiredPower.ON)


def _wake_for(
    pending: Sequence[SleepPod],
    seen: Sequence[SeenNode],
    needs: Needs,
    now_s: float,
    settings: SleepSettings,
) -> None:
    """Add the nodes that take pods which no node takes that is awake or about to be, no more than may boot now."""
    counted = [each.node for each in seen if _counts(each, needs, now_s, settings)]
    around = Neighbours([each.node for each in seen], (node.name for node in counted))
    rooms = Rooms(counted)
    trials = Rooms(node for node in counted if node.empty)
    turn = int(now_s)
    by_name = {each.node.name: each for each in seen}
    waiting: list[PodGroup] = []
    ruled: list[RuledGroup] = []
    groups = grouped(pending)
    concerned = [group for group in groups if around.concern(group.pod)]
    plain = [group for group in groups if not around.concern(group.pod)] if concerned else groups
    for group in (*plain, *in_turn(concerned, MAX_RULES, turn)[:MAX_RULES]):
        pod = group.pod
        rules = around.rules(pod) if around.concern(pod) else None
        placed = [] if pod.uncertain else rooms.place(group, rules=rules)
        needs.used |= {room.node.name for room, _ in placed}
        if rules is None:
            for room, count in placed:
                around.add(pod, room.node, count)
        if pod.uncertain or (pod.overdue and placed):
            # kube-scheduler finds no room on these nodes: at most one is kept without pods for it to try, or woken.
            on_trial = trials.fitting(pod, 1, rules)
            if on_trial:
                needs.used.add(trials.all[on_trial[0]].node.name)
            else:
                ruled.append(RuledGroup(PodGroup(pod, 1), rules))
        elif group.count:
            ruled.append(RuledGroup(group, rules)) if rules is not None else waiting.append(group)
    candidates = [
        WakeCandidate(each.node, _order(each, now_s))
        for each in seen
        if each.node.name not in needs.reasons and _can_wake(each, now_s) and needs.may_wake(each)
    ]
    boots = needs.boots.copy()
    for node in choose_both(ruled, waiting, candidates, around, boots=boots, turn=turn):
        needs.add(by_name[node.name], SleepReason.PENDING_PODS)
        needs.used.add(node.name)


def _order(each: SeenNode, now_s: float) -> WakeOrder:
    """Return the order of waking: with a BMC that answers, without a boot, few watts, few sleeps."""
    silent = each.boots and power_state(each.node.power, now_s) is PowerState.UNKNOWN
    return silent, each.boots, each.node.idle_watts, each.record.sleeps, each.node.name


def _keep_awake(
    groups: Mapping[str, Sequence[SeenNode]],
    least: Mapping[str, int],
    needs: Needs,
    now_s: float,
    settings: SleepSettings,
    *,
    expected: Mapping[Hashable, int],
) -> None:
    """Add nodes until the minimum of each group and the spare nodes are awake or about to be."""
    for name, group in groups.items():
        coming = sum(_counts(each, needs, now_s, settings) for each in group)
        _fill_up(group, least[name] - coming, SleepReason.MIN_AWAKE, needs, now_s)
    sharing: dict[Hashable, list[SeenNode]] = defaultdict(list)
    for each in chain.from_iterable(groups.values()):
        sharing[spare_key(each.node, settings)].append(each)
    for key, nodes in sharing.items():
        unused = (each for each in nodes if each.node.empty and each.node.name not in needs.used)
        spare = sum(_counts(each, needs, now_s, settings) for each in unused)
        _fill_up(nodes, spare_nodes(key, expected, settings) - spare, SleepReason.SPARE, needs, now_s)


def _fill_up(nodes: Sequence[SeenNode], missing: int, reason: SleepReason, needs: Needs, now_s: float) -> None:
    """Add nodes that sleep until none is missing any more."""
    sleeping = sorted(
        (each for each in nodes if each.node.name not in needs.reasons and _can_wake(each, now_s)),
        key=lambda each: _order(each, now_s),
    )
    left = missing
    for each in sleeping:
        if left <= 0:
            break
        # A node of a rack in which as many boot as may is passed over for one of another rack.
        if needs.may_wake(each):
            needs.add(each, reason)
            left -= 1
    if missing > len(sleeping):
        needs.short |= {each.node.group for each in nodes}
