"""Runs a scenario at a site, shows it, and writes the results.

Guarantees that it ends when all pods are done, or after twice the requested duration. However it ends, by itself, by
Ctrl-C or by an error, the site is left, and the results so far are in the output directory.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import aiohttp
from rich.console import Console
from rich.live import Live

from joulie_api.client import KubeClient
from joulie_api.resources import NODE_SLEEP_POLICIES
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.feeder import feed
from joulie_sim.demo.following import FollowingTasks
from joulie_sim.demo.observer import Observer
from joulie_sim.demo.options import Options
from joulie_sim.demo.output import make_directory, write_all
from joulie_sim.demo.scenario import Scenario
from joulie_sim.demo.settings import INTERVAL_S, MIN_AWAKE, demo_arm
from joulie_sim.demo.site import WORKLOAD, Site, SiteOpener
from joulie_sim.demo.sleeping.observer import SleepingObserver
from joulie_sim.demo.sleeping.settings import sleep_policy
from joulie_sim.demo.stopwatch import Stopwatch
from joulie_sim.demo.summary import Summary, summarize
from joulie_sim.demo.table import closing_line, format_span, live_view, plain_line, summary_view
from joulie_sim.demo.without_joulie import DemoArm, DemoComparison, compare_without_joulie
from joulie_sim.recording.files import RecordingFiles
from joulie_sim.recording.recorder import ClusterRecorder

_SAMPLE_S: Final = 0.5
_PLAIN_LINE_S: Final = 10.0
#: Maximum duration of a run over the requested one: caps and queues prolong it.
_DURATION_FACTOR: Final = 2.0


class Demo:
    """One run, created inside a running event loop. `console` shows the tables, `reporter` the progress."""

    def __init__(
        self, options: Options, scenario: Scenario, open_site: SiteOpener, *, console: Console, reporter: Reporter
    ) -> None:
        self._options = options
        self._scenario = scenario
        self._open_site = open_site
        self._console = console
        self._reporter = reporter
        self._stopwatch = Stopwatch()

    def _clock(self) -> float:
        """Return the simulated seconds since the start of the workload."""
        return self._options.time_scale.simulated_s(self._stopwatch.seconds())

    async def run(self) -> Path:
        """Run the demo and return the output directory.

        Raises:
            DemoError: the site cannot be made, or the operator does not plan the nodes in time.
            DevClusterError: the cluster or a service failed; also in groups.
        """
        async with self._open_site(self._options, self._scenario, self._reporter) as site:
            self._reporter.note(f"live page: {site.page}")
            directory = await self._observe(site)
            if self._options.keep:
                await self._keep(site)
        return directory

    async def _observe(self, site: Site) -> Path:
        async with (
            await KubeClient.connect(kubeconfig=str(site.kubeconfig), user_agent="joulie-demo") as client,
            aiohttp.ClientSession() as session,
            AsyncExitStack() as files_open,
            FollowingTasks() as tasks,
        ):
            observer = self._observer(site, client)
            for work in observer.runs():
                tasks.follow(work)
            await observer.wait_planned(site.supervisor.check, nodes=self._scenario.node_count)
            if site.servers is not None:
                await client.create(NODE_SLEEP_POLICIES, sleep_policy(self._options.time_scale, MIN_AWAKE))
            self._stopwatch.reset()
            directory = make_directory(self._options.out, "demo")
            files = files_open.enter_context(RecordingFiles(directory / "recording"))
            recorder = ClusterRecorder(client, files, keep_names=True)
            tasks.follow(recorder.run(asyncio.Event()))
            feeding = tasks.follow(self._feed(client, observer, site))
            try:
                await self._show(site, observer, session, feeding)
            finally:
                self._finish(observer, site, directory)
        return directory

    def _observer(self, site: Site, client: KubeClient) -> Observer:
        url, clock = site.sim_url, self._clock
        if site.servers is not None:
            return SleepingObserver(client, sim_url=url, workload=WORKLOAD, clock=clock, servers=site.servers)
        return Observer(client, sim_url=url, workload=WORKLOAD, clock=clock, node_selector=site.node_selector)

    async def _feed(self, client: KubeClient, observer: Observer, site: Site) -> None:
        await feed(
            client,
            self._scenario.items,
            workload=WORKLOAD,
            clock=self._stopwatch.seconds,
            on_create=observer.created,
            scale=self._options.time_scale,
            spec=site.pod_spec,
        )

    async def _show(
        self,
        site: Site,
        observer: Observer,
        session: aiohttp.ClientSession,
        feeding: asyncio.Task[None],
    ) -> None:
        """Sample and show until the workload is done or its time is over."""
        printed_s = float("-inf")
        sleeps = site.servers is not None
        with Live(console=self._console, auto_refresh=False, transient=False) as live:
            while True:
                await site.supervisor.check()
                sample = await observer.sample(session)
                headline = self._headline(observer)
                if self._console.is_terminal:
                    live.update(live_view(observer.record, sample, headline=headline, sleeps=sleeps), refresh=True)
                elif self._stopwatch.seconds() - printed_s >= _PLAIN_LINE_S:
                    printed_s = self._stopwatch.seconds()
                    self._console.print(
                        plain_line(sample, headline=headline, sleeps=sleeps), markup=False, soft_wrap=True
                    )
                if feeding.done() and not observer.record.unfinished:
                    return
                clock_s = self._stopwatch.seconds()
                if clock_s > self._options.duration_s * _DURATION_FACTOR:
                    self._reporter.note(f"{observer.record.unfinished} pods are not done after {clock_s:.0f} s")
                    return
                await asyncio.sleep(_SAMPLE_S)

    def _headline(self, observer: Observer) -> str:
        sent, whole = len(observer.record.pods), len(self._scenario.items)
        time = f"{self._stopwatch.seconds():.0f} s of about {self._options.duration_s:.0f}"
        if self._options.sleeps:
            time += f", {format_span(self._clock())} simulated"
        return f"{self._scenario.title} | {time} | {sent}/{whole} pods sent"

    def _finish(self, observer: Observer, site: Site, directory: Path) -> None:
        """Write and show the results; synchronous, so that a cancelled run does it too."""
        summary = summarize(
            observer.record,
            duration_s=self._clock(),
            energy_joules=observer.energy_joules,
            slowdowns=observer.slowdowns,
            restarts=site.supervisor.restarts.total(),
            speed=self._options.time_scale.speed,
            power_offs=None if site.servers is None else site.servers.power_offs,
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
            kwh=summary.total_kwh,
            slowdowns={each: found.mean_slowdown for each, found in summary.classes.items()},
            waits={each: found.waits for each, found in summary.classes.items()},
            transitions=summary.transitions,
            power_offs=summary.power_offs or 0,
        )
        return compare_without_joulie(
            self._scenario.classes,
            self._scenario.items,
            observer.record.pods,
            arm=demo_arm(self._options),
            measured=measured,
            duration_s=summary.duration_s,
            report_interval_s=self._options.time_scale.simulated_s(INTERVAL_S),
        )

    async def _keep(self, site: Site) -> None:
        self._console.print("Everything keeps running until Ctrl-C. In another terminal:", markup=False)
        extender = f" --extender-url {site.extender_url}" if site.extender_url else ""
        for line in (
            f"export KUBECONFIG={site.kubeconfig}",
            "kubectl joulie status",
            f"kubectl joulie explain node NAME{extender}",
        ):
            self._console.print(f"  {line}", markup=False, soft_wrap=True)
        await asyncio.Event().wait()
