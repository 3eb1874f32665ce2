"""Tests of receiving answers up to a limit."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from joulie_api.answers import read_answer, session_options
from joulie_api.errors import DecodeError


@asynccontextmanager
async def _answer(
    body: bytes, *, headers: dict[str, str] | None = None, requests: list[web.Request] | None = None
) -> AsyncIterator[aiohttp.ClientResponse]:
    async def handle(request: web.Request) -> web.StreamResponse:
        if requests is not None:
            requests.append(request)
        return web.Response(body=body, headers=headers or {})

    app = web.Application()
    app.router.add_get("/", handle)
    server = TestServer(app)
    await server.start_server()
    try:
        async with (
            aiohttp.ClientSession(**session_options()) as session,
            session.get(server.make_url("/")) as response,
        ):
            yield response
    finally:
        await server.close()


async def test_an_answer_of_the_limit_is_returned_whole() -> None:
    async with _answer(b"x" * 200_000) as response:
        assert await read_answer(response, max_bytes=200_000, what="the server") == b"x" * 200_000


async def test_a_longer_answer_is_refused_by_name_and_its_connection_is_closed() -> None:
    async with _answer(b"x" * 200_001) as response:
        with pytest.raises(DecodeError, match="the server answers with more than 200000 bytes"):
            await read_answer(response, max_bytes=200_000, what="the server")
        assert response.connection is None


async def test_no_encoding_is_requested() -> None:
    requests: list[web.Request] = []
    async with _answer(b"", requests=requests):
        pass
    assert requests[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("encoding", ["gzip", " GZIP ", "deflate", "br", "unknown"])
async def test_an_encoded_answer_is_refused_however_short(encoding: str) -> None:
    body = gzip.compress(b"0" * 1_000_000)
    async with _answer(body, headers={"Content-Encoding": encoding}) as response:
        with pytest.raises(DecodeError, match="body encoded as"):
            await read_answer(response, max_bytes=1_000_000, what="the server")


@pytest.mark.parametrize("encoding", ["identity", " Identity "])
async def test_the_identity_encoding_is_none(encoding: str) -> None:
    async with _answer(b"abc", headers={"Content-Encoding": encoding}) as response:
        assert await read_answer(response, max_bytes=3, what="the server") == b"abc"
