"""Observation of a run whose nodes sleep: the power of servers at the wall, and what nodes and their wakes do."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import aiohttp

from joulie_api.client import KubeClient
from joulie_core import labels
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.node import Node
from joulie_core.sleep_state import SleepState
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.record import RecordedNode, Sample
from joulie_sim.demo.sleeping.power import power_of
from joulie_sim.demo.sleeping.servers import SleepingServers

_WAKING: Final = SleepState.WAKING.label


class SleepingObserver(Observer):
    """Fills `record` with the watts of servers at the wall; the energy is that of the samples.

    Args:
        client: reads nodes and pods.
        sim_url: of the live simulator.
        workload: value of the pods' workload label.
        clock: simulated seconds since the start of the workload.
        servers: of the nodes.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        sim_url: str,
        workload: str,
        clock: Callable[[], float],
        servers: SleepingServers,
    ) -> None:
        super().__init__(client, sim_url=sim_url, workload=workload, clock=clock)
        #: From the decision to wake a node until it takes pods.
        self.wakes_s: list[float] = []
        self._waking_since: dict[str, float] = {}
        self._sleep_states: dict[str, str] = {}
        self._servers = servers
        self._joules = dict.fromkeys(SchedulableClass, 0.0)

    async def sample(self, session: aiohttp.ClientSession) -> Sample:
        """Read the simulator and the servers and record a sample; errors as without servers."""
        before = self.record.samples[-1:]
        sample = await super().sample(session)
        for last in before:
            for node_class, found in last.by_class.items():
                self._joules[node_class] += found.watts * (sample.at_s - last.at_s)
        self.energy_joules = dict(self._joules)
        return sample

    def _reading(self, name: str, node: Mapping[str, Any], /) -> RecordedNode:
        server = self._servers.servers[name]
        server.demand_watts = self._servers.wall_power.watts(
            name, cpu_utilization=node["cpuUtilization"], gpu_watts=node["gpuWatts"]
        )
        power = power_of(server.power_state, self._sleep_states.get(name))
        return RecordedNode(server.watts, node["capWatts"], len(node["jobs"]), power)

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
