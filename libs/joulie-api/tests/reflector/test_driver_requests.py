"""What a reflector requests, and what it makes of the answers, in virtual time."""

import asyncio
import contextlib
import json
import math
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.errors import AnswerTooLarge, DecodeError, Forbidden, StreamBrokenError, TransportError
from joulie_api.failures import Failures
from joulie_api.outage import Outage
from joulie_api.reflector import Reflector
from joulie_api.reflector.driver import HANDLER_RETRY_S, MAX_PAGE_BYTES
from joulie_api.resources import NODES

pytestmark = pytest.mark.looptime
REFUSED = TransportError("refused")


def obj(name, version, value=0):
    return {"metadata": {"name": name, "resourceVersion": str(version)}, "value": value}


def page(*items, version=10, token=""):
    return json.dumps({"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}).encode()


def event(kind, item):
    return json.dumps({"type": kind, "object": item}).encode()


GONE = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
BOOKMARK = event("BOOKMARK", {"metadata": {"resourceVersion": "20"}})


def decode(raw):
    return json.loads(raw)["value"] + 0


@dataclass
class Server:
    """Gives its answers in turn; the last one again and again.

    An answer is an exception, a page, or what a watch sends: lines, exceptions, and seconds without anything.
    """

    answers: list
    requests: list = field(default_factory=list)
    outage: Outage = field(default_factory=Outage)

    async def list_page(self, *args, **options):
        return self._next("list", args, options)

    @contextlib.asynccontextmanager
    async def watch(self, *args, **options):
        yield self._lines(self._next("watch", args, options))

    async def _lines(self, steps):
        for step in steps:
            if isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, Exception):
                raise step
            else:
                yield step

    def _next(self, verb, args, options):
        self.requests.append((self._now(), verb, args, options))
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _now(self):
        return round(asyncio.get_running_loop().time(), 3)

    @property
    def verbs(self):
        return [(at, verb) for at, verb, _, _ in self.requests]


@contextlib.asynccontextmanager
async def followed(*answers, seconds, **options):
    """Run a reflector of these answers for some seconds; then stop it."""
    server = Server(list(answers))
    reflector = Reflector(server, NODES, decode, chance=lambda: 0.5, **options)
    reflector.server, reflector.heard = server, []
    reflector.subscribe(lambda *change: reflector.heard.append(change))
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.sleep(seconds)
        yield reflector
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


SILENCE = [10_000.0]
FIRST_PAGE = {"limit": 500, "continue_token": "", "max_bytes": MAX_PAGE_BYTES}


async def test_a_collection_is_requested_page_by_page_and_then_watched_from_its_first_page_on():
    selectors = {"label_selector": "a=b", "field_selector": "c=d"}
    pages = page(obj("x", 5), version=7, token="more"), page(obj("y", 6), version=8)
    with capture_logs() as logs:
        async with followed(*pages, SILENCE, seconds=1, namespace="here", **selectors) as reflector:
            assert dict(reflector.store) == {"x": 0, "y": 0}
    assert reflector.server.requests == [
        (0, "list", (NODES, "here"), selectors | FIRST_PAGE),
        (0, "list", (NODES, "here"), selectors | FIRST_PAGE | {"continue_token": "more"}),
        (0, "watch", (NODES, "here"), selectors | {"resource_version": "7", "timeout_s": 450}),
    ]
    assert [(log["event"], log["objects"], log["reflector"]) for log in logs] == [("synced", 2, NODES.full_name)]


async def test_without_selectors_all_objects_are_requested():
    selectors = {"label_selector": "", "field_selector": ""}
    async with followed(page(), SILENCE, seconds=1) as reflector:
        assert reflector.server.requests == [
            (0, "list", (NODES, None), selectors | FIRST_PAGE),
            (0, "watch", (NODES, None), selectors | {"resource_version": "10", "timeout_s": 450}),
        ]


async def test_nothing_is_visible_and_nothing_is_synced_before_the_last_page():
    pages = page(obj("x", 5), token="more"), REFUSED
    async with followed(*pages, seconds=5) as reflector:
        assert dict(reflector.store) == {}
        assert not reflector.synced.is_set()


async def test_a_failed_list_is_requested_again_after_a_delay_that_grows():
    failures = REFUSED, TransportError("broken")
    with capture_logs() as logs:
        async with followed(*failures, page(), SILENCE, seconds=5, name="mine") as reflector:
            assert reflector.problem is None
            assert reflector.synced.is_set()
    assert reflector.server.verbs == [(0, "list"), (0.4, "list"), (1.2, "list"), (1.2, "watch")]
    assert [(log["event"], log["reflector"]) for log in logs] == [
        ("watch failed", "mine"),
        ("synced", "mine"),
        ("watch recovered", "mine"),
    ]
    assert (logs[0]["cause"], logs[0]["problem"]) == ("TransportError", "refused")


async def test_the_problem_is_that_of_the_last_request():
    async with followed(REFUSED, TransportError("broken"), page(), SILENCE, seconds=0.2) as reflector:
        assert reflector.problem == "refused"
        await asyncio.sleep(0.4)
        assert reflector.problem == "broken"
        await asyncio.sleep(5)
        assert reflector.problem is None


async def test_a_watch_that_has_ended_is_opened_again_at_once():
    async with followed(page(), [5.0], seconds=12) as reflector:
        assert reflector.server.verbs == [(0, "list"), (0, "watch"), (5, "watch"), (10, "watch")]
        assert reflector.problem is None


async def test_a_watch_that_ends_at_once_is_opened_again_after_a_delay():
    async with followed(page(), [], SILENCE, seconds=2) as reflector:
        assert reflector.server.verbs == [(0, "list"), (0, "watch"), (0.4, "watch")]


async def test_a_watch_that_is_refused_is_requested_again_after_a_delay():
    with capture_logs() as logs:
        async with followed(page(), Forbidden(403, "Forbidden", "no watch"), SILENCE, seconds=2) as reflector:
            assert reflector.server.verbs == [(0, "list"), (0, "watch"), (0.4, "watch")]
    assert [log["event"] for log in logs] == ["synced", "watch failed", "watch recovered"]
    assert (logs[1]["cause"], logs[1]["problem"]) == ("Forbidden", "403 Forbidden: no watch")


@pytest.mark.parametrize(("error", "again_at"), [(StreamBrokenError("cut"), 5), (REFUSED, 5.4)])
async def test_a_watch_that_fails_while_it_is_read_is_continued(error, again_at):
    async with followed(page(), [5.0, error], SILENCE, seconds=8) as reflector:
        assert reflector.server.verbs == [(0, "list"), (0, "watch"), (again_at, "watch")]
        assert reflector.server.requests[-1][3]["resource_version"] == "10"


async def test_handlers_receive_the_key_and_both_objects_of_every_change():
    lines = event("ADDED", obj("y", 11, 2)), event("MODIFIED", obj("x", 12, 3)), event("DELETED", obj("y", 13, 2))
    async with followed(page(obj("x", 5, 1)), [*lines, 10_000.0], seconds=1) as reflector:
        assert reflector.heard == [("x", None, 1), ("y", None, 2), ("x", 1, 3), ("y", 2, None)]
        assert dict(reflector.store) == {"x": 3}
        late = []
        reflector.subscribe(lambda *change: late.append(change))
        assert late == [("x", None, 3)]


async def test_before_the_first_answer_the_age_is_infinite():
    async with followed(REFUSED, seconds=5) as reflector:
        assert reflector.age_s() == math.inf


async def test_the_age_counts_from_the_last_page_or_line():
    async with followed(page(), [5.0, BOOKMARK, 10_000.0], seconds=4) as reflector:
        assert reflector.age_s() == 4
        await asyncio.sleep(5)
        assert reflector.age_s() == 4
        assert reflector.counters.bookmarks == 1


async def test_a_version_that_is_gone_leads_to_a_new_list():
    async with followed(page(), [5.0, GONE, 10_000.0], page(), SILENCE, seconds=8) as reflector:
        assert reflector.server.verbs == [(0, "list"), (0, "watch"), (5, "list"), (5, "watch")]
        assert reflector.counters.relists == 1


async def test_an_exception_of_a_handler_is_not_taken_for_one_of_the_server():
    def fail(_key, old, _new):
        if old is not None:
            raise Forbidden(403, "Forbidden", "a refused write")

    server = Server([page(obj("x", 5)), [event("DELETED", obj("x", 11)), 10_000.0]])
    reflector = Reflector(server, NODES, decode)
    reflector.subscribe(fail)
    with pytest.raises(Forbidden, match="a refused write"):
        async with asyncio.timeout(1):
            await reflector.run()


async def test_an_object_that_cannot_be_decoded_is_logged_with_the_name_of_the_reflector():
    with capture_logs() as logs:
        async with followed(page(obj("x", 5, "bad")), SILENCE, seconds=1, name="mine"):
            pass
    assert [(log["event"], log["reflector"]) for log in logs] == [
        ("decoding object failed", "mine"),
        ("synced", "mine"),
    ]


async def test_a_copy_as_old_as_the_tolerance_is_not_stale():
    async with followed(page(), REFUSED, seconds=30) as reflector:
        assert reflector.age_s() == 30
        assert not reflector.is_stale(30)
        await asyncio.sleep(0.5)
        assert reflector.is_stale(30)


async def test_by_default_the_server_may_be_unreadable_for_140_s():
    async with followed(page(), REFUSED, seconds=140) as reflector:
        assert not reflector.is_stale()
        await asyncio.sleep(1)
        assert reflector.stale_reason() == "no contact for 141 s (refused)"


async def test_a_page_that_is_too_large_is_requested_in_smaller_ones_and_one_object_in_any_size():
    too_large = AnswerTooLarge("more than 8 MiB")
    pages = page(obj("x", 5), token="more"), too_large, too_large, too_large, too_large, page(obj("y", 6)), SILENCE
    async with followed(*pages, seconds=1) as reflector:
        assert dict(reflector.store) == {"x": 0, "y": 0}
    requested = [options for _, verb, _, options in reflector.server.requests if verb == "list"]
    assert [(each["limit"], each["continue_token"]) for each in requested] == [
        (500, ""),
        (500, "more"),
        (125, "more"),
        (31, "more"),
        (7, "more"),
        (1, "more"),
    ]
    assert [each["max_bytes"] for each in requested] == [MAX_PAGE_BYTES] * 5 + [None]


def invalid(raw):
    value = json.loads(raw)["value"]
    if value == "bad":
        raise DecodeError("not a thing")
    if value == "defect":
        raise KeyError("a defect")
    return value


@contextlib.asynccontextmanager
async def reported(*answers, handlers=()):
    """Run a reflector that reports to the failures of a process."""
    registry = CollectorRegistry()
    server = Server(list(answers))
    reflector = Reflector(server, NODES, invalid, chance=lambda: 0.5)
    reflector.report_to(Failures(registry))
    for handler in handlers:
        reflector.subscribe(handler)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, registry, task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_an_object_that_cannot_be_decoded_is_set_aside_by_name_until_it_can_or_is_gone():
    lines = [
        1.0,
        event("MODIFIED", obj("a", 11, 3)),
        1.0,
        event("DELETED", obj("b", 12)),
    ]
    first = page(obj("a", 1, "bad"), obj("b", 2, "defect"), obj("c", 3, 7))
    with capture_logs() as logs:
        async with reported(first, [*lines, *SILENCE]) as (reflector, registry, _):
            await asyncio.sleep(0.5)
            assert dict(reflector.store) == {"c": 7}
            assert reflector.invalid == {"a": "not a thing", "b": "'a defect'"}
            await asyncio.sleep(1)
            assert reflector.invalid.keys() == {"b"}
            assert dict(reflector.store) == {"a": 3, "c": 7}
            await asyncio.sleep(1)
            assert reflector.invalid == {}
    assert registry.get_sample_value("joulie_invalid_input_total", {"source": "nodes"}) == 1
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": "decode nodes"}) == 1
    assert [(log["event"], log["key"]) for log in logs if "key" in log] == [
        ("invalid input set aside", "a"),
        ("internal error, will be repeated", "b"),
        ("input valid again", "a"),
        ("works again", "b"),
    ]


async def test_an_invalid_object_that_a_new_list_lacks_is_forgotten():
    async with reported(page(obj("a", 1, "bad")), [GONE], page(), SILENCE) as (reflector, _, _):
        await asyncio.sleep(1)
        assert reflector.invalid == {}


async def test_a_handler_that_fails_on_one_object_is_called_with_the_others_and_again_with_it():
    heard, broken = [], {"b"}

    def handler(key, old, new):
        if key in broken:
            raise ZeroDivisionError("a defect")
        heard.append((key, old, new))

    first = page(obj("a", 1, 1), obj("b", 2, 2), obj("c", 3, 3))
    lines = [1.0, event("MODIFIED", obj("b", 11, 4)), HANDLER_RETRY_S, BOOKMARK, HANDLER_RETRY_S, BOOKMARK, *SILENCE]
    async with reported(first, lines, handlers=[handler]) as (reflector, registry, task):
        await asyncio.sleep(2)
        assert heard == [("a", None, 1), ("c", None, 3)]
        assert reflector.store["b"] == 4
        assert registry.get_sample_value("joulie_internal_errors_total", {"work": "take nodes"}) == 2
        broken.clear()
        await asyncio.sleep(HANDLER_RETRY_S)
        assert heard[2:] == [("b", None, 4)]
        await asyncio.sleep(2 * HANDLER_RETRY_S)
        assert len(heard) == 3
        assert not task.done()


async def test_a_handler_gets_what_it_has_taken_last_as_the_old_value():
    heard, broken = [], set()

    def handler(key, old, new):
        if new in broken:
            raise ZeroDivisionError("a defect")
        heard.append((key, old, new))

    broken.add(2)
    lines = [event("MODIFIED", obj("a", 11 + value, value)) for value in (2, 3)]
    last = event("DELETED", obj("a", 20))
    async with reported(page(obj("a", 1, 1)), [*lines, last, *SILENCE], handlers=[handler]):
        await asyncio.sleep(1)
    assert heard == [("a", None, 1), ("a", 1, 3), ("a", 3, None)]


async def test_the_deletion_of_an_object_that_a_handler_never_took_is_delivered():
    heard = []

    def handler(key, old, new):
        heard.append((key, old, new))
        if new is not None:
            raise ZeroDivisionError("a defect")

    async with reported(page(), [event("ADDED", obj("a", 11, 1)), event("DELETED", obj("a", 12)), *SILENCE]) as (
        reflector,
        _,
        _,
    ):
        reflector.subscribe(handler)
        await asyncio.sleep(1)
    assert heard == [("a", None, 1), ("a", 1, None)]


async def test_without_a_place_to_report_to_an_error_of_a_handler_ends_the_watch():
    server = Server([page(obj("a", 1)), SILENCE])
    reflector = Reflector(server, NODES, decode)

    def handler(*_change):
        raise ZeroDivisionError("a defect")

    reflector.subscribe(handler)
    with pytest.raises(ZeroDivisionError):
        await reflector.run()
