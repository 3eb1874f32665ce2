"""The openb-2023 trace, scaled down and compressed in time.

Conversion of the trace to a workload:

- Equal nodes form a group; a group of n nodes becomes `max(1, round(n * scale))`, so that none is lost.
- Pods: the densest sequence of consecutive pods of the requested length (the shortest time between first and last
  arrival), among those that were ever scheduled. Arrivals keep their order and relative distances, compressed to the
  window.
- Work: the time from scheduling to deletion. It ranges from seconds to months, so it has a factor of its own: all work
  is multiplied by the number with which the pods offer the requested load, within bounds.
- LS and Guaranteed pods are performance pods, BE and Burstable ones standard.
- A share of a GPU is rounded up to a whole one, since Kubernetes counts whole GPUs; the share becomes its utilization.
  Whole GPUs and cores have a constant utilization: the trace has none.

No I/O: `joulie_sim.workload.openb_csv` reads the files.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.load import Capacity, DurationBounds, fit_durations
from joulie_sim.workload.openb_csv import Qos, TraceNode, TracePod

_CPU_UTILIZATION: Final = 0.6
_GPU_UTILIZATION: Final = 0.9
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes of a trace; `cpu_milli` counts hardware threads."""

    gpu_model: str
    gpus: int
    cpu_milli: int
    memory_mib: int
    count: int


def scaled_groups(nodes: Sequence[TraceNode], scale: float) -> tuple[NodeGroup, ...]:
    """Return the groups of nodes at `scale` in (0, 1], largest first; every group keeps a node."""
    counts = Counter((node.gpu_model, node.gpus, node.cpu_milli, node.memory_mib) for node in nodes)
    return tuple(
        NodeGroup(*shape, count=max(1, round(count * scale)))
        for shape, count in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    )


def capacity_of(groups: Sequence[NodeGroup]) -> Capacity:
    """Return the allocatable resources of the groups."""
    return Capacity(
        cpu_milli=sum(group.cpu_milli * group.count for group in groups),
        gpus=sum(group.gpus * group.count for group in groups),
    )


def densest(pods: Sequence[TracePod], count: int) -> tuple[TracePod, ...]:
    """Return the `count` consecutive scheduled pods that arrived in the shortest time; all pods if there are fewer."""
    arrivals = sorted((pod for pod in pods if pod.scheduled_s is not None), key=lambda pod: (pod.created_s, pod.name))
    if len(arrivals) <= count:
        return tuple(arrivals)
    first = min(
        range(len(arrivals) - count + 1),
        key=lambda index: arrivals[index + count - 1].created_s - arrivals[index].created_s,
    )
    return tuple(arrivals[first : first + count])


def replay(
    pods: Sequence[TracePod],
    *,
    capacity: Capacity,
    window_s: float,
    load: float,
    longest_s: float,
    span: tuple[int, int] | None = None,
) -> tuple[WorkItem, ...]:
    """Return the pods as a workload that arrives within `window_s` and offers `load` of the capacity over it.

    Args:
        pods: of the trace.
        capacity: of the nodes.
        window_s: in which the pods arrive.
        load: in the mean over the window.
        longest_s: limit of the work of a pod.
        span: seconds of the trace that become the window; None: from the first arrival to the last one.
    """
    if not pods:
        return ()
    start_s, stop_s = span or (min(pod.created_s for pod in pods), max(pod.created_s for pod in pods))
    span_s = max(1, stop_s - start_s)
    items = [_item(pod, arrives_s=(pod.created_s - start_s) / span_s * window_s) for pod in pods]
    return fit_durations(
        items, capacity=capacity, window_s=window_s, load=load, bounds=DurationBounds(longest_s=longest_s)
    )


def _item(pod: TracePod, *, arrives_s: float) -> WorkItem:
    performance = pod.qos in (Qos.LATENCY_SENSITIVE, Qos.GUARANTEED)
    started_s = pod.created_s if pod.scheduled_s is None else pod.scheduled_s
    return WorkItem(
        name=pod.name,
        arrives_s=arrives_s,
        workload_class=WorkloadClass.PERFORMANCE if performance else WorkloadClass.STANDARD,
        cpu_milli=pod.cpu_milli,
        memory_mib=pod.memory_mib,
        gpus=pod.gpus,
        work_s=max(1.0, pod.deleted_s - started_s),
        cpu_utilization=_CPU_UTILIZATION,
        gpu_utilization=min(_GPU_UTILIZATION, pod.gpu_milli / _MILLI) if pod.gpus else 0.0,
    )
