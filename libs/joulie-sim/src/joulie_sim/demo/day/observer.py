"""Observation of one arm: watches nodes and pods, reads the live simulator and the simulated servers."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn

import aiohttp

from joulie_api.client import KubeClient
from joulie_api.reflector.driver import Reflector
from joulie_api.resources import NODES, PODS
from joulie_api.wire import decode_node, decode_pod
from joulie_core import labels
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.demo.day.accounts import DaySample, ServerReading, add_up, power_of
from joulie_sim.demo.day.wall_power import WallPower
from joulie_sim.demo.record import RunRecord
from joulie_sim.server.ledger import class_of
from joulie_sim.workload.item import WORKLOAD_LABEL

_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)
_WAKING: Final = "waking"


class DayObserver:
    """Fills `record`, whose times are seconds of the clock, and takes samples.

    Args:
        client: reads nodes and pods.
        sim_url: of the live simulator.
        workload: value of the pods' workload label.
        clock: seconds of the clock since the day began.
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
        self.record = RunRecord()
        #: From the decision to wake a node until it takes pods, in seconds of the clock.
        self.wakes_clock_s: list[float] = []
        self._waking_since: dict[str, float] = {}
        self._sleep_states: dict[str, str] = {}
        self._completed: dict[str, Any] = {}
        self._sim_url = sim_url
        self._clock = clock
        self._servers = servers
        self._wall_power = wall_power
        self._nodes = Reflector(client, NODES, decode_node)
        self._pods = Reflector(client, PODS, decode_pod, label_selector=f"{WORKLOAD_LABEL}={workload}")
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    @property
    def slowdown(self) -> float | None:
        """Mean of the exact slowdowns of all completed pods, as of the last sample."""
        pods = sum(found["pods"] for found in self._completed.values())
        sums = (found["meanSlowdown"] * found["pods"] for found in self._completed.values() if found["pods"])
        return sum(sums) / pods if pods else None

    @property
    def unplanned(self) -> list[str]:
        """Nodes to which the operator has assigned no profile yet."""
        classes = self.record.classes
        return [name for name in self._servers if classes.get(name, SchedulableClass.UNKNOWN).value == "unknown"]

    def runs(self) -> tuple[Coroutine[Any, Any, NoReturn], ...]:
        """Return the watches, to be run as tasks and cancelled at the end."""
        return self._nodes.run(), self._pods.run()

    async def sample(self, session: aiohttp.ClientSession, *, speed: float) -> DaySample:
        """Return a sample; `speed` is seconds of the day per second of the clock.

        Raises:
            aiohttp.ClientError: the simulator cannot be reached, or answers with an error.
            TimeoutError: it does not answer in time.
        """
        async with session.get(f"{self._sim_url}/state", timeout=_TIMEOUT, raise_for_status=True) as answer:
            state: Mapping[str, Any] = await answer.json()
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
            at_s=self._clock() * speed,
            watts=watts,
            nodes=nodes,
            pending=sum(each.pending for each in counts),
            running=sum(each.running for each in counts),
            finished=sum(each.finished for each in counts),
            device_watts=state["watts"],
            device_joules=sum(state["energyJoulesByClass"].values()),
        )

    def _node_changed(self, name: str, _old: Node | None, new: Node | None) -> None:
        now_s = self._clock()
        if new is None:
            self.record.node_gone(name)
            return
        self.record.node_seen(name, class_of(new.labels), now_s)
        state = new.labels.get(labels.SLEEP_STATE)
        before = self._sleep_states.pop(name, None)
        if state is not None:
            self._sleep_states[name] = state
        if state == before:
            return
        if state == _WAKING:
            self._waking_since[name] = now_s
        since_s = self._waking_since.pop(name, None) if state != _WAKING else None
        if since_s is not None and state is None:
            self.wakes_clock_s.append(now_s - since_s)

    def _pod_changed(self, _key: str, _old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self.record.pod_seen(new.name, node=new.node_name, phase=new.phase, now_s=self._clock())
