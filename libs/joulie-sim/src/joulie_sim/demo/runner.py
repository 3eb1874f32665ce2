"""Runs a scenario on a cluster of its own, shows it, and writes the results.

Guarantees that it ends when all pods are done, or after twice the requested duration. However it ends, by itself, by
Ctrl-C or by an error, the cluster is stopped, and the results so far are in the output directory.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import aiohttp
from rich.console import Console
from rich.live import Live

from joulie_api.client import KubeClient
from joulie_core.durations import format_duration
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.policy import queue_aware_v1
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.errors import DemoError
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.options import Options
from joulie_sim.demo.output import make_directory, write_all
from joulie_sim.demo.scenario import Scenario
from joulie_sim.demo.stopwatch import Stopwatch
from joulie_sim.demo.summary import Summary, summarize
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.demo.table import closing_line, live_view, plain_line, summary_view
from joulie_sim.demo.without_joulie import DemoArm, DemoComparison, compare_without_joulie
from joulie_sim.engine.arms import JoulieSettings
from joulie_sim.recording.files import RecordingFiles
from joulie_sim.recording.recorder import ClusterRecorder
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig
from joulie_sim.workload.item import WorkItem

_WORKLOAD: Final = "demo"
_SAMPLE_S: Final = 1.0
_PLAIN_LINE_S: Final = 10.0
_PLANNED_TIMEOUT_S: Final = 180.0
#: Of the operator and the agents.
_INTERVAL_S: Final = 5.0
#: Of the operator; the discrete-event simulator gets the same.
_PLAN_DEBOUNCE_S: Final = 0.5
#: A quarter of the nodes without demand and one more for every three performance pods: changing demand then causes
#: transitions within minutes, where the defaults require hundreds of pods.
_QUEUE_SETTINGS: Final = {"queue_hp_base_frac": 0.25, "queue_perf_per_hp_node": 3}
#: Maximum duration of a run over the requested one: caps and queues prolong it.
_DURATION_FACTOR: Final = 2.0


class Demo:
    """One run, created inside a running event loop. `console` shows the tables, `reporter` the progress."""

    def __init__(self, options: Options, scenario: Scenario, *, console: Console, reporter: Reporter) -> None:
        self._options = options
        self._scenario = scenario
        self._console = console
        self._reporter = reporter
        self._stopwatch = Stopwatch()
        self._clock = self._stopwatch.seconds

    async def run(self) -> Path:
        """Run the demo and return the output directory.

        Raises:
            DemoError: the operator does not plan the nodes in time.
            DevClusterError: the cluster or a service failed; also in groups.
        """
        config = ClusterConfig(name="joulie-demo", nodes=self._scenario.classes)
        async with DevCluster(config, reporter=self._reporter) as cluster:
            self._reporter.note(f"control plane and {self._scenario.node_count} nodes are up in {self._clock():.0f} s")
            page = f"{LOOPBACK}:{free_port()}"
            async with JoulieStack(cluster, stack_config(self._options, page)) as stack:
                self._reporter.note(f"simulator, operator, agents and extender are up in {self._clock():.0f} s")
                self._reporter.note(f"live page: http://{page}/ui/")
                directory = await self._observe(cluster, stack)
                if self._options.keep:
                    await self._keep(cluster)
        return directory

    async def _observe(self, cluster: DevCluster, stack: JoulieStack) -> Path:
        async with (
            await cluster.client(user_agent="joulie-demo") as client,
            aiohttp.ClientSession() as session,
            AsyncExitStack() as files_open,
            asyncio.TaskGroup() as group,
        ):
            observer = Observer(client, sim_url=stack.sim_url, workload=_WORKLOAD, clock=self._clock)
            following: list[asyncio.Task[Any]] = [group.create_task(work) for work in observer.runs()]
            supervisor = Supervisor(cluster, stack, self._reporter)
            await self._wait_planned(supervisor, observer)
            self._stopwatch.reset()
            directory = make_directory(self._options.out, "demo")
            files = files_open.enter_context(RecordingFiles(directory / "recording"))
            recorder = ClusterRecorder(client, files, keep_names=True)
            following.append(group.create_task(recorder.run(asyncio.Event())))
            feeding = group.create_task(self._feed(client, observer))
            try:
                await self._show(supervisor, observer, session, feeding)
            finally:
                self._finish(observer, directory, restarts=supervisor.restarts.total())
                for task in (feeding, *following):
                    task.cancel()
        return directory

    async def _feed(self, client: KubeClient, observer: Observer) -> None:
        def created(item: WorkItem) -> None:
            observer.record.pod_created(item.name, item.workload_class, work_s=item.work_s, now_s=self._clock())

        await feed(client, self._scenario.items, workload=_WORKLOAD, clock=self._clock, on_create=created)

    async def _wait_planned(self, supervisor: Supervisor, observer: Observer) -> None:
        """Wait until the operator has assigned a profile to every node."""
        deadline_s = self._clock() + _PLANNED_TIMEOUT_S
        while True:
            await supervisor.check()
            classes = observer.record.classes
            waiting = [name for name, node_class in classes.items() if node_class is SchedulableClass.UNKNOWN]
            if not waiting and len(classes) >= self._scenario.node_count:
                return
            if self._clock() > deadline_s:
                raise DemoError(f"{len(waiting)} nodes have no profile after {_PLANNED_TIMEOUT_S:.0f} s: {waiting[:3]}")
            await asyncio.sleep(_SAMPLE_S / 4)

    async def _show(
        self,
        supervisor: Supervisor,
        observer: Observer,
        session: aiohttp.ClientSession,
        feeding: asyncio.Task[None],
    ) -> None:
        """Sample and show until the workload is done or its time is over."""
        printed_s = float("-inf")
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            while True:
                await supervisor.check()
                sample = await observer.sample(session)
                headline = self._headline(observer)
                if self._console.is_terminal:
                    live.update(live_view(observer.record, sample, headline=headline), refresh=True)
                elif sample.at_s - printed_s >= _PLAIN_LINE_S:
                    printed_s = sample.at_s
                    self._console.print(plain_line(sample, headline=headline), markup=False, soft_wrap=True)
                if feeding.done() and not observer.record.unfinished:
                    return
                if sample.at_s > self._options.duration_s * _DURATION_FACTOR:
                    self._reporter.note(f"{observer.record.unfinished} pods are not done after {sample.at_s:.0f} s")
                    return
                await asyncio.sleep(_SAMPLE_S)

    def _headline(self, observer: Observer) -> str:
        sent, whole = len(observer.record.pods), len(self._scenario.items)
        time = f"{self._clock():.0f} s of about {self._options.duration_s:.0f}"
        return f"{self._scenario.title} | {time} | {sent}/{whole} pods sent"

    def _finish(self, observer: Observer, directory: Path, *, restarts: int) -> None:
        """Write and show the results; synchronous, so that a cancelled run does it too."""
        summary = summarize(
            observer.record,
            duration_s=self._clock(),
            energy_joules=observer.energy_joules,
            slowdowns=observer.slowdowns,
            restarts=restarts,
        )
        if len(observer.record.pods) == len(self._scenario.items) and not observer.record.unfinished:
            summary = replace(summary, without_joulie=self._compare(observer, summary))
        self._console.print(summary_view(summary))
        self._console.print(closing_line(summary), style="bold", markup=False, soft_wrap=True)
        written = write_all(directory, observer.record, summary, title=self._scenario.title)
        for path in (*written, directory / "recording"):
            self._console.print(f"wrote {path}", markup=False, soft_wrap=True)

    def _compare(self, observer: Observer, summary: Summary) -> DemoComparison:
        measured = DemoArm(
            kwh=sum(summary.energy_kwh.values()),
            slowdowns={each: found.mean_slowdown for each, found in summary.classes.items()},
            transitions=summary.transitions,
        )
        return compare_without_joulie(
            self._scenario.classes,
            self._scenario.items,
            observer.record.pods,
            joulie=joulie_settings(self._options),
            measured=measured,
            duration_s=summary.duration_s,
            report_interval_s=_INTERVAL_S,
        )

    async def _keep(self, cluster: DevCluster) -> None:
        self._console.print("The cluster keeps running until Ctrl-C. In another terminal:", markup=False)
        self._console.print(f"  export KUBECONFIG={cluster.kubeconfig}", markup=False, soft_wrap=True)
        await asyncio.Event().wait()


def stack_config(options: Options, page: str) -> StackConfig:
    """Return the configuration of Joulie's services for a demo: two agent shards, short intervals, the live page."""
    interval = format_duration(_INTERVAL_S)
    operator = {
        "POLICY_TYPE": options.policy,
        "RECONCILE_INTERVAL": interval,
        "UI_ADDR": page,
        "PLAN_DEBOUNCE": format_duration(_PLAN_DEBOUNCE_S),
        **{name.upper(): str(value) for name, value in _QUEUE_SETTINGS.items()},
    }
    return StackConfig(
        agent_shards=2, env={Service.OPERATOR: operator, Service.AGENT: {"RECONCILE_INTERVAL": interval}}
    )


def joulie_settings(options: Options) -> JoulieSettings:
    """Return the same configuration for the discrete-event simulator."""
    values = _QUEUE_SETTINGS if options.policy == queue_aware_v1.NAME else {}
    return JoulieSettings(policy=options.policy, policy_values=values, plan_debounce_s=_PLAN_DEBOUNCE_S)
