"""Pods whose number falls and rises: sizes of the demo's generated workload, arrivals by a cycle. No I/O."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.synthetic import daily_cycle
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import WorkItem

_GPU_SHARE: Final = 0.3
_SWING: Final = 0.8
_DAY_S: Final = 86_400.0
_MILLI: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Times and load of a workload, in simulated seconds.

    Attributes:
        span_s: of the whole workload.
        longest_s: the most that a pod takes on the slowest nodes.
        load: share of the CPUs, and of the GPUs, that the pods occupy on average over the span, as far as the longest
            permits it.
        arrivals: times by which the given shares of all pods have arrived.
    """

    span_s: float
    longest_s: float
    load: float
    arrivals: Callable[[Floats], Floats]


def cyclic_items(classes: Sequence[NodeClass], cycle: Cycle, *, pods: int, seed: int) -> tuple[WorkItem, ...]:
    """Return the pods in order of arrival; the same arguments give the same pods."""
    machines = machines_of(nodes_of_classes(classes), Inventory.load())
    sizes = sorted(cpu_milli(found) for found in classes for _ in range(found.count))
    mix = Mix(
        pods=pods,
        window_s=cycle.span_s,
        cpu_milli=total_cpu_milli(classes),
        node_cpu_milli=sizes[len(sizes) // 2],
        gpu_resources=gpu_resources(classes),
        gpu_share=_GPU_SHARE,
        cpu_load=cycle.load,
        gpu_load=cycle.load,
        longest_s=cycle.longest_s * machines.slowest_share,
    )
    items = machines.work_of(generate(mix, seed=seed))
    arrivals = cycle.arrivals(np.array([item.arrives_s / cycle.span_s for item in items]))
    return tuple(replace(item, arrives_s=float(at_s)) for item, at_s in zip(items, arrivals, strict=True))


def falling_and_rising(window_s: float) -> Callable[[Floats], Floats]:
    """Return arrivals whose rate has the form of a day's, shortened to so many seconds: low, then high, then low."""
    return lambda shares: window_s / _DAY_S * daily_cycle(shares, _DAY_S, _SWING)


def cpu_milli(found: NodeClass) -> int:
    """Return the CPU of one node of a class, in thousandths."""
    return _MILLI * found.cpu.cores * found.cpu.threads_per_core


def total_cpu_milli(classes: Sequence[NodeClass]) -> int:
    """Return the CPU of all nodes, in thousandths."""
    return sum(cpu_milli(found) * found.count for found in classes)


def gpu_resources(classes: Sequence[NodeClass]) -> dict[str, int]:
    """Return the GPUs of all nodes by resource name."""
    counts: Counter[str] = Counter()
    for found in classes:
        if found.gpu is not None:
            counts[found.gpu.resource] += found.gpu.count * found.count
    return dict(counts)
