"""Staleness of the local copy, in virtual time."""

import asyncio
import contextlib
import json

import pytest

from joulie_api.client import WATCH_IDLE_TIMEOUT_S
from joulie_api.errors import TransportError
from joulie_api.outage import CONNECT_TIMEOUT_S, PROBE_INTERVAL_S, Outage
from joulie_api.reflector import STALE_TOLERANCE_S, Reflector
from joulie_api.resources import NODES
from joulie_api.wire import decode_node

pytestmark = pytest.mark.looptime

PAGE = json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}).encode()


class Server:
    """A server with empty lists and silent watches; `down`: refuses everything."""

    def __init__(self):
        self.down = asyncio.Event()
        self.listing = asyncio.Event()
        self.outage = Outage()
        self.lists = 0

    async def list_page(self, *_args, **_options):
        await self.listing.wait()
        self.lists += 1
        if self.down.is_set():
            raise TransportError("refused")
        return PAGE

    @contextlib.asynccontextmanager
    async def watch(self, *_args, **_options):
        if self.down.is_set():
            raise TransportError("refused")
        yield self._silence()

    async def _silence(self):
        await self.down.wait()
        raise TransportError("broken")
        yield b""


@pytest.fixture
def server():
    return Server()


@pytest.fixture
async def reflector(server):
    reflector = Reflector(server, NODES, decode_node, chance=lambda: 0.5)
    task = asyncio.create_task(reflector.run())
    yield reflector
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_copy_is_stale_until_its_first_list_is_complete(server, reflector):
    await asyncio.sleep(1)
    assert reflector.is_stale()
    assert reflector.stale_reason() == "first list not complete"
    server.listing.set()
    await reflector.wait_synced()
    assert not reflector.is_stale()
    assert reflector.stale_reason() is None


async def test_the_reason_contains_the_error_of_the_server(server, reflector):
    server.down.set()
    server.listing.set()
    await asyncio.sleep(5)
    assert reflector.stale_reason() == "first list not complete (refused)"


@pytest.mark.parametrize("tolerance_s", [0, 30, STALE_TOLERANCE_S])
async def test_an_open_watch_may_be_silent_for_the_interval_of_two_bookmarks_longer(server, reflector, tolerance_s):
    server.listing.set()
    await reflector.wait_synced()
    await asyncio.sleep(tolerance_s + WATCH_IDLE_TIMEOUT_S - 1)
    assert not reflector.is_stale(tolerance_s)
    await asyncio.sleep(2)
    assert reflector.is_stale(tolerance_s)
    assert reflector.stale_reason(tolerance_s) == f"no contact for {tolerance_s + WATCH_IDLE_TIMEOUT_S + 1:.0f} s"


async def test_a_server_that_cannot_be_read_is_tolerated_for_the_tolerance_only(server, reflector):
    server.listing.set()
    await reflector.wait_synced()
    server.down.set()
    await asyncio.sleep(STALE_TOLERANCE_S - 1)
    assert reflector.problem is not None
    assert not reflector.is_stale()
    await asyncio.sleep(2)
    assert reflector.is_stale()
    assert reflector.stale_reason() == f"no contact for {STALE_TOLERANCE_S + 1:.0f} s (refused)"


async def test_a_quiet_copy_is_current_within_seconds_of_the_end_of_a_long_outage(server, reflector):
    server.listing.set()
    await reflector.wait_synced()
    server.down.set()
    await asyncio.sleep(STALE_TOLERANCE_S + 150)
    assert reflector.is_stale()
    lists = server.lists
    server.down.clear()
    await asyncio.sleep(PROBE_INTERVAL_S)
    assert not reflector.is_stale(0)
    assert reflector.age_s() <= PROBE_INTERVAL_S
    assert server.lists == lists + 1


async def test_a_server_that_accepts_watches_and_cannot_be_read_makes_no_copy_current(server, reflector):
    server.listing.set()
    await reflector.wait_synced()
    server.down.set()
    await asyncio.sleep(STALE_TOLERANCE_S + 150)
    server.listing.clear()
    server.down.clear()
    await asyncio.sleep(60)
    assert reflector.is_stale()


async def test_all_copies_of_a_process_are_current_soon_after_the_first_answer(server):
    server.listing.set()
    reflectors = [Reflector(server, NODES, decode_node) for _ in range(7)]
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(each.run()) for each in reflectors]
        for each in reflectors:
            await each.wait_synced()
        server.down.set()
        await asyncio.sleep(600)
        server.down.clear()
        await asyncio.sleep(PROBE_INTERVAL_S + 0.1)
        assert [each.stale_reason(0) for each in reflectors] == [None] * 7
        for run in runs:
            run.cancel()


class Replicas(Server):
    """Servers behind one address, of which the first `hanging` connections lead to one that hangs."""

    def __init__(self, hanging):
        super().__init__()
        self.hanging = hanging
        #: When each attempt began, and how long its connection was given.
        self.attempts = []

    async def list_page(self, *_args, **_options):
        given_s = self.outage.connect_timeout_s
        self.attempts.append((asyncio.get_running_loop().time(), given_s))
        if self.hanging:
            self.hanging -= 1
            await asyncio.sleep(given_s)
            raise TransportError("no answer")
        return PAGE


async def attempts_until_synced(server):
    reflector = Reflector(server, NODES, decode_node, chance=lambda: 1.0)
    task = asyncio.create_task(reflector.run())
    await reflector.wait_synced()
    task.cancel()
    return server.attempts


async def test_a_process_that_had_answers_soon_gives_up_a_connection_that_hangs_and_makes_the_next_at_once():
    server = Replicas(hanging=3)
    server.outage.answered()
    assert await attempts_until_synced(server) == [(0, 1), (1, 1), (2, 1), (3, 1)]


async def test_connections_have_time_where_several_in_a_row_hung_or_none_was_ever_answered():
    server = Replicas(hanging=6)
    server.outage.answered()
    assert [given_s for _, given_s in await attempts_until_synced(server)] == [1, 1, 1, 1, 5, 5, 5]
    server = Replicas(hanging=1)
    (_, first_s), (second_at, _) = await attempts_until_synced(server)
    assert first_s == CONNECT_TIMEOUT_S
    assert second_at > CONNECT_TIMEOUT_S, "a wait in between"


async def test_a_refusal_is_not_repeated_at_once_although_others_are_answered(server, reflector):
    server.listing.set()
    server.down.set()
    await asyncio.sleep(1)
    server.outage.answered()
    refused = server.lists
    for _ in range(50):
        await asyncio.sleep(0.01)
        server.outage.answered()
    assert server.lists <= refused + 1
