"""Nodes that kube-scheduler scores for a pod: a sample of those that pass the filters.

kube-scheduler stops filtering once it has found enough nodes, and starts the next pod's search where it stopped. It
takes the nodes zone by zone in turn, so that a sample has nodes of all zones. Source: `percentageOfNodesToScore` in
KubeSchedulerConfiguration and "Scheduler Performance Tuning" of the Kubernetes documentation.
"""

import numpy as np

from joulie_core.savings.kube_scores import nodes_to_find
from joulie_sim.engine.arrays import Bools, Ints


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
