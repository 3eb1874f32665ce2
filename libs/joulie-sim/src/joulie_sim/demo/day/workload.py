"""The pods of a day: sizes of the demo's generated workload, arrivals by the daily cycle of the simulator. No I/O."""

from collections.abc import Sequence
from typing import Final

from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_sim.demo.cycle import Cycle, cyclic_items
from joulie_sim.demo.day.scale import DAY_S
from joulie_sim.engine.synthetic import DIURNAL_SWING, daily_cycle
from joulie_sim.workload.item import WorkItem

#: Share of the CPUs, and of the GPUs, that the pods occupy on average over the day.
_LOAD: Final = 0.3
#: Pods arrive until 21:00, and the longest takes two and a half hours on the slowest nodes: each can wait for half an
#: hour and still end by midnight.
ARRIVALS_S: Final = 21 * 3600.0
LONGEST_S: Final = 2.5 * 3600.0


def day_items(classes: Sequence[NodeClass], *, pods: int, seed: int) -> tuple[WorkItem, ...]:
    """Return the pods in order of arrival; the same arguments give the same pods.

    The day begins and ends without pods.
    """
    cycle = Cycle(
        span_s=DAY_S,
        longest_s=LONGEST_S,
        load=_LOAD,
        arrivals=lambda shares: daily_cycle(shares, ARRIVALS_S, DIURNAL_SWING),
    )
    return cyclic_items(classes, cycle, pods=pods, seed=seed)
