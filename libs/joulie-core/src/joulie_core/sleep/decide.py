"""The next record of every node: its own state machine, then the nodes that are needed, then those that may sleep.

Guarantees, for every node that is put to sleep: it is permitted (`machine.sleep_refusal`), the group keeps its minimum
and its spare nodes, and of its zone no more than the share of the settings is off, not ready, or on the way to it; no
pod that waits has room on it and on no other node. While pending pods are unknown no node goes to sleep. No more nodes
are switched on at a time than may boot, in all and in one rack.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from joulie_core.kinds.node_sleep_policy import ConsolidationMode, SleepSettings
from joulie_core.names import NodeName
from joulie_core.sleep.bounds import BootRoom
from joulie_core.sleep.consolidation import may_be_emptied
from joulie_core.sleep.fit import Rooms
from joulie_core.sleep.machine import advance, moved, sleep_refusal
from joulie_core.sleep.model import SleepNode, SleepPod, SleepReason, SleepRecord, spare_key
from joulie_core.sleep.needs import Needs, SeenNode, find_needs, min_awake, spare_nodes
from joulie_core.sleep.windows import AwakeWindow
from joulie_core.sleep_state import GOING_TO_SLEEP, OUT_OF_SUPPLY, SleepState

#: More nodes than a cluster has.
_ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SleepCluster:
    """State of the cluster as it is seen at one moment."""

    nodes: Sequence[SleepNode]
    #: Pods that have no node, in the order in which they wait; None: unknown.
    pending: Sequence[SleepPod] | None
    windows: Sequence[AwakeWindow] = ()
    #: Spare nodes that suffice by what has come, by `spare_key`; a key that is not there is unknown.
    expected: Mapping[Hashable, int] = field(default_factory=dict)


def decide(
    cluster: SleepCluster, records: Mapping[NodeName, SleepRecord], now_s: float, settings: SleepSettings
) -> dict[NodeName, SleepRecord]:
    """Return the next record of every node.

    Args:
        cluster: the nodes and pods.
        records: by name; a node without one is awake, whatever it is.
        now_s: the present time; must not fall from call to call.
        settings: limits and times.
    """
    before = [SeenNode(node, records.get(node.name) or SleepRecord(since_s=now_s)) for node in cluster.nodes]
    seen = _advanced(before, now_s, settings)
    groups = _grouped(seen)
    least = {name: min_awake(group, cluster.windows, now_s, settings) for name, group in groups.items()}
    needs = find_needs(groups, cluster.pending or (), least, now_s, settings, expected=cluster.expected)
    next_records = {each.node.name: each.record for each in seen}
    next_records |= _woken(seen, needs, now_s)
    seen = [SeenNode(each.node, next_records[each.node.name]) for each in seen]
    if cluster.pending is not None:
        chosen = _Chooser(seen, needs, least, now_s, settings, expected=cluster.expected).chosen()
        next_records |= {
            each.node.name: moved(each.record, SleepState.CORDONED, SleepReason.IDLE, now_s) for each in chosen
        }
    return next_records


def to_empty(
    cluster: SleepCluster, records: Mapping[NodeName, SleepRecord], now_s: float, settings: SleepSettings
) -> list[SleepNode]:
    """Return the nodes that consolidation in `Act` would empty, one after the other, if pods stayed as they are.

    Args:
        cluster: the nodes and pods.
        records: by name.
        now_s: the present time.
        settings: limits and times; how long a node has been idle does not count.
    """
    acting = settings.consolidation.model_copy(update={"mode": ConsolidationMode.ACT})
    at_once = settings.rates.model_copy(update={"powering_off": _ALL, "emptying": _ALL})
    times = {"idle_seconds": 0, "min_awake_seconds": 0}
    eager = settings.model_copy(update={"consolidation": acting, "rates": at_once, **times})
    if not any(node.movable_pods and may_be_emptied(node, eager) for node in cluster.nodes):
        return []
    found = decide(cluster, records, now_s, eager)
    nodes = [node for node in cluster.nodes if node.movable_pods and _goes(found[node.name], records.get(node.name))]
    return sorted(nodes, key=lambda node: (-node.idle_watts, node.name))


def _goes(after: SleepRecord, before: SleepRecord | None) -> bool:
    return after.state is SleepState.CORDONED and (before is None or before.state is SleepState.AWAKE)


def _grouped(seen: Iterable[SeenNode]) -> dict[str, list[SeenNode]]:
    groups: dict[str, list[SeenNode]] = defaultdict(list)
    for each in seen:
        groups[each.node.group].append(each)
    return groups


def _advanced(before: Sequence[SeenNode], now_s: float, settings: SleepSettings) -> list[SeenNode]:
    """Return the nodes with their next records by their own state machines.

    One that would boot again by itself, after a boot that failed, sleeps on while as many boot as may; those that have
    slept longest go first. One that was switched on by a person boots already.
    """
    seen = [SeenNode(each.node, advance(each.record, each.node, now_s, settings)) for each in before]
    waiting = [at for at, (old, new) in enumerate(zip(before, seen, strict=True)) if _boots_by_itself(old, new)]
    others = (each for each, old in zip(seen, before, strict=True) if not _boots_by_itself(old, each))
    boots = BootRoom.beside(((each.node, each.record) for each in others), now_s, settings)
    for at in sorted(waiting, key=lambda at: before[at].record.since_s):
        if boots.permits(before[at].node):
            boots.take(before[at].node)
        else:
            seen[at] = before[at]
    return seen


def _boots_by_itself(before: SeenNode, after: SeenNode) -> bool:
    boots = before.record.state is SleepState.ASLEEP and after.record.state is SleepState.WAKING
    return boots and after.record.reason is not SleepReason.SWITCHED_ON


def _woken(seen: Iterable[SeenNode], needs: Needs, now_s: float) -> dict[NodeName, SleepRecord]:
    """Return the records of nodes that are needed; those that have to boot only as far as the bounds permit."""
    by_name = {each.node.name: each for each in seen}
    records: dict[NodeName, SleepRecord] = {}
    for name, reason in needs.reasons.items():
        record = by_name[name].record
        if record.state is not SleepState.ASLEEP:
            records[name] = moved(record, SleepState.AWAKE, reason, now_s)
        elif name in needs.booting:
            records[name] = moved(record, SleepState.WAKING, reason, now_s)
    return records


class _Chooser:
    """Chooses the nodes that go to sleep."""

    def __init__(
        self,
        seen: Sequence[SeenNode],
        needs: Needs,
        least: Mapping[str, int],
        now_s: float,
        settings: SleepSettings,
        *,
        expected: Mapping[Hashable, int],
    ) -> None:
        self._seen = seen
        self._needs = needs
        self._least = least
        self._now_s = now_s
        self._settings = settings
        self._expected = expected
        self._zones: dict[str, list[bool]] = defaultdict(list)
        self._serving: dict[str, int] = defaultdict(int)
        self._spare: dict[Hashable, int] = defaultdict(int)
        for each in seen:
            node = each.node
            self._zones[node.zone].append(each.record.state in OUT_OF_SUPPLY or node.ready is not True)
            self._serving[node.group] += each.serves
            self._spare[spare_key(node, settings)] += each.serves and node.empty and node.name not in needs.used
        self._down = {zone: sum(down) for zone, down in self._zones.items()}

    @cached_property
    def _rooms(self) -> Rooms:
        """Nodes that take pods; most decisions evict none, and need no copy of what is free."""
        return Rooms(each.node for each in self._seen if each.serves)

    def chosen(self) -> list[SeenNode]:
        """Return the nodes: many watts first, then few sleeps."""
        candidates = sorted(
            filter(self._may, self._seen),
            key=lambda each: (-each.node.idle_watts, each.record.sleeps, each.node.name),
        )
        going = [each for each in self._seen if each.record.state in GOING_TO_SLEEP]
        emptied = [each for each in going if each.node.movable_pods]
        left = self._settings.rates.powering_off - len(going)
        for each in emptied:
            self._rooms.place_all(each.node.movable_pods)
        chosen: list[SeenNode] = []
        for each in candidates:
            if len(chosen) >= left:
                break
            if each.node.movable_pods and len(emptied) >= self._settings.rates.emptying:
                continue
            # Pods of a node that is emptied have room on it.
            if emptied and each.node.name in self._rooms.received:
                continue
            if self._can_do_without(each) and self._pods_have_room(each, chosen):
                self._take(each.node)
                chosen.append(each)
                if each.node.movable_pods:
                    emptied.append(each)
        return chosen

    def _may(self, each: SeenNode) -> bool:
        record, now_s, settings = each.record, self._now_s, self._settings
        idle_since_s = record.idle_since_s
        return (
            record.state is SleepState.AWAKE
            and each.node.name not in self._needs.used
            and each.node.group not in self._needs.short
            and idle_since_s is not None
            and now_s - idle_since_s >= settings.idle_seconds
            and now_s - record.since_s >= settings.min_awake_seconds
            and now_s >= record.not_before_s
            and sleep_refusal(each.node, record, now_s, settings) is None
        )

    def _can_do_without(self, each: SeenNode) -> bool:
        node, settings = each.node, self._settings
        key = spare_key(node, settings)
        allowed = settings.max_asleep_percent / 100.0 * len(self._zones[node.zone])
        return (
            self._down[node.zone] + 1 <= allowed
            and self._serving[node.group] - 1 >= self._least[node.group]
            and self._spare[key] - node.empty >= spare_nodes(key, self._expected, settings)
        )

    def _pods_have_room(self, each: SeenNode, chosen: Sequence[SeenNode]) -> bool:
        """Return whether the pods that would be evicted have room on other nodes, beside those of `chosen`."""
        if not each.node.movable_pods:
            return True
        leaving = {each.node.name, *(other.node.name for other in chosen)}
        return self._rooms.place_all(each.node.movable_pods, without=leaving)

    def _take(self, node: SleepNode) -> None:
        self._down[node.zone] += 1
        self._serving[node.group] -= 1
        self._spare[spare_key(node, self._settings)] -= node.empty
