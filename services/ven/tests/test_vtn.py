"""The VEN's requests to a VTN, good and hostile."""

import asyncio
import json
import time

import aiohttp
import pytest
from aiohttp import web
from services.ven.tests.events import capacity
from services.ven.tests.vtn import VEN

from joulie_api.answers import session_options
from joulie_ven.http import MOST_RETRY_S, VtnHttp
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.tokens import Tokens, VtnCredentials
from joulie_ven.vtn import MOST_ITEMS, Vtn
from joulie_ven.wire import MOST_BYTES


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def connect(vtn, credentials, clock):
    """Return a client of the VTN; keyword arguments override what it is made of."""
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), **session_options())
    async with session:

        def start(*, url=vtn.url, token_url="", scope="", timeout_s=2.0, wall=lambda: 0.0):
            http = VtnHttp(session, timeout_s=timeout_s)
            tokens = Tokens(
                http,
                vtn_url=url,
                token_url=token_url,
                credentials=VtnCredentials(credentials),
                scope=scope,
                clock=clock,
            )
            return Vtn(http, tokens, url=url, wall=wall)

        yield start


@pytest.fixture
def program(vtn):
    return vtn.program["id"]


async def failure(work):
    with pytest.raises(VtnError) as caught:
        await work
    return caught.value


def answering(status=200, body=b"[]", **headers):
    return lambda _: web.Response(status=status, body=body, headers=headers)


def only(path, answer):
    """A fault of one path alone."""
    return lambda request: answer(request) if request.path == path else None


# --- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_token_is_asked_for_once_where_the_vtn_says(vtn, connect, program):
    client = connect(scope="read_targets write_reports")
    await client.events(program)
    await client.events(program)
    form = {"grant_type": "client_credentials", "client_id": VEN[0], "client_secret": VEN[1]}
    assert vtn.asked("/auth/token", "POST") == [form | {"scope": "read_targets write_reports"}]
    assert len(vtn.asked("/auth/server")) == 1


async def test_a_configured_token_url_is_not_asked_for(vtn, connect, program):
    await connect(token_url=f"{vtn.url}/auth/token").events(program)
    assert vtn.asked("/auth/server") == []
    assert "scope" not in vtn.asked("/auth/token", "POST")[0]


@pytest.mark.parametrize("lifetime", [(3600, 3570), (60, 54), (0, 0), (-5, 0)])
async def test_a_token_is_replaced_shortly_before_its_end(vtn, connect, program, clock, lifetime):
    expires_in, kept_s = lifetime
    vtn.expires_in = expires_in
    client = connect()
    await client.events(program)
    clock.now += max(0, kept_s - 0.5)
    await client.events(program)
    assert len(vtn.asked("/auth/token", "POST")) == (1 if kept_s else 2)
    clock.now += 1
    await client.events(program)
    assert len(vtn.asked("/auth/token", "POST")) == (2 if kept_s else 3)


async def test_a_token_that_the_vtn_has_forgotten_is_replaced_once(vtn, connect, program):
    client = connect()
    await client.events(program)
    vtn.expire()
    await client.events(program)
    assert len(vtn.asked("/auth/token", "POST")) == 2


async def test_a_vtn_that_always_says_401_gets_one_new_token_for_each_request(vtn, connect, program):
    vtn.fault = only("/events", answering(401))
    client = connect()
    error = await failure(client.events(program))
    assert (error.reason, len(vtn.asked("/auth/token", "POST"))) == (VtnReason.UNAUTHORIZED, 2)
    assert len(vtn.asked("/events")) == 2


async def test_wrong_credentials_are_named_and_not_shown(vtn, connect, program, credentials):
    (credentials / "client-secret").write_text("not-the-secret")
    error = await failure(connect().events(program))
    assert (error.reason, vtn.asked("/events")) == (VtnReason.UNAUTHORIZED, [])
    assert "not-the-secret" not in str(error)


async def test_changed_credentials_need_no_restart(vtn, connect, program, credentials):
    client = connect()
    (credentials / "client-secret").write_text("wrong")
    await failure(client.events(program))
    (credentials / "client-secret").write_text(VEN[1])
    await client.events(program)


@pytest.mark.parametrize("text", [None, "", "x" * 5000])
async def test_credentials_that_are_missing_are_named(connect, program, credentials, text):
    (credentials / "client-id").unlink() if text is None else (credentials / "client-id").write_text(text)
    error = await failure(connect().events(program))
    assert error.reason is VtnReason.CREDENTIALS_MISSING
    assert "client-id" in error.message


