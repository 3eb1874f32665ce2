"""The bounded queue of one page."""

import asyncio

import pytest

from joulie_operator.ui.subscriber import Subscriber, server_sent


@pytest.fixture
def aborted():
    return []


@pytest.fixture
def page(aborted):
    return Subscriber(lambda: aborted.append(True), backlog_bytes=10)


async def test_events_come_in_their_order(page):
    assert page.put(b"one")
    assert page.put(b"two")
    assert [await page.next(), await page.next()] == [b"one", b"two"]


async def test_the_next_event_is_waited_for(page):
    waiting = asyncio.ensure_future(page.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    page.put(b"one")
    assert await waiting == b"one"


async def test_a_page_that_does_not_read_is_aborted_at_the_bound(page, aborted):
    assert page.put(b"x" * 10)
    assert not page.put(b"y")
    assert aborted == [True]
    assert await page.next() is None


async def test_what_was_read_makes_room(page, aborted):
    for _ in range(3):
        assert page.put(b"x" * 10)
        await page.next()
    assert aborted == []


async def test_after_the_end_there_is_no_event(page, aborted):
    waiting = asyncio.ensure_future(page.next())
    await asyncio.sleep(0)
    page.end()
    assert await waiting is None
    assert aborted == []


def test_an_event_is_one_line_of_json_whatever_the_text():
    assert server_sent("nodes", ["a\nb\r\n\ndata: </script>"]) == (
        b'event: nodes\ndata: ["a\\nb\\r\\n\\ndata: </script>"]\n\n'
    )
