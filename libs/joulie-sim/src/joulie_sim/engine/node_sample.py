"""Nodes that kube-scheduler scores for a pod: a sample of those that pass the filters.

kube-scheduler stops filtering once it has found enough nodes, and starts the next pod's search where it stopped. It
takes the nodes zone by zone in turn, so that a sample has nodes of all zones. Source: `percentageOfNodesToScore` in
KubeSchedulerConfiguration and "Scheduler Performance Tuning" of the Kubernetes documentation.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from joulie_sim.engine.arrays import Bools, Ints

#: Fewer nodes than this are never left out.
LEAST_NODES: Final = 100
LEAST_PCT: Final = 5
_ADAPTIVE_PCT: Final = 50
_NODES_PER_PCT: Final = 125


def nodes_to_find(nodes: int, percentage: int) -> int:
    """Return how many nodes that pass the filters are enough; a `percentage` of 0 adapts to the cluster's size."""
    if nodes < LEAST_NODES:
        return nodes
    if percentage == 0:
        percentage = max(LEAST_PCT, _ADAPTIVE_PCT - nodes // _NODES_PER_PCT)
    return max(LEAST_NODES, nodes * percentage // 100)


def zone_order(zones: Sequence[str]) -> list[int]:
    """Return the indices of the nodes in kube-scheduler's order: one of each zone in turn, in order of appearance."""
    by_zone: dict[str, list[int]] = {}
    for index, zone in enumerate(zones):
        by_zone.setdefault(zone, []).append(index)
    longest = max(map(len, by_zone.values()), default=0)
    return [members[turn] for turn in range(longest) for members in by_zone.values() if turn < len(members)]


class NodeSample:
    """The rotating search over nodes that are in kube-scheduler's order.

    Args:
        nodes: number of nodes.
        percentage: `percentageOfNodesToScore`.
    """

    def __init__(self, nodes: int, percentage: int) -> None:
        self._nodes = nodes
        self._enough = nodes_to_find(nodes, percentage)
        self.start = 0

    def take(self, fits: Bools) -> Ints:
        """Return the sample of the nodes that fit, in the order in which they are found, and move the start."""
        found: Ints = np.flatnonzero(fits)
        if len(found) <= self._enough:
            # All nodes were examined, so that the start stays where it is.
            return found
        first = int(np.searchsorted(found, self.start))
        end = first + self._enough
        if end < len(found):
            self.start = int(found[end])
            return found[first:end]
        rest = end - len(found)
        self.start = int(found[rest])
        return np.concatenate((found[first:], found[:rest]))
