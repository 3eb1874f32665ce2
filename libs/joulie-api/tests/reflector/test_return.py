"""How soon copies are current after the return of a server that refuses while it starts, in virtual time."""

import asyncio
import contextlib
import itertools
import json

import pytest

from joulie_api.errors import Forbidden, ServerError, TooManyRequests, TransportError
from joulie_api.outage import PROBE_INTERVAL_S, RETURN_S, Outage
from joulie_api.reflector import Reflector
from joulie_api.resources import NODES
from joulie_api.wire import decode_node

pytestmark = pytest.mark.looptime

PAGE = json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": []}).encode()
DOWN = TransportError("connection refused")
#: As Kubernetes 1.34 answers in this order: before it has the rules, the kinds, and the objects in its watch caches.
NO_RULES = Forbidden(403, "Forbidden", 'User "joulie-agent" cannot list resource "nodes"')
NO_PATHS = ServerError(503, "ServiceUnavailable", "before all known HTTP paths have been installed", 5.0)
NO_STORAGE = TooManyRequests(429, "TooManyRequests", "storage is (re)initializing", 1.0)


class Server:
    """Refuses lists with `lists`, watches with `watches`, both with that of the namespace first; None is no refusal."""

    def __init__(self):
        self.outage = Outage()
        self.lists = self.watches = None
        self.of_namespace = {}
        self.down = asyncio.Event()
        #: When each request came.
        self.requests = []

    async def list_page(self, _resource, namespace, **_options):
        self._answer(namespace, self.lists)
        return PAGE

    @contextlib.asynccontextmanager
    async def watch(self, _resource, namespace, **_options):
        self._answer(namespace, self.watches)
        yield self._silence()

    def _answer(self, namespace, refusal):
        self.requests.append(asyncio.get_running_loop().time())
        refusal = self.of_namespace.get(namespace, refusal)
        if refusal is not None:
            raise refusal

    async def _silence(self):
        await self.down.wait()
        raise TransportError("broken")
        yield b""

    async def refuse(self, lists, watches, *, for_s):
        self.lists, self.watches = lists, watches
        (self.down.set if lists is DOWN else self.down.clear)()
        await asyncio.sleep(for_s)

    def since(self, at):
        """Seconds from a time to the requests after it."""
        return [round(when - at, 2) for when in self.requests if when > at]


@contextlib.asynccontextmanager
async def copies(server, count=7):
    """Copies that wait as long as they may, of an own namespace each; complete at the start."""
    made = [
        Reflector(server, NODES, decode_node, namespace=f"n{number}", chance=lambda: 0.999) for number in range(count)
    ]
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(each.run()) for each in made]
        for each in made:
            await each.wait_synced()
        yield made
        for run in runs:
            run.cancel()


def stale(made):
    return [each.stale_reason(0) for each in made if each.is_stale(0)]


async def test_a_storage_that_is_not_ready_costs_what_the_server_requests_although_the_waits_of_the_outage_were_long():
    server = Server()
    async with copies(server) as made:
        await server.refuse(DOWN, DOWN, for_s=300)
        await server.refuse(None, NO_STORAGE, for_s=PROBE_INTERVAL_S + 0.5)
        assert len(stale(made)) == 7
        await server.refuse(None, None, for_s=NO_STORAGE.retry_after_s)
        assert stale(made) == []


@pytest.mark.parametrize("rules_s", [0.5, 8.0, 20.0])
async def test_all_copies_are_current_within_seconds_after_all_refusals_of_a_server_that_starts(rules_s):
    server = Server()
    async with copies(server) as made:
        await server.refuse(DOWN, DOWN, for_s=300)
        await server.refuse(NO_RULES, NO_RULES, for_s=rules_s)
        await server.refuse(NO_PATHS, NO_PATHS, for_s=0.5)
        await server.refuse(None, NO_STORAGE, for_s=0.5)
        await server.refuse(None, None, for_s=4.9)
        assert stale(made) == []


async def test_one_that_stays_refused_does_not_keep_the_others_from_their_turns():
    server = Server()
    async with copies(server) as made:
        await server.refuse(DOWN, DOWN, for_s=300)
        server.of_namespace["n0"] = NO_RULES
        await server.refuse(NO_RULES, NO_RULES, for_s=15)
        await server.refuse(None, None, for_s=2 * PROBE_INTERVAL_S)
        assert len(stale(made)) == 1


async def test_refusals_after_an_outage_are_repeated_no_more_often_than_attempts_during_it():
    server = Server()
    async with copies(server):
        await server.refuse(DOWN, DOWN, for_s=200)
        began = asyncio.get_running_loop().time()
        await server.refuse(DOWN, DOWN, for_s=20)
        during = len(server.since(began))
        returned = asyncio.get_running_loop().time()
        await server.refuse(NO_RULES, NO_RULES, for_s=20)
        assert during <= len(server.since(returned)) <= during + 1


async def test_a_refusal_for_good_is_repeated_seldom_once_the_outage_is_over():
    server = Server()
    async with copies(server, 1):
        await server.refuse(DOWN, DOWN, for_s=300)
        await server.refuse(NO_RULES, NO_RULES, for_s=RETURN_S + 30)
        returned = asyncio.get_running_loop().time()
        await server.refuse(NO_RULES, NO_RULES, for_s=120)
        assert len(server.since(returned)) <= 5


async def test_overload_after_an_outage_is_met_with_waits_that_grow():
    server = Server()
    async with copies(server, 1):
        await server.refuse(DOWN, DOWN, for_s=300)
        returned = asyncio.get_running_loop().time()
        await server.refuse(NO_STORAGE, NO_STORAGE, for_s=120)
        times = server.since(returned)
        waits = [round(later - sooner, 1) for sooner, later in itertools.pairwise(times)]
        assert waits == [1.0, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
