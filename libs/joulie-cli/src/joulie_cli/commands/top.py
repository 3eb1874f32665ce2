"""`kubectl joulie top`: the nodes, live, from watches."""

import asyncio
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NoReturn

from rich.console import Console, Group
from rich.live import Live

from joulie_api.errors import KubeError
from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, TELEMETRY_PROFILES
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.keys import keys_of
from joulie_cli.node_rows import NodeRow, join
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import styled
from joulie_cli.render.top import QUIT, TopView, press, screen
from joulie_cli.sleepers import decode_sleeper
from joulie_cli.views import NodeMarks, ReportView, TargetView, TwinView, decode_report, decode_target, decode_twin
from joulie_core.labels import SLEEP_STATE

#: Ages on the screen move on even where nothing changes.
_REDRAW_S: Final = 1.0
#: Nodes that are not awake are listed again, since Nodes change too often to be watched.
_SLEEP_POLL_S: Final = 3.0


class LiveNodes:
    """The nodes, kept up to date by watches, their states of sleep by lists; other labels are those of the start."""

    def __init__(self, cluster: ClusterReader, marks: Sequence[NodeMarks]) -> None:
        self._cluster = cluster
        self._marks = marks
        self._sleep_problem: str | None = None
        self.targets: Reflector[TargetView] = Reflector(cluster.client, NODE_POWER_PROFILES, decode_target)
        self.twins: Reflector[TwinView] = Reflector(cluster.client, NODE_TWINS, decode_twin)
        self.reports: Reflector[ReportView] = Reflector(cluster.client, TELEMETRY_PROFILES, decode_report)

    @property
    def watches(self) -> tuple[Reflector[Any], ...]:
        """The watches."""
        return (self.targets, self.twins, self.reports)

    @property
    def problem(self) -> str | None:
        """Why the cluster cannot be read at the moment; None where it can."""
        problems = (*(each.problem for each in self.watches), self._sleep_problem)
        return next((problem for problem in problems if problem), None)

    async def follow_sleep(self) -> NoReturn:
        """List the nodes that are not awake again and again, until cancelled."""
        while True:
            try:
                listed = await self._cluster.read(NODES, decode_sleeper, label_selector=SLEEP_STATE, metadata_only=True)
            except KubeError as error:
                self._sleep_problem = str(error)
            else:
                self._sleep_problem = None
                states = {node.name: node.state for node in listed}
                self._marks = [_with_state(marks, states) for marks in self._marks]
            await asyncio.sleep(_SLEEP_POLL_S)

    def rows(self) -> list[NodeRow]:
        """Return the rows as of now."""
        parts = (self.targets.store.values(), self.twins.store.values(), self.reports.store.values())
        return join(self._marks, *parts, now_s=time.time())


def _with_state(marks: NodeMarks, states: Mapping[str, str]) -> NodeMarks:
    others = {key: value for key, value in marks.labels.items() if key != SLEEP_STATE}
    state = {SLEEP_STATE: states[marks.name]} if marks.name in states else {}
    return replace(marks, labels={**others, **state})


async def run(options: Namespace) -> ExitCode:
    """Show the nodes until `q` is pressed."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CliError("top needs a terminal", "kubectl joulie nodes prints the nodes once", ExitCode.USAGE)
    async with connect(options) as cluster:
        marks = await cluster.marks(options.selector)
        # Watches try again without end: what does not work at all has to end the command here.
        for resource in (NODE_POWER_PROFILES, NODE_TWINS, TELEMETRY_PROFILES):
            await cluster.probe(resource)
        nodes = LiveNodes(cluster, marks)
        watches = [asyncio.create_task(each.run()) for each in nodes.watches]
        watches.append(asyncio.create_task(nodes.follow_sleep()))
        try:
            await asyncio.gather(*(each.wait_synced() for each in nodes.watches))
            await _Screen(nodes, cluster.client.server, TopView(options.sort)).show()
        finally:
            for task in watches:
                task.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
    return ExitCode.OK


class _Screen:
    """The terminal while `top` runs."""

    def __init__(self, nodes: LiveNodes, server: str, view: TopView) -> None:
        self._nodes = nodes
        self._server = server
        self._view = view
        self._console = Console(highlight=False)
        self._wake = asyncio.Event()
        self._ended = False

    async def show(self) -> None:
        """Draw until the user quits."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._wake.set)
        loop.add_signal_handler(signal.SIGTERM, self._on_key, QUIT)
        try:
            with Live(console=self._console, screen=True, auto_refresh=False) as live, keys_of(0, self._on_key):
                while not self._ended:
                    self._draw(live)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), _REDRAW_S)
                    self._wake.clear()
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_signal_handler(signal.SIGTERM)

    def _draw(self, live: Live) -> None:
        width, height = self._console.size
        lines = screen(
            self._nodes.rows(),
            self._view,
            server=self._server,
            problem=self._nodes.problem,
            width=width,
            height=height,
        )
        live.update(Group(*map(styled, lines)), refresh=True)

    def _on_key(self, key: str) -> None:
        if key == QUIT:
            self._ended = True
        rows = len(self._nodes.rows())
        self._view = press(self._view, key, rows=rows, height=self._console.size.height)
        self._wake.set()
