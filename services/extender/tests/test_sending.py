"""A large answer leaves the event loop to others, also where its client reads at once."""

import asyncio

from aiohttp.abc import AbstractStreamWriter
from aiohttp.test_utils import make_mocked_request

from joulie_extender.handlers import _send_parts


class Eager(AbstractStreamWriter):
    """A connection whose client has room for everything."""

    def __init__(self):
        self.sent = []

    async def write(self, chunk):
        self.sent.append(bytes(chunk))

    async def write_eof(self, chunk=b""):
        self.sent.append(bytes(chunk))

    async def drain(self):
        pass

    async def write_headers(self, status_line, headers):
        pass

    def enable_compression(self, encoding="deflate", strategy=None):
        pass

    def enable_chunking(self):
        pass


async def test_between_two_parts_of_an_answer_others_get_the_event_loop():
    turns = 0
    at = []

    async def count_turns():
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def parts():
        for number in range(5):
            at.append(turns)
            yield b"%d" % number

    counting = asyncio.create_task(count_turns())
    await asyncio.sleep(0)
    writer = Eager()
    await _send_parts(make_mocked_request("POST", "/filter", writer=writer), parts())
    counting.cancel()
    assert b"".join(writer.sent) == b"01234"
    assert len(set(at)) == 5
