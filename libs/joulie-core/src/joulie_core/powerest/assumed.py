"""Pods that are placed, or about to be, but not yet in the measurement.

Between a decision and the first measurement that contains the pod, a node appears as empty as before, and a burst of
equal pods would pile up on it. This ledger remembers those pods by their uid, in two stages:

- *Expected*: the pod was scored just now and will probably go to the best node, but was not seen there. Holds for
  a short window; the binding settles it, wherever the pod really went.
- *Bound*: the pod was seen on the node. A measurement covers it if it arrived at least one telemetry interval after the
  binding: what arrives earlier may have been read before the pod drew any power.

All instants are of one monotonic clock, that of the process which observes them, so that no clock skew between
machines matters. A pod leaves the ledger when its expectation has run out, when a measurement covers it or when it has
ended, whichever is first. The ledger holds no watts: those depend on hardware that may be learnt later.
Source: docs/decisions/0013-conventions.md.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from joulie_core.names import NodeName
from joulie_core.powerest.pod_demand import PodDemand

_NO_PODS: Final[Mapping[PodDemand, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Entry:
    node: NodeName
    demand: PodDemand
    #: When the pod was scored or seen to be bound.
    since_s: float
    bound: bool


class _DemandCounts:
    """Numbers of pods by node and demand: a node that is being filled has many pods in flight, of few demands."""

    def __init__(self) -> None:
        #: No node and no demand is kept without a pod.
        self._by_node: dict[NodeName, dict[PodDemand, int]] = {}

    def shift(self, entry: _Entry, change: int) -> None:
        counts = self._by_node.setdefault(entry.node, {})
        counts[entry.demand] = counts.get(entry.demand, 0) + change
        if not counts[entry.demand]:
            del counts[entry.demand]
            if not counts:
                del self._by_node[entry.node]

    def of(self, node: NodeName) -> Mapping[PodDemand, int]:
        return self._by_node.get(node, _NO_PODS)

    def check(self, entries: Iterable[_Entry]) -> None:
        plain = Counter((entry.node, entry.demand) for entry in entries)
        assert plain == {(node, of): count for node, counts in self._by_node.items() for of, count in counts.items()}
        assert all(self._by_node.values())


class AssumedPods:
    """The ledger. Every method that may change a node's pods returns the nodes whose demand changed.

    Args:
        telemetry_interval_s: age of a binding from which a measurement covers it.
        window_s: how long a pod is expected on a node without being seen there; 0 expects nothing.
    """

    def __init__(self, telemetry_interval_s: float, window_s: float) -> None:
        self._interval_s = telemetry_interval_s
        self._window_s = window_s
        self._pods: dict[str, _Entry] = {}
        #: The uids of `_pods` by node; no node is kept without any.
        self._uids_of: dict[NodeName, set[str]] = {}
        self._counts = _DemandCounts()
        #: Of the expected pods.
        self._expected_counts = _DemandCounts()
        #: The expected pods of `_pods`, the one that runs out first before all others.
        self._expected: dict[str, None] = {}

    def expect(self, uid: str, node: NodeName, demand: PodDemand, now_s: float) -> set[NodeName]:
        """Enter a pod that will probably be bound to the node; one that is bound already stays where it is."""
        old = self._pods.get(uid)
        if self._window_s <= 0 or (old is not None and old.bound):
            return set()
        return self._enter(uid, _Entry(node, demand, now_s, bound=False))

    def bind(self, uid: str, node: NodeName, demand: PodDemand, now_s: float) -> set[NodeName]:
        """Enter a pod that was seen to be bound now, wherever it was expected or entered before."""
        return self._enter(uid, _Entry(node, demand, now_s, bound=True))

    def forget(self, uid: str) -> set[NodeName]:
        """Drop a pod that has ended or is gone; pods that are not entered are none of our business."""
        entry = self._pods.pop(uid, None)
        if entry is None:
            return set()
        self._expected.pop(uid, None)
        self._count(entry, -1)
        uids = self._uids_of[entry.node]
        uids.remove(uid)
        if not uids:
            del self._uids_of[entry.node]
        return {entry.node}

    def measure(self, node: NodeName, now_s: float) -> set[NodeName]:
        """Drop the pods that a measurement arriving now covers."""
        pods = {uid: self._pods[uid] for uid in self._uids_of.get(node, ())}
        covered = [uid for uid, pod in pods.items() if pod.bound and pod.since_s + self._interval_s <= now_s]
        for uid in covered:
            self.forget(uid)
        return {node} if covered else set()

    def expire(self, now_s: float) -> set[NodeName]:
        """Drop the pods that were expected and not seen within the window."""
        overdue: list[str] = []
        for uid in self._expected:
            if self._pods[uid].since_s + self._window_s > now_s:
                break
            overdue.append(uid)
        return {node for uid in overdue for node in self.forget(uid)}

    def demands(self, node: NodeName) -> tuple[PodDemand, ...]:
        """Return the demands of the pods that the node's measurement does not contain yet."""
        return tuple(demand for demand, count in self.counts(node).items() for _ in range(count))

    def counts(self, node: NodeName) -> Mapping[PodDemand, int]:
        """Return how many pods of each demand the node's measurement does not contain yet."""
        return self._counts.of(node)

    def expected(self, node: NodeName) -> Mapping[PodDemand, int]:
        """Return how many pods of each demand will probably be bound to the node and were not seen there."""
        return self._expected_counts.of(node)

    def __len__(self) -> int:
        return len(self._pods)

    def check(self) -> None:
        """Assert the invariants stated at the attributes."""
        assert {uid: node for node, uids in self._uids_of.items() for uid in uids} == {
            uid: entry.node for uid, entry in self._pods.items()
        }
        assert all(self._uids_of.values())
        assert self._expected.keys() == {uid for uid, entry in self._pods.items() if not entry.bound}
        self._counts.check(self._pods.values())
        self._expected_counts.check(self._pods[uid] for uid in self._expected)
        since = [self._pods[uid].since_s for uid in self._expected]
        assert since == sorted(since)

    def _enter(self, uid: str, entry: _Entry) -> set[NodeName]:
        old = self._pods.get(uid)
        changed = self.forget(uid) | {entry.node}
        self._pods[uid] = entry
        self._uids_of.setdefault(entry.node, set()).add(uid)
        if not entry.bound:
            self._expected[uid] = None
        self._count(entry, 1)
        unchanged = old is not None and (old.node, old.demand) == (entry.node, entry.demand)
        return set() if unchanged else changed

    def _count(self, entry: _Entry, change: int) -> None:
        self._counts.shift(entry, change)
        if not entry.bound:
            self._expected_counts.shift(entry, change)
