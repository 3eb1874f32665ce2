"""The limits of every HTTP server, over real sockets: as aiohttp serves, and with the front of the extender."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import product

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from joulie_api import http_server
from joulie_api.addresses import Address
from joulie_api.http_server import HttpLog, HttpServer, lift_time_limit
from joulie_api.log_limit import LogLimit
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.direct_front import DirectFront
from joulie_extender.direct_http import MAX_DIRECT_BYTES, DirectReply

HOST = "127.0.0.1"
POST = b"POST /echo HTTP/1.1\r\nHost: a\r\n"


async def echo(request):
    return web.Response(body=await request.read())


async def fail(_request):
    raise RuntimeError("a defect")


async def fail_midway(request):
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b"half")
    raise RuntimeError("a defect")


async def flood(request):
    answer = web.StreamResponse()
    await answer.prepare(request)
    while True:
        await answer.write(b"x" * 65_536)


async def trickle(request):
    lift_time_limit(request)
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(20):
        await answer.write(b"x")
        await asyncio.sleep(0.02)
    return answer


@pytest.fixture
def logs() -> Iterator[list]:
    with capture_logs() as lines:
        yield lines


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def echo_directly(body, _started):
    return None if body == b"decline" else DirectReply(body)


def fail_directly(_body, _started):
    raise RuntimeError("a defect")


DIRECT = {"/echo": echo_directly, "/fail": fail_directly}


@pytest.fixture(params=[None, DIRECT], ids=["aiohttp", "direct"])
async def port(logs, clock, request) -> AsyncIterator[int]:
    endpoints = web.Application(client_max_size=1 << 20)
    routes = {"/echo": echo, "/fail": fail, "/midway": fail_midway, "/flood": flood, "/trickle": trickle}
    endpoints.add_routes([web.post(path, handler) for path, handler in routes.items()])
    front = request.param and DirectFront(request.param, ByteBudget(MAX_DIRECT_BYTES))
    server = HttpServer(endpoints, HttpLog(LogLimit(clock=clock)), front=front)
    yield await server.start(Address(HOST, 0))
    await server.close()


@asynccontextmanager
async def connected(port, source=HOST):
    reader, writer = await asyncio.open_connection(HOST, port, local_addr=(source, 0))
    try:
        async with asyncio.timeout(10):
            yield reader, writer
    finally:
        writer.close()


async def answer_to(port, raw, *, end=False):
    """Everything that the server sends for these bytes until it closes the connection."""
    async with connected(port) as (reader, writer):
        writer.write(raw)
        if end:
            writer.write_eof()
        try:
            return await reader.read()
        except ConnectionError:
            return b""


async def post(port, path, body=b"", **headers):
    url = f"http://{HOST}:{port}{path}"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        return answer.status, await answer.read()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        *product(["gzip", "deflate", "br", "zstd", "GZIP", "gzip, gzip", "nonsense"], [b"{}"]),
        ("deflate", zlib.compress(b"{}")),
    ],
)
async def test_an_encoded_body_is_refused_with_415_and_nothing_is_logged(port, logs, encoding, body):
    status, text = await post(port, "/echo", body, **{"Content-Encoding": encoding})
    assert status == 415
    assert b"Content-Encoding" in text
    assert logs == []


async def test_identity_is_no_encoding(port):
    assert await post(port, "/echo", b"{}", **{"Content-Encoding": "identity"}) == (200, b"{}")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GARBAGE\r\n\r\n",
        b"POST /echo HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        POST + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        POST + b"".join(b"X-%d: a\r\n" % number for number in range(10_000)) + b"\r\n",
        POST + b"Content-Length: -1\r\n\r\n",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        POST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
        POST + b"Connection: close\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000,
    ],
)
async def test_what_is_not_http_is_answered_4xx_or_closed(port, raw):
    answer = await answer_to(port, raw)
    assert answer == b"" or answer.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4")), answer[:200]


@pytest.mark.parametrize("raw", [b"", b"POST /ec", POST, POST + b"Content-Length: 9\r\n\r\n{"])
async def test_a_client_that_leaves_in_the_middle_gets_no_answer_and_no_line_in_the_log(port, logs, raw):
    assert await answer_to(port, raw, end=True) == b""
    assert await post(port, "/echo", b"{}") == (200, b"{}")
    assert logs == []


async def test_bad_requests_are_one_line_a_second_and_the_next_has_their_number(port, logs, clock):
    for _ in range(100):
        await answer_to(port, POST + b"Content-Length: -1\r\n\r\n")
    clock.now_s = 1.0
    for _ in range(100):
        await answer_to(port, POST + b"Content-Length: -1\r\n\r\n")
    assert [(line["event"], line["suppressed"]) for line in logs] == [
        ("http request refused", 0),
        ("http request refused", 99),
    ]
    assert "\n" not in logs[0]["problem"]


async def test_a_failing_handler_is_answered_500_and_logged_with_its_error_once_a_second(port, logs):
    for _ in range(100):
        assert await post(port, "/fail") == (500, b"internal error, see the log\n")
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("http request failed", "error")
    assert str(line["exc_info"]) == "a defect"


async def test_a_handler_that_fails_in_the_middle_of_an_answer_closes_the_connection(port):
    with pytest.raises(aiohttp.ClientError):
        await post(port, "/midway")


async def test_a_slow_body_ends_with_the_connection(port, logs, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.1)
    assert await answer_to(port, POST + b"Content-Length: 9\r\n\r\n{") == b""
    assert [line["problem"] for line in logs] == ["request not received and answered in time"]


async def test_a_client_that_does_not_read_ends_with_the_connection(port, logs, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.1)
    async with connected(port) as (reader, writer):
        writer.write(b"POST /flood HTTP/1.1\r\nHost: a\r\n\r\n")
        while not logs:  # noqa: ASYNC110 - the log is a list
            await asyncio.sleep(0.01)
        received = b""
        with suppress(ConnectionError):
            received = await reader.read()
        assert not received.endswith(b"0\r\n\r\n")
    assert [line["problem"] for line in logs] == ["request not received and answered in time"]


async def test_a_stream_without_a_time_limit_outlives_that_of_requests(port, logs, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.1)
    assert await post(port, "/trickle") == (200, b"x" * 20)
    assert logs == []


@pytest.mark.parametrize("raw", [b"", b"POST /echo HTTP/1.1\r\nX-Slow:"])
async def test_a_connection_without_a_request_is_closed(logs, monkeypatch, port, raw):
    monkeypatch.setattr(http_server, "FIRST_REQUEST_TIMEOUT_S", 0.1)
    assert await answer_to(port, raw) == b""
    assert [line["problem"] for line in logs] == ["no request in time"]


async def test_a_connection_with_a_request_outlives_the_limit_of_the_first(monkeypatch, port):
    monkeypatch.setattr(http_server, "FIRST_REQUEST_TIMEOUT_S", 0.1)
    async with connected(port) as (reader, writer):
        for _ in range(2):
            writer.write(POST + b"Content-Length: 2\r\n\r\n{}")
            await reader.readuntil(b"{}")
            assert await answer_to(port, b"") == b""  # a connection without a request, until its limit has passed


async def test_connections_beyond_the_limit_are_closed_and_the_others_served(monkeypatch, port):
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 2)
    async with connected(port) as (first, writer), connected(port):
        assert await answer_to(port, b"") == b""
        writer.write(POST + b"Content-Length: 2\r\n\r\n{}")
        assert (await first.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "head", [b"", POST + b"Content-Length: 9\r\n\r\n{", POST + b"Content-Length: 9\r\nX: y\r\n\r\n{"]
)
async def test_an_address_that_takes_all_connections_leaves_room_for_every_other(port, head):
    async with AsyncExitStack() as stack:
        greedy = [await stack.enter_async_context(connected(port)) for _ in range(http_server.MAX_CONNECTIONS)]
        for _, writer in greedy:
            writer.write(head)
        for number in range(2, 12):
            reader, writer = await stack.enter_async_context(connected(port, f"127.0.0.{number}"))
            writer.write(POST + b"Content-Length: 2\r\n\r\n{}")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        # The oldest have made room, one each; the youngest is served.
        for reader, _ in greedy[:10]:
            assert await ended(reader)
        reader, writer = greedy[-1]
        writer.write(POST + b"Content-Length: 2\r\n\r\n{}" if not head else b"x" * 8)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


async def ended(reader):
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("more", [b"", b"X: y\r\n"])
async def test_a_body_of_which_nothing_comes_ends_long_before_the_limit_of_requests(port, logs, monkeypatch, more):
    monkeypatch.setattr(http_server, "STALL_TIMEOUT_S", 0.1)
    assert await answer_to(port, POST + more + b"Content-Length: 9\r\n\r\n{") == b""
    assert [line["problem"] for line in logs] == ["request not received and answered in time"]


@pytest.mark.parametrize("more", [b"", b"X: y\r\n"])
async def test_a_body_that_comes_slowly_is_received(port, monkeypatch, more):
    """Each byte comes before the limit of stalled bodies, and all of them take several times as long."""
    monkeypatch.setattr(http_server, "STALL_TIMEOUT_S", 1.0)
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    async with connected(port) as (reader, writer):
        writer.write(POST + more + b"Content-Length: 9\r\n\r\n")
        for _ in range(9):
            writer.write(b"x")
            for _ in range(2):
                await turns_of_the_loop()
                now_s += http_server.STALL_TIMEOUT_S / 4  # as often as the server looks
            await turns_of_the_loop()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("more", [b"", b"X: y\r\n"])
async def test_a_body_that_came_while_the_loop_was_blocked_is_received(port, logs, monkeypatch, more):
    """The rest of the body is in the socket before the loop goes on, later than the limit of stalled bodies."""
    monkeypatch.setattr(http_server, "STALL_TIMEOUT_S", 1.0)
    loop = asyncio.get_running_loop()
    now_s = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now_s)
    failures = []
    loop.set_exception_handler(lambda _loop, context: failures.append(context))
    async with connected(port) as (reader, writer):
        writer.write(POST + more + b"Content-Length: 9\r\n\r\n{")
        for _ in range(3):
            await turns_of_the_loop()
            now_s += http_server.STALL_TIMEOUT_S / 4
        await turns_of_the_loop()
        writer.write(b"12345678")
        now_s += 2 * http_server.STALL_TIMEOUT_S
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert (failures, logs) == ([], [])


async def turns_of_the_loop():
    """Let the server, which is in the same loop, receive what was written and see what time it is."""
    for _ in range(20):
        await asyncio.sleep(0)
