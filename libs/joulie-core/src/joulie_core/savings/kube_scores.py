"""Scores of kube-scheduler's resource plugins, for one pod on one node: LeastAllocated and BalancedAllocation.

Source: `NodeResourcesFitArgs` and `NodeResourcesBalancedAllocationArgs` in kubescheduler.config.k8s.io/v1, with CPU and
memory at a weight of 1, and kube-scheduler from Kubernetes 1.36 on, whose balance scores what the pod improves. Scores
are whole numbers from 0 to 100. `percentageOfNodesToScore`: "Scheduler Performance Tuning" of the Kubernetes
documentation.
"""

from collections.abc import Sequence
from typing import Final

MAX_NODE_SCORE: Final = 100.0
#: What a pod that requests nothing of a resource counts as in LeastAllocated and MostAllocated.
NONZERO_CPU_MILLI: Final = 100.0
NONZERO_MEMORY_BYTES: Final = 200.0 * 1024 * 1024
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


def default_score(
    cpu: tuple[float, float, float], memory: tuple[float, float, float], scored: tuple[float, float]
) -> float:
    """Return the sum of both scores.

    Args:
        cpu: allocatable, requested without the pod, and requested with it, each above 0 for the first.
        memory: the same.
        scored: CPU and memory that count as requested with the pod in LeastAllocated, where a pod that requests
            nothing counts as something.
    """
    free = sum(
        max(0.0, (allocatable - used) * MAX_NODE_SCORE // allocatable)
        for (allocatable, _, _), used in zip((cpu, memory), scored, strict=True)
    )
    added = _balance(cpu[2] / cpu[0], memory[2] / memory[0]) - _balance(cpu[1] / cpu[0], memory[1] / memory[0])
    return free // 2.0 + MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + added) // 2.0


def _balance(cpu_share: float, memory_share: float) -> float:
    return (1.0 - abs(min(cpu_share, 1.0) - min(memory_share, 1.0)) / 2.0) * MAX_NODE_SCORE // 1.0
