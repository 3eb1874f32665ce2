"""One arm of a day: a cluster of its own with the real services, a server with a BMC for each node, and the pods.

Guarantees that both arms differ in one object, the NodeSleepPolicy, and that the cluster is stopped however it ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import aiohttp

from joulie_api.client import KubeClient
from joulie_api.resources import NODE_SLEEP_POLICIES
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.day.accounts import ArmDay, DaySample
from joulie_sim.demo.day.observer import DayObserver
from joulie_sim.demo.day.scale import DAY_S, DayScale, sleep_policy, stack_config
from joulie_sim.demo.day.servers import DayServers
from joulie_sim.demo.day.wall_power import WallPower
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.stopwatch import Stopwatch
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack
from joulie_sim.workload.item import WorkItem

_WORKLOAD: Final = "day"
_SAMPLE_S: Final = 0.5
#: With 5 s a node that has booted kept the taint of an unreachable one for up to 12 minutes of the day.
_NODE_MONITOR_S: Final = 0.5
#: Longest run over the length of the day.
_DURATION_FACTOR: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPlan:
    """The nodes, the pods with times of the day, and the scale; `spare` as in NodeSleepPolicy, None: no sleep."""

    title: str
    classes: Sequence[NodeClass]
    items: Sequence[WorkItem]
    scale: DayScale
    spare: int | None


class DayArm:
    """One arm, created inside a running event loop; `show` gets each sample."""

    def __init__(self, plan: DayPlan, *, reporter: Reporter, show: Callable[[DaySample], None]) -> None:
        self._plan = plan
        self._reporter = reporter
        self._show = show
        self._stopwatch = Stopwatch()
        self._clock = self._stopwatch.seconds
        self._wall_power = WallPower(plan.classes)
        self._servers = DayServers(self._wall_power, scale=plan.scale, clock=asyncio.get_running_loop().time)

    async def run(self, directory: Path) -> ArmDay:
        """Run the day and return what was observed; the BMCs' certificates are written to `directory`.

        Raises:
            DemoError: the operator does not plan the nodes in time.
            DevClusterError: the cluster or a service failed; also in groups.
        """
        config = ClusterConfig(
            name="joulie-demo",
            nodes=tuple(self._plan.classes),
            scheduler=SchedulerSettings(packing=True),
            node_monitor_period_s=_NODE_MONITOR_S,
        )
        async with (
            DevCluster(config, reporter=self._reporter) as cluster,
            JoulieStack(cluster, stack_config(self._plan.scale)) as stack,
            self._servers.served(directory) as served,
            await cluster.client(user_agent="joulie-demo") as client,
        ):
            await stack.start(Service.OUTOFBAND)
            await self._servers.register(client, served)
            self._reporter.note(f"control plane, services and BMCs are up in {self._clock():.0f} s")
            return await self._observe(cluster, stack, client)

    async def _observe(self, cluster: DevCluster, stack: JoulieStack, client: KubeClient) -> ArmDay:
        observer = DayObserver(
            client,
            sim_url=stack.sim_url,
            workload=_WORKLOAD,
            clock=lambda: self._plan.scale.day_s(self._clock()),
            servers=self._servers.servers,
            wall_power=self._wall_power,
        )
        supervisor = Supervisor(stack.services.values(), self._reporter, check_cluster=cluster.check)
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            following: list[asyncio.Task[Any]] = [group.create_task(work) for work in observer.runs()]
            following.append(group.create_task(self._servers.follow(client)))
            try:
                await self._servers.prove(client)
                self._reporter.note(f"every server was powered off and on once; {self._clock():.0f} s")
                await observer.wait_planned(supervisor.check, nodes=len(self._servers.servers))
                if self._plan.spare is not None:
                    policy = sleep_policy(self._plan.scale, spare=self._plan.spare)
                    await client.create(NODE_SLEEP_POLICIES, policy)
                self._stopwatch.reset()
                following.append(feeding := group.create_task(self._feed(client, observer)))
                samples = await self._watch_day(supervisor, observer, session, feeding)
            finally:
                for task in following:
                    task.cancel()
        return self._result(observer, samples, restarts=supervisor.restarts.total())

    async def _feed(self, client: KubeClient, observer: DayObserver) -> None:
        scale = self._plan.scale
        items = [replace(item, arrives_s=scale.clock_s(item.arrives_s)) for item in self._plan.items]
        await feed(client, items, workload=_WORKLOAD, clock=self._clock, on_create=observer.created)

    async def _watch_day(
        self,
        supervisor: Supervisor,
        observer: DayObserver,
        session: aiohttp.ClientSession,
        feeding: asyncio.Task[None],
    ) -> list[DaySample]:
        """Take samples until midnight, and until all pods are done or half a day more has passed."""
        samples: list[DaySample] = []
        while True:
            await supervisor.check()
            sample = await observer.sample_servers(session)
            samples.append(sample)
            self._show(sample)
            done = feeding.done() and not observer.record.unfinished
            if sample.at_s >= DAY_S * (1.0 if done else _DURATION_FACTOR):
                return samples
            await asyncio.sleep(_SAMPLE_S)

    def _result(self, observer: DayObserver, samples: Sequence[DaySample], *, restarts: int) -> ArmDay:
        pods = observer.record.pods
        ended_s = [pod.finished_s for pod in pods.values() if pod.finished_s is not None]
        whole = len(ended_s) == len(self._plan.items)
        return ArmDay(
            title=self._plan.title,
            samples=samples,
            pods=pods,
            ended_s=max(ended_s) if whole and ended_s else None,
            slowdown=observer.slowdown,
            wakes_s=observer.wakes_s,
            power_offs=sum(server.resets.count("GracefulShutdown") for server in self._servers.servers.values()),
            restarts=restarts,
        )
