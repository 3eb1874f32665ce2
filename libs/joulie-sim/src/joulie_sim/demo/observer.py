"""Observation of a run: watches nodes and pods, reads power from the simulator, and records both."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, NoReturn

import aiohttp

from joulie_api.client import KubeClient
from joulie_api.reflector.driver import Reflector
from joulie_api.resources import NODES, PODS
from joulie_api.wire import decode_node, decode_pod
from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.node import Node
from joulie_core.pod import Pod
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.record import RecordedNode, RunRecord, Sample
from joulie_sim.server.ledger import class_of
from joulie_sim.workload.item import WORKLOAD_LABEL, WorkItem

_TIMEOUT: Final = aiohttp.ClientTimeout(total=10.0)
_PLANNED_TIMEOUT_S: Final = 180.0
_PLANNED_POLL_S: Final = 0.25


class Observer:
    """Fills `record`.

    Args:
        client: reads nodes and pods.
        sim_url: of the live simulator.
        workload: value of the pods' workload label.
        clock: returns the seconds since the start of the workload.
        node_selector: selects the nodes that are simulated; the default is all of them.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        sim_url: str,
        workload: str,
        clock: Callable[[], float],
        node_selector: str = "",
    ) -> None:
        self.record = RunRecord()
        #: Energy since the first sample and exact slowdowns, as of the last one.
        self.energy_joules: dict[SchedulableClass, float] = dict.fromkeys(SchedulableClass, 0.0)
        self.slowdowns: dict[WorkloadClass, float | None] = dict.fromkeys(WorkloadClass)
        self._completed: Mapping[str, Any] = {}
        self._energy_before: dict[SchedulableClass, float] | None = None
        self._sim_url = sim_url
        self._clock = clock
        self._nodes = Reflector(client, NODES, decode_node, label_selector=node_selector)
        self._pods = Reflector(client, PODS, decode_pod, label_selector=f"{WORKLOAD_LABEL}={workload}")
        self._nodes.subscribe(self._node_changed)
        self._pods.subscribe(self._pod_changed)

    @property
    def slowdown(self) -> float | None:
        """Mean of the exact slowdowns of all completed pods, as of the last sample."""
        pods = sum(found["pods"] for found in self._completed.values())
        sums = (found["meanSlowdown"] * found["pods"] for found in self._completed.values() if found["pods"])
        return sum(sums) / pods if pods else None

    def runs(self) -> tuple[Coroutine[Any, Any, NoReturn], ...]:
        """Return the watches of the cluster, to be run as tasks and cancelled at the end."""
        return self._nodes.run(), self._pods.run()

    async def sample(self, session: aiohttp.ClientSession) -> Sample:
        """Read the simulator and record a sample.

        Raises:
            aiohttp.ClientError: the simulator cannot be reached, or answers with an error.
            TimeoutError: it does not answer in time.
        """
        state = await self._simulator_state(session)
        drawn = {SchedulableClass(node_class): joules for node_class, joules in state["energyJoulesByClass"].items()}
        if self._energy_before is None:
            self._energy_before = drawn
        self.energy_joules = {
            node_class: joules - self._energy_before[node_class] for node_class, joules in drawn.items()
        }
        self._completed = state["completed"]
        self.slowdowns = {WorkloadClass(name): found["meanSlowdown"] for name, found in self._completed.items()}
        return self.record.sample(
            {name: self._reading(name, node) for name, node in state["nodes"].items()},
            self._clock(),
            device_watts=state["watts"],
            device_joules=sum(drawn.values()),
        )

    def created(self, item: WorkItem) -> None:
        """Record that a pod is sent to the API server."""
        self.record.pod_created(item.name, item.workload_class, work_s=item.work_s, now_s=self._clock())

    async def wait_planned(
        self, check: Callable[[], Awaitable[None]], *, nodes: int, timeout_s: float = _PLANNED_TIMEOUT_S
    ) -> None:
        """Wait until the operator has assigned a profile to every one of so many nodes; `check` is called meanwhile.

        Raises:
            DemoError: it has not in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while len(self.record.classes) < nodes or self._unplanned():
                    await check()
                    await asyncio.sleep(_PLANNED_POLL_S)
        except TimeoutError:
            waiting = self._unplanned()
            raise DemoError(
                f"{len(waiting)} of {len(self.record.classes)} nodes have no profile after {timeout_s:.0f} s: "
                f"{waiting[:3]}"
            ) from None

    def _unplanned(self) -> list[str]:
        return [name for name, found in self.record.classes.items() if found is SchedulableClass.UNKNOWN]

    def _reading(self, _name: str, node: Mapping[str, Any], /) -> RecordedNode:
        """Return the reading of a node, by what the simulator says of it."""
        return RecordedNode(node["watts"], node["capWatts"], len(node["jobs"]))

    async def _simulator_state(self, session: aiohttp.ClientSession) -> Mapping[str, Any]:
        async with session.get(f"{self._sim_url}/state", timeout=_TIMEOUT, raise_for_status=True) as answer:
            state: Mapping[str, Any] = await answer.json()
        return state

    def _node_changed(self, name: str, _old: Node | None, new: Node | None) -> None:
        if new is None:
            self.record.node_gone(name)
        else:
            self.record.node_seen(name, class_of(new.labels), self._clock())

    def _pod_changed(self, _key: str, _old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self.record.pod_seen(new.name, node=new.node_name, phase=new.phase, now_s=self._clock())
