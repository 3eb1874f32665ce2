"""Limits of a watch: silence, and its own time."""

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import aiohttp
import pytest

from joulie_api.errors import IdleTimeoutError, StreamBrokenError
from joulie_api.watch_stream import read_lines

pytestmark = pytest.mark.looptime

LINE = b'{"type":"BOOKMARK"}\n'


@pytest.fixture
async def content():
    loop = asyncio.get_running_loop()
    return aiohttp.StreamReader(Mock(_reading_paused=False), 2**16, loop=loop)


def stream(content, *, idle_s=60.0, total_s=60.0):
    return read_lines(SimpleNamespace(content=content), "/nodes", idle_s=idle_s, total_s=total_s)


async def test_lines_are_yielded_whole_however_they_arrive(content):
    loop = asyncio.get_running_loop()
    for number, part in enumerate([b"a", b"b\n\nc", b"\nrest"]):
        loop.call_later(number / 100, content.feed_data, part)
    loop.call_later(0.05, content.feed_eof)
    assert [line async for line in stream(content)] == [b"ab", b"c"]


async def test_silence_ends_the_stream(content):
    content.feed_data(LINE)
    lines = stream(content, idle_s=0.1)
    assert await anext(lines) == LINE.strip()
    with pytest.raises(IdleTimeoutError):
        await anext(lines)


async def test_a_stream_with_data_in_every_period_goes_on(content):
    loop = asyncio.get_running_loop()
    for number in range(20):
        loop.call_later(number / 20, content.feed_data, LINE)
    loop.call_later(1, content.feed_eof)
    assert len([line async for line in stream(content, idle_s=0.3)]) == 20


async def test_data_that_waits_to_be_read_is_no_silence(content):
    loop = asyncio.get_running_loop()
    content.feed_data(LINE)
    lines = stream(content, idle_s=0.2)
    await anext(lines)
    loop.call_later(0.15, content.feed_data, LINE)
    limit_passed = asyncio.Event()
    loop.call_later(0.3, limit_passed.set)
    await limit_passed.wait()
    assert await anext(lines) == LINE.strip()


async def test_a_stream_that_outlasts_its_time_is_broken(content):
    loop = asyncio.get_running_loop()
    for number in range(20):
        loop.call_later(number / 100, content.feed_data, LINE)
    with pytest.raises(StreamBrokenError, match="not ended in time"):
        async for _ in stream(content, total_s=0.1):
            pass
