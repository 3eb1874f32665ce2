"""The pods of a day: sizes of the demo's generated workload, arrivals by the daily cycle of the simulator. No I/O."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from joulie_core.hardware.inventory import Inventory
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.demo.day.scale import DAY_S
from joulie_sim.demo.scenario import cpu_milli, gpu_resources
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import nodes_of_classes
from joulie_sim.engine.synthetic import DIURNAL_SWING, daily_cycle
from joulie_sim.workload.generator import Mix, generate
from joulie_sim.workload.item import WorkItem

#: Share of the CPUs, and of the GPUs, that the pods occupy on average over the day.
_LOAD: Final = 0.3
_GPU_SHARE: Final = 0.3
#: Pods arrive until 21:00, and the longest takes two and a half hours on the slowest nodes: each can wait for half an
#: hour and still end by midnight.
ARRIVALS_S: Final = 21 * 3600.0
LONGEST_S: Final = 2.5 * 3600.0


def day_items(classes: Sequence[NodeClass], *, pods: int, seed: int) -> tuple[WorkItem, ...]:
    """Return the pods in order of arrival; the same arguments give the same pods.

    The day begins and ends without pods.
    """
    machines = machines_of(nodes_of_classes(classes), Inventory.load())
    sizes = sorted(cpu_milli(found) for found in classes for _ in range(found.count))
    mix = Mix(
        pods=pods,
        window_s=DAY_S,
        cpu_milli=sum(sizes),
        node_cpu_milli=sizes[len(sizes) // 2],
        gpu_resources=gpu_resources(classes),
        gpu_share=_GPU_SHARE,
        cpu_load=_LOAD,
        gpu_load=_LOAD,
        longest_s=LONGEST_S * machines.slowest_share,
    )
    items = machines.work_of(generate(mix, seed=seed))
    shares = np.array([item.arrives_s / DAY_S for item in items])
    arrivals = daily_cycle(shares, ARRIVALS_S, DIURNAL_SWING)
    return tuple(replace(item, arrives_s=float(at_s)) for item, at_s in zip(items, arrivals, strict=True))
