"""All nodes of a simulation: their jobs, power and energy, and which job completes next.

Guarantees that the energy of a node is exact at any moment: its power is constant between two calls of `settle`.
"""

import heapq
from math import fsum, inf

import numpy as np

from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.device_limits import NO_LIMITS, ClassCapSettings, ClassLimitSettings, limits_of_node
from joulie_sim.engine.facility import FacilityModel, PoweredNodes, idle_watts
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.node_runtime import NodeRuntime
from joulie_sim.engine.power_model import CalibratedPowerModel, NodePowerModel, full_load_watts
from joulie_sim.engine.records import IdlePower


def calibrated_models(machines: Machines) -> list[NodePowerModel]:
    """Return the model of each hardware group."""
    return [CalibratedPowerModel(group) for group in machines.groups]


class RunningNodes:
    """The nodes by index. Times must not fall from call to call.

    Args:
        machines: the nodes.
        models: model of each hardware group.
        device_limits: limits of devices that standard jobs hold; None without.
    """

    def __init__(
        self,
        machines: Machines,
        models: list[NodePowerModel],
        device_limits: ClassCapSettings | ClassLimitSettings | None = None,
    ) -> None:
        limits = [limits_of_node(group.view.gpu, device_limits) for group in machines.groups]
        self._limits = [limits[group] for group in machines.group]
        self._nodes = [
            NodeRuntime(machines.groups[group].hardware, models[group], limits[group]) for group in machines.group
        ]
        #: By node: energy up to the moment of its last change, that moment, and the watts since.
        self._joules: Floats = np.zeros(len(machines))
        self._changed_s: Floats = np.zeros(len(machines))
        self._watts: Floats = np.array([node.watts for node in self._nodes])
        #: Watts at the wall of nodes that are off or boot.
        self._fixed: dict[int, float] = {}
        self._has_jobs = np.zeros(len(machines), dtype=np.bool_)
        #: What agents measure.
        self.device_watts: Floats = np.array([node.device_watts for node in self._nodes])
        self._idle_watts: Floats = self._watts.copy()
        full_watts = [full_load_watts(group.hardware, models[index]) for index, group in enumerate(machines.groups)]
        self._full_watts = fsum(full_watts[group] for group in machines.group)
        self._tdp: Floats = np.array([machines.groups[group].view.tdp_watts for group in machines.group])
        #: Planned completions (time, node, version); a node's earlier plans are void.
        self._agenda: list[tuple[float, int, int]] = []
        self._versions = [0] * len(machines)

    def __getitem__(self, node: int) -> NodeRuntime:
        return self._nodes[node]

    def settle(self, node: int, now_s: float) -> None:
        """Take up the new power of a node that has changed now, and plan its next completion."""
        runtime = self._nodes[node]
        next_s = runtime.settle()
        self._versions[node] += 1
        if next_s < inf:
            heapq.heappush(self._agenda, (next_s, node, self._versions[node]))
        elapsed_s = now_s - self._changed_s.item(node)
        self._joules[node] += self._watts.item(node) * elapsed_s
        self._changed_s[node] = now_s
        fixed = self._fixed.get(node)
        self._watts[node] = runtime.watts if fixed is None else fixed
        self._has_jobs[node] = runtime.has_jobs
        self.device_watts[node] = runtime.device_watts if fixed is None else 0.0

    def fix_watts(self, node: int, watts: float | None, now_s: float) -> None:
        """Set the watts of a node that has no jobs and no agent, which are off or boot; None: it runs."""
        if watts is None:
            self._fixed.pop(node, None)
        else:
            self._fixed[node] = watts
        self.settle(node, now_s)

    def lift_limits(self, node: int, now_s: float, *, lifted: bool) -> None:
        """Lift the limits of devices that standard jobs hold, or put them back in force."""
        runtime = self._nodes[node]
        runtime.advance(now_s)
        runtime.limits = NO_LIMITS if lifted else self._limits[node]
        self.settle(node, now_s)

    def watts_of(self, node: int) -> float:
        """Return the watts of a node at the wall, as its BMC measures them."""
        return self._watts.item(node)

    def idle_watts_of(self, node: int) -> float:
        """Return the watts of a node that is on, without a job and without caps."""
        return self._idle_watts.item(node)

    def idle_power(self) -> IdlePower:
        """Return the watts that nodes draw now whatever their jobs do."""
        on = np.ones(len(self._watts), dtype=np.bool_)
        on[list(self._fixed)] = False
        return IdlePower(
            off=fsum(self._fixed.values()),
            empty=fsum(self._idle_watts[on & ~self._has_jobs]),
            working=fsum(self._idle_watts[on & self._has_jobs]),
        )

    def next_completion_s(self) -> float:
        """Return when the next job completes; infinity if none does."""
        agenda, versions = self._agenda, self._versions
        while agenda:
            at_s, node, version = agenda[0]
            if versions[node] == version:
                return at_s
            heapq.heappop(agenda)
        return inf

    def pop_completion(self) -> int:
        """Remove the planned completion that is next, and return its node."""
        return heapq.heappop(self._agenda)[1]

    def joules(self, now_s: float) -> Floats:
        """Return the energy of each node since the start."""
        joules: Floats = self._joules + self._watts * (now_s - self._changed_s)
        return joules

    def powered(self, means: Floats, at_s: float) -> PoweredNodes:
        """Return what a facility model takes: the mean watts of each node around a time."""
        return PoweredNodes(means, self._tdp, self._full_watts, at_s)

    def idle_watts(self) -> float:
        """Return the watts of all nodes without a job and without caps; nodes that are off stay off."""
        return fsum(self._resting())

    def idle_facility_watts(self, facility: FacilityModel) -> float:
        """Return the facility's watts for these, as the mean over a day."""
        return idle_watts(facility, self._resting(), self._tdp, self._full_watts)

    def _resting(self) -> Floats:
        watts: Floats = self._idle_watts.copy()
        for node, fixed in self._fixed.items():
            watts[node] = fixed
        return watts

    def record_work_left(self, left_s: Floats, now_s: float) -> None:
        """Write the work that running jobs have not received yet to an array over jobs."""
        for runtime in self._nodes:
            runtime.advance(now_s)
            for job, work_s in runtime.left():
                left_s[job] = work_s