@pytest.mark.parametrize(
    "answer",
    [
        {"access_token": "a b", "token_type": "Bearer"},
        {"access_token": "a\r\nHost: x", "token_type": "Bearer"},
        {"access_token": "", "token_type": "Bearer"},
        {"access_token": "t", "token_type": "mac"},
        {"access_token": "x" * 9000, "token_type": "Bearer"},
        {"access_token": "t", "token_type": "Bearer", "expires_in": "soon"},
        {"token_type": "Bearer"},
        [],
    ],
)
async def test_a_token_that_cannot_be_used_is_refused(vtn, connect, program, answer):
    vtn.fault = only("/auth/token", answering(body=json.dumps(answer).encode()))
    assert (await failure(connect().events(program))).reason is VtnReason.INVALID_ANSWER


@pytest.mark.parametrize("url", ["http://example.org/token", "ftp://127.0.0.1/", "https://user:pw@example.org/", "", 7])
async def test_credentials_are_sent_to_no_token_url_that_is_not_secure(vtn, connect, program, url):
    vtn.fault = only("/auth/server", answering(body=json.dumps({"tokenURL": url}).encode()))
    error = await failure(connect().events(program))
    assert (error.reason, vtn.asked("/auth/token", "POST")) == (VtnReason.INVALID_ANSWER, [])


# --- programs and pages -----------------------------------------------------------------------------------------------


async def test_a_program_is_found_by_name_or_id(vtn, connect, program):
    client = connect()
    assert (await client.program("dispatch")).id == program
    assert (await client.program(program)).program_name == "dispatch"


@pytest.mark.parametrize(("name", "number"), [("dispatch", 2), ("other", 0)])
async def test_a_program_that_is_not_the_only_one_is_not_found(vtn, connect, name, number):
    vtn.programs["program-9"] = {**vtn.program, "id": "program-9"}
    error = await failure(connect().program(name))
    assert error.reason is VtnReason.PROGRAM_NOT_FOUND
    assert error.message.startswith(f"{number} programs")


async def test_all_pages_are_read(vtn, connect, program):
    made = [vtn.put(**capacity(500, 2e9)) for _ in range(120)]
    read = await connect().events(program)
    assert list(read.events) == made
    assert [dict(query)["skip"] for query in vtn.asked("/events")] == ["0", "50", "100"]
    assert {dict(query)["limit"] for query in vtn.asked("/events")} == {"50"}


def listed(vtn, events):
    return only("/events", answering(body=json.dumps(events).encode()))


async def test_a_vtn_that_ignores_the_limit_is_read_at_once(vtn, connect, program):
    made = [vtn.put(**capacity(500, 2e9)) for _ in range(120)]
    vtn.fault = listed(vtn, list(vtn.events.values()))
    assert list((await connect().events(program)).events) == made
    assert len(vtn.asked("/events")) == 1


async def test_a_vtn_that_repeats_a_page_for_ever_is_left(vtn, connect, program):
    made = [vtn.put(**capacity(500, 2e9)) for _ in range(50)]
    vtn.fault = listed(vtn, list(vtn.events.values()))
    assert list((await connect().events(program)).events) == made
    assert len(vtn.asked("/events")) == 2


