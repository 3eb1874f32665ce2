"""`kubectl joulie top`: the nodes, live, from watches."""

import asyncio
import os
import signal
import sys
import termios
import time
import tty
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from rich.console import Console, Group
from rich.live import Live

from joulie_api.errors import KubeError
from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES, TELEMETRY_PROFILES
from joulie_cli.arguments import add_verb, cluster_options, selector_option
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.layout import Cell, Line, counted, line, shortened, total_watts
from joulie_cli.output import CliError, ExitCode, styled
from joulie_cli.verbs.nodes import node_table
from joulie_cli.views.nodes import NodeMarks, decode_report, decode_target, decode_twin
from joulie_cli.views.rows import SORT_KEYS, NodeRow, failed_caps, join, power_sum
from joulie_cli.views.sleep import ASLEEP, GOING_STATES, QUARANTINED, WAKING, decode_sleeper
from joulie_core.labels import SLEEP_STATE

#: Ages on the screen move on even where nothing changes.
_REDRAW_S: Final = 1.0
#: Nodes that are not awake are listed again, since Nodes change too often to be watched.
_SLEEP_POLL_S: Final = 3.0
_QUIT: Final = "q"
#: Keys that sort, the first letters.
_SORTS: Final[Mapping[str, str]] = {name[0]: name for name in SORT_KEYS}
#: Lines of a screen beside the rows: head, heading, keys.
_FRAME_LINES: Final = 4
_MOVES: Final[Mapping[str, int]] = {"j": 1, "down": 1, "k": -1, "up": -1}
_PAGES: Final[Mapping[str, int]] = {" ": 1, "pagedown": 1, "pageup": -1}
#: Special keys by what a terminal sends.
_SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
}
_READ_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class TopView:
    """View that the user has chosen."""

    sort: str = "watts"
    #: Index of the first row that is shown.
    first: int = 0


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "top",
        run,
        summary="the nodes, live",
        description="The columns of nodes, refreshed by watches, and how many sleep. Keys: q quits; n w h c p a sort "
        "by name, watts, headroom, cap, profile, age; j k, arrows, space, page keys, g G scroll. Needs a terminal, "
        "80x24 is enough.",
        example="kubectl joulie top --sort headroom",
        parents=[cluster_options(), selector_option()],
    )
    parser.add_argument("--sort", choices=tuple(SORT_KEYS), default="watts", help="order; watts by default")


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


class LiveNodes:
    """The nodes, kept up to date by watches, their states of sleep by lists; other labels are those of the start."""

    def __init__(self, cluster: ClusterReader, marks: Sequence[NodeMarks]) -> None:
        self._cluster = cluster
        self._marks = marks
        self._sleep_problem: str | None = None
        self._targets = cluster.watch(NODE_POWER_PROFILES, decode_target)
        self._twins = cluster.watch(NODE_TWINS, decode_twin)
        self._reports = cluster.watch(TELEMETRY_PROFILES, decode_report)
        self.watches = (self._targets, self._twins, self._reports)

    @property
    def problem(self) -> str | None:
        """Reason why the cluster cannot be read at the moment; None where it can."""
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
        parts = (self._targets.store.values(), self._twins.store.values(), self._reports.store.values())
        return join(self._marks, *parts, now_s=time.time())


def _with_state(marks: NodeMarks, states: Mapping[str, str]) -> NodeMarks:
    others = {key: value for key, value in marks.labels.items() if key != SLEEP_STATE}
    state = {SLEEP_STATE: states[marks.name]} if marks.name in states else {}
    return replace(marks, labels={**others, **state})


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
        loop.add_signal_handler(signal.SIGTERM, self._on_key, _QUIT)
        try:
            with Live(console=self._console, screen=True, auto_refresh=False) as live, _keys_of(0, self._on_key):
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
        if key == _QUIT:
            self._ended = True
        rows = len(self._nodes.rows())
        self._view = press(self._view, key, rows=rows, height=self._console.size.height)
        self._wake.set()


