"""One arm of a day: a cluster of its own with the real services, a server with a BMC for each node, and the pods.

Guarantees that both arms differ in one object, the NodeSleepPolicy, and that the cluster is stopped however it ends.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from joulie_api.client import KubeClient
from joulie_api.resources import NODE_SLEEP_POLICIES
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import NodeClass
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.day.accounts import ArmDay
from joulie_sim.demo.day.scale import DAY_S, stack_config
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.following import FollowingTasks
from joulie_sim.demo.record import Sample
from joulie_sim.demo.sleeping.observer import SleepingObserver
from joulie_sim.demo.sleeping.servers import SleepingServers
from joulie_sim.demo.sleeping.settings import NODE_MONITOR_S, sleep_policy
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.stopwatch import Stopwatch
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.stack.stack import JoulieStack
from joulie_sim.workload.item import WorkItem

_WORKLOAD: Final = "day"
_SAMPLE_S: Final = 0.5
#: Longest run over the length of the day.
_DURATION_FACTOR: Final = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DayPlan:
    """The nodes, the pods with times of the day, and the scale; `spare` as in NodeSleepPolicy, None: no sleep."""

    title: str
    classes: Sequence[NodeClass]
    items: Sequence[WorkItem]
    scale: TimeScale
    spare: int | None


class DayArm:
    """One arm, created inside a running event loop; `show` gets each sample."""

    def __init__(self, plan: DayPlan, *, reporter: Reporter, show: Callable[[Sample], None]) -> None:
        self._plan = plan
        self._reporter = reporter
        self._show = show
        self._stopwatch = Stopwatch()
        self._clock = self._stopwatch.seconds
        now_s = asyncio.get_running_loop().time
        self._servers = SleepingServers(WallPower(plan.classes), scale=plan.scale, clock=now_s)

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
            node_monitor_period_s=NODE_MONITOR_S,
        )
        async with (
            DevCluster(config, reporter=self._reporter) as cluster,
            JoulieStack(cluster, stack_config(self._plan.scale)) as stack,
            await cluster.client(user_agent="joulie-demo") as client,
            self._servers.running(stack, client, directory),
        ):
            self._reporter.note(f"services are up, every server was powered off and on once; {self._clock():.0f} s")
            return await self._observe(cluster, stack, client)

    async def _observe(self, cluster: DevCluster, stack: JoulieStack, client: KubeClient) -> ArmDay:
        observer = SleepingObserver(
            client,
            sim_url=stack.sim_url,
            workload=_WORKLOAD,
            clock=lambda: self._plan.scale.simulated_s(self._clock()),
            servers=self._servers,
        )
        supervisor = Supervisor(stack.services.values(), self._reporter, check_cluster=cluster.check)
        async with aiohttp.ClientSession() as session, FollowingTasks() as tasks:
            for work in observer.runs():
                tasks.follow(work)
            await observer.wait_planned(supervisor.check, nodes=len(self._servers.servers))
            if self._plan.spare is not None:
                policy = sleep_policy(self._plan.scale, MinAwakeSpec(spare=self._plan.spare))
                await client.create(NODE_SLEEP_POLICIES, policy)
            self._stopwatch.reset()
            await self._watch_day(supervisor, observer, session, tasks.follow(self._feed(client, observer)))
        return self._result(observer, restarts=supervisor.restarts.total())

    async def _feed(self, client: KubeClient, observer: SleepingObserver) -> None:
        items, scale = self._plan.items, self._plan.scale
        await feed(client, items, workload=_WORKLOAD, clock=self._clock, on_create=observer.created, scale=scale)

    async def _watch_day(
        self,
        supervisor: Supervisor,
        observer: SleepingObserver,
        session: aiohttp.ClientSession,
        feeding: asyncio.Task[None],
    ) -> None:
        """Take samples until midnight, and until all pods are done or half a day more has passed."""
        while True:
            await supervisor.check()
            sample = await observer.sample(session)
            self._show(sample)
            done = feeding.done() and not observer.record.unfinished
            if sample.at_s >= DAY_S * (1.0 if done else _DURATION_FACTOR):
                return
            await asyncio.sleep(_SAMPLE_S)

    def _result(self, observer: SleepingObserver, *, restarts: int) -> ArmDay:
        pods = observer.record.pods
        ended_s = [pod.finished_s for pod in pods.values() if pod.finished_s is not None]
        whole = len(ended_s) == len(self._plan.items)
        return ArmDay(
            title=self._plan.title,
            samples=observer.record.samples,
            pods=pods,
            ended_s=max(ended_s) if whole and ended_s else None,
            slowdown=observer.slowdown,
            wakes_s=observer.wakes_s,
            power_offs=self._servers.power_offs,
            restarts=restarts,
        )
