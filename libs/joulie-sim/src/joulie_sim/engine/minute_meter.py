"""Means over minutes: power of the nodes and of the facility, and what the cluster does at the end of each."""

from math import fsum

import numpy as np

from joulie_core.sleep import SleepState
from joulie_core.transition import NodeState
from joulie_sim.engine.arrays import Floats
from joulie_sim.engine.control_plane import ControlPlane
from joulie_sim.engine.facility import FacilityModel
from joulie_sim.engine.node_sleep import NodeSleep
from joulie_sim.engine.records import MinuteRecords
from joulie_sim.engine.running_nodes import RunningNodes


class MinuteMeter:
    """The minutes so far.

    Args:
        nodes: the nodes.
        count: how many they are.
        facility: the model of the facility.
        control: Joulie's decisions; None without Joulie.
        sleep: sleeping nodes; None without.
    """

    def __init__(
        self,
        nodes: RunningNodes,
        count: int,
        facility: FacilityModel,
        control: ControlPlane | None,
        sleep: NodeSleep | None = None,
    ) -> None:
        self.records = MinuteRecords()
        self.facility_joules = 0.0
        self._nodes = nodes
        self._count = count
        self._facility = facility
        self._control = control
        self._sleep = sleep
        self._joules: Floats = np.zeros(count)
        self._power_cycles = 0

    def end(self, now_s: float, length_s: float, *, running: int, waiting: int) -> None:
        """End a minute, of which the last one may be shorter."""
        joules = self._nodes.joules(now_s)
        means = (joules - self._joules) / length_s
        self._joules = joules
        facility = self._facility.watts(self._nodes.powered(means, now_s - length_s / 2.0))
        self.facility_joules += facility * length_s
        records, control = self.records, self._control
        records.ends_s.append(now_s)
        records.it_watts.append(fsum(means))
        records.facility_watts.append(facility)
        records.running_jobs.append(running)
        records.waiting_jobs.append(waiting)
        performance = control.count(NodeState.ACTIVE_PERFORMANCE) if control is not None else self._count
        records.performance_nodes.append(performance)
        records.asleep_nodes.append(self._sleep.count(SleepState.ASLEEP) if self._sleep is not None else 0)
        records.waking_nodes.append(self._sleep.count(SleepState.WAKING) if self._sleep is not None else 0)
        power_cycles = self._sleep.power_cycles if self._sleep is not None else 0
        records.power_cycles.append(power_cycles - self._power_cycles)
        self._power_cycles = power_cycles
        idle = self._nodes.idle_power()
        records.off_watts.append(idle.off)
        records.empty_watts.append(idle.empty)
        records.working_idle_watts.append(idle.working)
        records.draining_nodes.append(control.count(NodeState.DRAINING_PERFORMANCE) if control is not None else 0)