async def test_a_vtn_with_events_without_end_is_left(vtn, connect, program):
    [event] = [vtn.events[vtn.put(**capacity(500, 2e9))]]
    numbers = iter(range(10**6))
    vtn.fault = only(
        "/events",
        lambda _: web.json_response([{**event, "id": f"e-{next(numbers)}"} for _ in range(50)]),
    )
    error = await failure(connect(timeout_s=10).events(program))
    assert (error.reason, len(vtn.asked("/events"))) == (VtnReason.INVALID_ANSWER, MOST_ITEMS // 50 + 1)


async def test_pages_that_are_too_large_together_are_not_read_on(vtn, connect, program):
    [event] = [vtn.events[vtn.put(**capacity(500, 2e9))]]
    numbers = iter(range(10**6))
    page_bytes = MOST_BYTES // 2
    vtn.fault = only(
        "/events",
        lambda _: web.json_response(
            [{**event, "id": f"e-{next(numbers)}", "eventName": "x" * (page_bytes // 50)} for _ in range(50)]
        ),
    )
    error = await failure(connect(timeout_s=10).events(program))
    assert (error.reason, len(vtn.asked("/events"))) == (VtnReason.INVALID_ANSWER, 2)
    assert f"or {MOST_BYTES} bytes" in error.message


async def test_events_of_other_programs_are_left_out(vtn, connect, program):
    other = vtn.put(**capacity(500, 2e9), programID="program-77")
    vtn.fault = listed(vtn, list(vtn.events.values()))
    client = connect()
    assert (await client.events(program)).events == {}
    vtn.fault = lambda _: None
    read = await client.events(program)
    assert await client.event(other, read, program)
    assert (read.events, read.unreadable) == ({}, {})


# --- hostile answers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "shown"),
    [
        ({"intervals": {}}, "intervals"),
        ({"intervals": [{"payloads": []}]}, "intervals.0.id"),
        ({"intervals": [{"id": 0, "payloads": []}] * 1001}, "intervals"),
        ({"priority": -1}, "priority"),
        ({"targets": ["x"] * 300}, "targets"),
        ({"programID": None}, "programID"),
    ],
)
async def test_an_event_that_cannot_be_read_stops_no_other(vtn, connect, program, broken, shown):
    good = vtn.put(**capacity(500, 2e9))
    bad = {**vtn.events[good], "id": "bad", **broken}
    vtn.fault = listed(vtn, [bad, vtn.events[good], 7, {"id": [], "programID": program}])
    read = await connect().events(program)
    assert list(read.events) == [good]
    assert shown in read.unreadable["bad"]
    assert len(read.unreadable) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[" * 100_000,
        b"[" + b'{"a":' * 50_000,
        b"[NaN]",
        b"\xff\xfe",
        b"[1",
        b" " * (MOST_BYTES + 1),
    ],
    ids=["empty", "object", "null", "deep", "deep objects", "nan", "no text", "cut", "huge"],
)
async def test_an_answer_that_is_no_list_is_refused(vtn, connect, program, body):
    vtn.fault = only("/events", answering(body=body))
    assert (await failure(connect().events(program))).reason is VtnReason.INVALID_ANSWER


async def test_a_deep_event_is_unreadable(vtn, connect, program):
    deep = b'[{"id":"deep","programID":"p","intervals":' + b"[" * 20_000 + b"]" * 20_000 + b"}]"
    vtn.fault = only("/events", answering(body=deep))
    assert (await failure(connect().events(program))).reason is VtnReason.INVALID_ANSWER


async def test_a_compressed_answer_is_refused(vtn, connect, program):
    vtn.fault = only("/events", answering(body=b"x", **{"Content-Encoding": "gzip"}))
    assert (await failure(connect().events(program))).reason is VtnReason.INVALID_ANSWER


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (204, VtnReason.INVALID_ANSWER),
        (302, VtnReason.REFUSED),
        (403, VtnReason.FORBIDDEN),
        (404, VtnReason.REFUSED),
        (429, VtnReason.BUSY),
        (500, VtnReason.REFUSED),
        (503, VtnReason.BUSY),
        (599, VtnReason.REFUSED),
    ],
)
async def test_other_answers_are_named(vtn, connect, program, status, reason):
    vtn.fault = only("/events", answering(status, Location=f"{vtn.url}/elsewhere"))
    assert (await failure(connect().events(program))).reason is reason
    assert vtn.asked("/elsewhere") == []


@pytest.mark.parametrize(("header", "seconds"), [("7", 7), ("999999", MOST_RETRY_S), ("soon", 0), ("-1", 0)])
async def test_the_wait_that_a_busy_vtn_requests_is_bounded(vtn, connect, program, header, seconds):
    vtn.fault = only("/events", answering(429, **{"Retry-After": header}))
    assert (await failure(connect().events(program))).retry_after_s == seconds


async def dripping(request):
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.05)


async def test_a_slow_vtn_has_a_deadline(vtn, connect, program):
    vtn.fault = only("/events", dripping)
    assert (await failure(connect(timeout_s=0.3).events(program))).reason is VtnReason.TIMED_OUT


async def test_a_vtn_that_does_not_listen_is_unreachable(connect, program):
    error = await failure(connect(url="http://127.0.0.1:9", token_url="http://127.0.0.1:9/token").events(program))
    assert error.reason is VtnReason.UNREACHABLE


async def test_a_server_without_tls_is_not_trusted(vtn, connect, program):
    url = vtn.url.replace("http:", "https:")
    error = await failure(connect(url=url, token_url=f"{url}/token").events(program))
    assert error.reason in {VtnReason.NOT_TRUSTED, VtnReason.UNREACHABLE}


# --- one event, reports, clock ----------------------------------------------------------------------------------------


async def test_an_event_is_gone_only_where_the_vtn_says_so(vtn, connect, program):
    client, event_id = connect(), vtn.put(**capacity(500, 2e9))
    read = await client.events("program-77")
    assert await client.event(event_id, read, program)
    assert list(read.events) == [event_id]
    assert not await client.event("event-77", read, program)
    vtn.fault = only("/events/event-77", answering(500))
    assert (await failure(client.event("event-77", read, program))).reason is VtnReason.REFUSED


async def test_the_clock_of_the_vtn_is_compared(vtn, connect, program):
    client = connect(wall=time.time)
    vtn.ahead_s = 3600
    await client.events(program)
    assert client.ahead_s == pytest.approx(3600, abs=5)
