"""Direct requests over real sockets: what is answered directly, what is handed over, and the limits of both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from joulie_api import http_server
from joulie_api.addresses import Address
from joulie_api.http_server import HttpLog, HttpServer
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.direct_front import DirectFront
from joulie_extender.direct_http import MAX_DIRECT_BYTES, DirectReply

HOST = "127.0.0.1"
OF_AIOHTTP = b"aiohttp:"
#: Headers in the order in which a kube-scheduler 1.34 was seen to send them.
GO = b"User-Agent: Go-http-client/1.1\r\n%bContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"


def post(body, *, start=b"POST /echo HTTP/1.1\r\nHost: a:1\r\n"):
    return start + GO % (b"Content-Length: %d\r\n" % len(body)) + body


async def echo(request):
    return web.Response(body=OF_AIOHTTP + await request.read())


@dataclass
class Running:
    """A server, and what its direct endpoint got."""

    budget: ByteBudget = field(default_factory=lambda: ByteBudget(200_000))
    bodies: list[bytes] = field(default_factory=list)
    errors: list[tuple[str, int]] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        endpoints = web.Application(client_max_size=1 << 28)
        endpoints.add_routes([web.post("/echo", echo), web.get("/echo", echo)])
        self.server = HttpServer(
            endpoints,
            HttpLog(),
            front=DirectFront({"/echo": self.echo}, self.budget),
            on_error=lambda path, status: self.errors.append((path, status)),
        )

    def echo(self, body: bytes, _started: float) -> DirectReply | None:
        self.bodies.append(body)
        return None if body == b"decline" else DirectReply(body)

    async def wait_for_body(self, size: int = 1) -> None:
        """Return when the server has received so much of bodies that are not complete."""
        while self.budget.held_bytes < size:  # noqa: ASYNC110 - the budget is a number
            await asyncio.sleep(0.001)


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    made = Running()
    made.port = await made.server.start(Address(HOST, 0))
    yield made
    await made.server.close()
    assert made.budget.held_bytes == 0


@asynccontextmanager
async def connected(running):
    reader, writer = await asyncio.open_connection(HOST, running.port)
    try:
        async with asyncio.timeout(10):
            yield reader, writer
    finally:
        writer.close()


async def read_answer(reader):
    """Return status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


@pytest.mark.parametrize("size", [0, 1, 4_000, 100_000])
async def test_the_usual_request_is_answered_directly_however_it_is_cut(running, size):
    body = b"x" * size
    request = post(body)
    head = len(request) - size
    async with connected(running) as (reader, writer):
        for cut in (len(request), head, head + size // 2):
            writer.write(request[:cut])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(request[cut:])
            assert await read_answer(reader) == (200, body)
    assert running.bodies == [body] * 3


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(b"{}", start=b"POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nHost: a\r\n"),
        post(b"{}", start=b"POST /echo?a=b HTTP/1.1\r\nHost: a\r\n"),
        post(b"{}", start=b"POST /echo HTTP/1.1\r\nHost: a\r\nX-Other: a\r\n"),
        post(b"{}", start=b"POST /echo HTTP/1.1\r\nhost: a\r\n"),
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ],
)
async def test_any_other_request_is_answered_by_aiohttp(running, request_bytes):
    async with connected(running) as (reader, writer):
        writer.write(request_bytes)
        assert await read_answer(reader) == (200, OF_AIOHTTP + b"{}")
    assert running.bodies == []


async def test_a_connection_goes_on_with_aiohttp_after_another_request(running):
    async with connected(running) as (reader, writer):
        writer.write(post(b"1"))
        assert await read_answer(reader) == (200, b"1")
        writer.write(b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n")
        assert await read_answer(reader) == (200, OF_AIOHTTP)
        writer.write(post(b"2"))
        assert await read_answer(reader) == (200, OF_AIOHTTP + b"2")


async def test_what_the_endpoint_declines_is_answered_by_aiohttp_with_the_whole_body(running):
    async with connected(running) as (reader, writer):
        writer.write(post(b"1") + post(b"decline") + post(b"2"))
        assert [await read_answer(reader) for _ in range(3)] == [
            (200, b"1"),
            (200, OF_AIOHTTP + b"decline"),
            (200, OF_AIOHTTP + b"2"),
        ]


async def test_a_large_body_is_left_to_aiohttp(running):
    body = b"x" * (MAX_DIRECT_BYTES + 1)
    async with connected(running) as (reader, writer):
        writer.write(post(body))
        assert await read_answer(reader) == (200, OF_AIOHTTP + body)


async def test_requests_that_are_sent_at_once_are_answered_in_order(running):
    bodies = [b"%d" % number * number for number in range(200)]
    async with connected(running) as (reader, writer):
        writer.write(b"".join(map(post, bodies)))
        assert [await read_answer(reader) for _ in bodies] == [(200, body) for body in bodies]
    assert running.bodies == bodies


async def test_a_head_with_two_lengths_is_refused(running):
    async with connected(running) as (reader, writer):
        writer.write(post(b"{}", start=b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"))
        assert (await reader.readline()).split()[1] == b"400"


async def test_bodies_beyond_the_budget_are_refused_until_others_are_done(running):
    half = post(b"x" * 150_000)
    with capture_logs() as lines:
        async with connected(running) as (first, first_writer), connected(running) as (second, second_writer):
            first_writer.write(half[:-1])
            await running.wait_for_body(100_000)
            second_writer.write(half[:-1])
            assert (await read_answer(second))[0] == 429
            first_writer.write(half[-1:])
            assert (await read_answer(first))[0] == 200
        async with connected(running) as (third, third_writer):
            third_writer.write(half)
            assert (await read_answer(third))[0] == 200
    assert [line["problem"] for line in lines] == ["bodies of concurrent requests too large"]
    assert running.errors == [("/echo", 429)]


async def test_a_client_that_does_not_read_its_answers_is_not_read_from_and_ends(running, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.2)
    body = b"x" * 100_000
    with capture_logs() as lines:
        async with connected(running) as (_, writer):
            with suppress(ConnectionError):
                while not lines:
                    writer.write(post(body))
                    await writer.drain()
    assert [line["problem"] for line in lines] == ["request not received and answered in time"]
    assert running.errors == [("/echo", 408)]


async def test_an_idle_connection_is_closed_without_a_line_in_the_log(running, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(http_server, "IDLE_TIMEOUT_S", 0.7)
    with capture_logs() as lines:
        async with connected(running) as (reader, writer):
            for _ in range(2):
                writer.write(post(b"{}"))
                assert await read_answer(reader) == (200, b"{}")
            assert await reader.read() == b""
    assert lines == []


async def test_a_request_that_is_being_received_is_answered_at_shutdown_and_an_idle_connection_closed(running):
    request = post(b"x" * 10)
    async with connected(running) as (idle, idle_writer), connected(running) as (busy, busy_writer):
        idle_writer.write(request)
        await read_answer(idle)
        busy_writer.write(request[:-1])
        await running.wait_for_body()
        closing = asyncio.create_task(running.server.close())
        assert await idle.read() == b""
        busy_writer.write(request[-1:])
        assert await read_answer(busy) == (200, b"x" * 10)
        assert await busy.read() == b""
        await closing


async def test_a_request_that_does_not_end_is_aborted_at_shutdown(running, monkeypatch):
    monkeypatch.setattr(http_server, "SHUTDOWN_TIMEOUT_S", 0.1)
    async with connected(running) as (reader, writer):
        writer.write(post(b"x" * 10)[:-1])
        await running.wait_for_body()
        await running.server.close()
        assert await reader.read() == b""
