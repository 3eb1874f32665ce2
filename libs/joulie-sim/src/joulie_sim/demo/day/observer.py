"""Observation of one arm: watches nodes and pods, reads the live simulator and the simulated servers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp

from joulie_api.client import KubeClient
from joulie_core import labels
from joulie_core.node import Node
from joulie_core.sleep_state import SleepState
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.demo.day.accounts import DaySample, ServerReading, add_up, power_of
from joulie_sim.demo.day.wall_power import WallPower
from joulie_sim.demo.observer import Observer

_WAKING: Final = SleepState.WAKING.label


class DayObserver(Observer):
    """Fills `record` and takes samples, both in seconds of the day.

    Args:
        client: reads nodes and pods.
        sim_url: of the live simulator.
        workload: value of the pods' workload label.
        clock: seconds of the day.
        servers: by node name.
        wall_power: of all nodes.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        sim_url: str,
        workload: str,
        clock: Callable[[], float],
        servers: Mapping[str, SimulatedServer],
        wall_power: WallPower,
    ) -> None:
        super().__init__(client, sim_url=sim_url, workload=workload, clock=clock)
        #: From the decision to wake a node until it takes pods.
        self.wakes_s: list[float] = []
        self._waking_since: dict[str, float] = {}
        self._sleep_states: dict[str, str] = {}
        self._completed: dict[str, Any] = {}
        self._servers = servers
        self._wall_power = wall_power

    @property
    def slowdown(self) -> float | None:
        """Mean of the exact slowdowns of all completed pods, as of the last sample."""
        pods = sum(found["pods"] for found in self._completed.values())
        sums = (found["meanSlowdown"] * found["pods"] for found in self._completed.values() if found["pods"])
        return sum(sums) / pods if pods else None

    async def sample_servers(self, session: aiohttp.ClientSession) -> DaySample:
        """Return a sample.

        Raises:
            aiohttp.ClientError: the simulator cannot be reached, or answers with an error.
            TimeoutError: it does not answer in time.
        """
        state = await self._simulator_state(session)
        self._completed = state["completed"]
        readings = []
        for name, server in self._servers.items():
            node = state["nodes"][name]
            server.demand_watts = self._wall_power.watts(
                name, cpu_utilization=node["cpuUtilization"], gpu_watts=node["gpuWatts"]
            )
            power = power_of(server.power_state, self._sleep_states.get(name))
            readings.append(ServerReading(power, server.watts))
        watts, nodes = add_up(readings)
        counts = self.record.pod_counts().values()
        return DaySample(
            at_s=self._clock(),
            watts=watts,
            nodes=nodes,
            pending=sum(each.pending for each in counts),
            running=sum(each.running for each in counts),
            finished=sum(each.finished for each in counts),
            device_watts=state["watts"],
            device_joules=sum(state["energyJoulesByClass"].values()),
        )

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        super()._node_changed(name, old, new)
        if new is None:
            return
        state = new.labels.get(labels.SLEEP_STATE)
        before = self._sleep_states.pop(name, None)
        if state is not None:
            self._sleep_states[name] = state
        if state == before:
            return
        if state == _WAKING:
            self._waking_since[name] = self._clock()
        since_s = self._waking_since.pop(name, None) if state != _WAKING else None
        if since_s is not None and state is None:
            self.wakes_s.append(self._clock() - since_s)
