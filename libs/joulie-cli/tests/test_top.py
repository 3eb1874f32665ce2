"""`top` and colour in a pseudo-terminal of 80x24, with the real process."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios

import pytest

from joulie_cli.layout import plain
from joulie_cli.verbs.top import TopView, press, screen, split_keys
from joulie_cli.views.nodes import TwinView
from joulie_cli.views.rows import join
from joulie_testing.api import Respond
from joulie_testing.cli import managed_node

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*3[0-9]")


class Terminal:
    """A process in a pseudo-terminal, and what it has written."""

    def __init__(self, process, controller):
        self.process = process
        self.controller = controller
        self.raw = b""
        self._grown = asyncio.Event()
        asyncio.get_running_loop().add_reader(controller, self._read)

    def _read(self):
        try:
            data = os.read(self.controller, 65536)
        except OSError:  # the process has closed its end
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self.controller)
        self.raw += data
        self._grown.set()

    @property
    def text(self):
        return _ESCAPES.sub(b"", self.raw).decode()

    def lines(self):
        return self.text.replace("\r", "").split("\n")

    async def until(self, word):
        async with asyncio.timeout(60):
            while word not in self.text:
                self._grown.clear()
                await self._grown.wait()

    def press(self, keys):
        self.raw = b""
        os.write(self.controller, keys)


@pytest.fixture
async def terminal(fake_api, tmp_path):
    started = []

    async def start(*arguments, **env):
        controller, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        kubeconfig = str(fake_api.kubeconfig(tmp_path))
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "HOME": str(tmp_path), **env}
        command = [sys.executable, "-m", "joulie_cli", *arguments, "--kubeconfig", kubeconfig]
        process = await asyncio.create_subprocess_exec(*command, stdin=side, stdout=side, stderr=side, env=environment)
        mode = termios.tcgetattr(side)
        os.close(side)
        started.append((process, controller))
        made = Terminal(process, controller)
        made.mode = mode
        return made

    yield start
    for process, controller in started:
        if process.returncode is None:
            process.kill()
            await process.wait()
        asyncio.get_running_loop().remove_reader(controller)
        os.close(controller)


async def test_top_shows_changes_sorts_and_quits(fake_api, terminal):
    fake_api.put_all(managed_node("busy", watts=500))
    fake_api.put_all(managed_node("idle", "eco", watts=20, headroom=97))
    top = await terminal("top")
    await top.until("q quit")
    text = top.text
    assert text.index("busy") < text.index("idle")
    assert "2 nodes, 520 W of 1200 W" in text
    assert b"\x1b[?1049h" in top.raw

    top.press(b"n")
    await top.until("by name")
    fake_api.patch("NodeTwin", "idle", {"status": {"powerMeasurement": {"measuredNodePowerW": 77}}})
    await top.until("577 W of")

    top.press(b"q")
    async with asyncio.timeout(30):
        assert await top.process.wait() == 0
    await top.until("")
    assert b"\x1b[?1049l" in top.raw


async def test_top_shows_which_nodes_sleep_as_they_change(fake_api, terminal):
    fake_api.put_all(managed_node("n1", watts=100, cap=600))
    fake_api.put_all(managed_node("n2", watts=200, cap=600))
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": "draining"}}})
    top = await terminal("top")
    await top.until("q quit")
    assert "2 nodes, 300 W of 1200 W, 0 draining, 1 going to sleep, " in top.text
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": "asleep"}}})
    await top.until("200 W of 600 W, 0 draining, 1 asleep, ")
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": "waking"}}})
    await top.until(", 1 waking, ")
    fake_api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/sleep-state": None}}})
    await top.until("300 W of 1200 W, 0 draining, 0 stale")


async def test_top_reports_that_its_values_are_old_while_the_server_is_away(fake_api, terminal):
    fake_api.put_all(managed_node("n1"))
    top = await terminal("top")
    await top.until("q quit")
    await fake_api.stop()
    await top.until("old values:")


async def test_top_ends_before_it_takes_the_screen_where_it_may_not_read(fake_api, terminal):
    fake_api.faults.add(Respond(403, message="no"), verb="list", path="/nodetwins", times=None)
    top = await terminal("top")
    async with asyncio.timeout(60):
        assert await top.process.wait() == 3
    assert b"\x1b[?1049h" not in top.raw


async def test_top_needs_a_terminal(cli):
    result = await cli("top")
    assert result.code == 2
    assert "kubectl joulie nodes prints the nodes once" in result.err


@pytest.mark.parametrize(("env", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
async def test_colour_is_for_terminals_that_want_it_and_lines_fit_80_columns(fake_api, terminal, env, colour):
    name = "a-node-with-a-long-name.eu-west-1.compute.internal"
    fake_api.put_all(managed_node(name, "eco", draining=True, cpu={"result": "error"}))
    run = await terminal("nodes", **env)
    async with asyncio.timeout(60):
        assert await run.process.wait() == 0
    await run.until("draining")
    assert bool(_COLOUR.search(run.raw)) is colour
    assert max(map(len, run.lines())) <= 80


async def test_a_pipe_gets_no_colour_and_whole_names(fake_api, cli):
    name = "a-node-with-a-long-name.eu-west-1.compute.internal"
    fake_api.put_all(managed_node(name, "eco"))
    out = (await cli("nodes")).out
    assert "\x1b" not in out
    assert name in out


def rows(count):
    return join([], [], [TwinView(f"n{number:03}", watts=float(number + 1)) for number in range(count)], [], now_s=0)


def shown(view, *, count=100, width=80, height=24):
    return screen(rows(count), view, server="https://s", problem=None, width=width, height=height)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 6), (200, 60)])
def test_a_screen_has_the_size_of_the_terminal(width, height):
    lines = plain(shown(TopView(), width=width, height=height)).split("\n")[:-1]
    assert len(lines) == height
    assert max(map(len, lines)) <= max(width, 72)


def test_keys_scroll_within_the_rows():
    view = TopView("name")
    for key, first in (("k", 0), ("j", 1), (" ", 21), ("end", 80), ("pageup", 60), ("home", 0), ("x", 0)):
        view = press(view, key, rows=100, height=24)
        assert view.first == first, key
    assert press(view, "w", rows=100, height=24) == TopView("watts")
    assert "n080" in plain(shown(TopView("name", 80)))


def test_special_keys_are_told_from_characters():
    assert list(split_keys(b"\x1b[Aj\x1b[6~")) == ["up", "j", "pagedown"]
    assert list(split_keys(b"")) == ["q"]