def press(view: TopView, key: str, *, rows: int, height: int) -> TopView:
    """Return the view after a key; unknown keys change nothing.

    Args:
        view: the view before.
        key: a character, or `up`, `down`, `pageup`, `pagedown`, `home`, `end`.
        rows: number of nodes.
        height: lines of the terminal.
    """
    page = _rows_shown(height)
    if key in _SORTS:
        return TopView(sort=_SORTS[key])
    first = {"home": 0, "g": 0, "end": rows, "G": rows}.get(key, view.first)
    first += _MOVES.get(key, 0) + _PAGES.get(key, 0) * page
    return replace(view, first=max(0, min(first, rows - page)))


def _rows_shown(height: int) -> int:
    """Return how many nodes a terminal of so many lines shows."""
    return max(1, height - _FRAME_LINES)


def screen(
    rows: Sequence[NodeRow], view: TopView, *, server: str, problem: str | None, width: int, height: int
) -> list[Line]:
    """Return the lines of a screen, at most `height` of at most `width` characters.

    Args:
        rows: all nodes, in any order.
        view: what the user has chosen.
        server: URL of the API server.
        problem: why the cluster cannot be read at the moment, None where it can.
        width: columns of the terminal.
        height: its lines.
    """
    ordered = sorted(rows, key=SORT_KEYS[view.sort])
    page = _rows_shown(height)
    first = max(0, min(view.first, len(ordered) - page))
    shown = ordered[first : first + page]
    lines = [_head(rows, server, width), _problem(problem, width), *node_table(shown, width=width)]
    lines += [line()] * (height - len(lines) - 1)
    return [*lines[: height - 1], _keys(view, first, len(shown), len(ordered), width)]


def _head(rows: Sequence[NodeRow], server: str, width: int) -> Line:
    power = power_sum(rows)
    stale = sum(row.stale for row in rows)
    failed = sum(len(each.nodes) for each in failed_caps(rows))
    draining = sum(bool(row.draining) for row in rows)
    text = (
        f"{counted(len(rows), 'node')}, {total_watts(power.watts)} of {total_watts(power.cap_watts)}, "
        f"{draining} draining, {_sleeping(rows)}{counted(stale, 'stale twin')}, "
        f"{counted(failed, 'failed cap')}  {server}"
    )
    return line(shortened(text, width), "bold")


def _sleeping(rows: Sequence[NodeRow]) -> str:
    """Return how many nodes are not awake, by what they do; empty where all are."""
    states = [row.sleep_state for row in rows]
    counts = {
        "going to sleep": sum(state in GOING_STATES for state in states),
        ASLEEP: states.count(ASLEEP),
        WAKING: states.count(WAKING),
        "in quarantine": states.count(QUARANTINED),
    }
    return "".join(f"{number} {name}, " for name, number in counts.items() if number)


def _problem(problem: str | None, width: int) -> Line:
    return line() if problem is None else line(shortened(f"old values: {problem}", width), "red")


def _keys(view: TopView, first: int, shown: int, rows: int, width: int) -> Line:
    part = f"{first + 1 if rows else 0}-{first + shown} of {rows} by {view.sort}"
    text = f"{part}   sort: n w h c p a   scroll: j k   q quit"
    return (Cell(shortened(text, width), "reverse"),)


@contextmanager
def _keys_of(terminal: int, on_key: Callable[[str], None]) -> Iterator[None]:
    """Call `on_key` for each key of a terminal, a file descriptor; its mode is restored at the end."""
    before = termios.tcgetattr(terminal)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in split_keys(os.read(terminal, _READ_BYTES)):
            on_key(key)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def split_keys(data: bytes) -> Iterator[str]:
    """Yield the keys in what a terminal has sent: names of special keys, and characters. End of input is `q`."""
    if not data:
        yield "q"
    while data:
        sequence = next((each for each in _SEQUENCES if data.startswith(each)), None)
        if sequence is not None:
            yield _SEQUENCES[sequence]
            data = data[len(sequence) :]
        else:
            yield chr(data[0])
            data = data[1:]
