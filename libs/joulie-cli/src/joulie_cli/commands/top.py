"""`kubectl joulie top`: the nodes, live, from watches."""

import asyncio
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live

from joulie_api.reflector import Reflector
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, TELEMETRY_PROFILES
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.keys import keys_of
from joulie_cli.node_rows import NodeRow, join
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import styled
from joulie_cli.render.top import QUIT, TopView, press, screen
from joulie_cli.views import NodeMarks, ReportView, TargetView, TwinView, decode_report, decode_target, decode_twin

#: Ages on the screen move on even where nothing changes.
_REDRAW_S: Final = 1.0


class LiveNodes:
    """The nodes, kept up to date by watches. Labels of nodes are those of the start: Nodes change every few seconds."""

    def __init__(self, cluster: ClusterReader, marks: Sequence[NodeMarks]) -> None:
        self._marks = marks
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
        return next((each.problem for each in self.watches if each.problem), None)

    def rows(self) -> list[NodeRow]:
        """Return the rows as of now."""
        parts = (self.targets.store.values(), self.twins.store.values(), self.reports.store.values())
        return join(self._marks, *parts, now_s=time.time())


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
