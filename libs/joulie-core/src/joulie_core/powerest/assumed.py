"""Pods that are placed but not yet in the measurement.

Between a binding and the first measurement that contains it, a node looks as empty as before, and a burst of equal pods
would pile up on it. This ledger remembers those pods. A measurement covers a pod if it arrived at least one telemetry
interval after the binding: what arrives earlier may have been read before the pod drew any power.

Both instants are of one monotonic clock, that of the process which observes them, so that no clock skew between
machines matters. A pod leaves the ledger when a measurement covers it or when it has ended, whichever is first. The
ledger holds no watts: those depend on hardware that may be learnt later.
Source: contracts, decision 10.
"""

from dataclasses import dataclass

from joulie_core.names import NodeName
from joulie_core.powerest.demand import PodDemand


@dataclass(frozen=True, slots=True)
class _Entry:
    demand: PodDemand
    bound_at_s: float


class AssumedPods:
    """The ledger. Every method that may change a node's pods says which nodes it changed."""

    def __init__(self, telemetry_interval_s: float) -> None:
        self._interval_s = telemetry_interval_s
        #: Entries by node, then by pod key; no node is kept without entries.
        self._nodes: dict[NodeName, dict[str, _Entry]] = {}
        #: Where each pod is entered; exactly the pods of `_nodes`.
        self._node_of: dict[str, NodeName] = {}

    def bind(self, pod_key: str, node: NodeName, demand: PodDemand, now_s: float) -> set[NodeName]:
        """Enter a pod that was seen to be bound now; a pod of the same key elsewhere is forgotten."""
        changed = self.forget(pod_key)
        self._nodes.setdefault(node, {})[pod_key] = _Entry(demand, now_s)
        self._node_of[pod_key] = node
        return changed | {node}

    def forget(self, pod_key: str) -> set[NodeName]:
        """Drop a pod that has ended or is gone; pods that are not entered are none of our business."""
        node = self._node_of.pop(pod_key, None)
        if node is None:
            return set()
        entries = self._nodes[node]
        del entries[pod_key]
        if not entries:
            del self._nodes[node]
        return {node}

    def measure(self, node: NodeName, now_s: float) -> set[NodeName]:
        """Drop the pods that a measurement arriving now covers."""
        covered = [
            pod_key
            for pod_key, entry in self._nodes.get(node, {}).items()
            if entry.bound_at_s + self._interval_s <= now_s
        ]
        for pod_key in covered:
            self.forget(pod_key)
        return {node} if covered else set()

    def demands(self, node: NodeName) -> tuple[PodDemand, ...]:
        """Return the demands of the pods that the node's measurement does not contain yet."""
        return tuple(entry.demand for entry in self._nodes.get(node, {}).values())

    def __len__(self) -> int:
        return len(self._node_of)

    def check(self) -> None:
        """Assert the invariants stated at the attributes."""
        entered = {pod_key: node for node, entries in self._nodes.items() for pod_key in entries}
        assert entered == self._node_of
        assert all(self._nodes.values())
