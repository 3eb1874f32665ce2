"""When something is sent that has to be renewed."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from joulie_containers.resources.renewal import Renewal

pytestmark = pytest.mark.looptime


class Sender:
    """Notes when something is sent, in seconds from the start."""

    def __init__(self):
        self.times, self.wait_s, self.during = [], None, lambda: None
        self.renewal = Renewal(self.apply)

    async def apply(self):
        self.times.append(asyncio.get_running_loop().time() - self.start)
        self.during()
        return self.wait_s

    @asynccontextmanager
    async def running(self):
        self.start = asyncio.get_running_loop().time()
        task = asyncio.create_task(self.renewal.run())
        await asyncio.sleep(1)
        yield self.renewal.wake
        task.cancel()


@pytest.fixture
def sender():
    return Sender()


async def test_it_is_sent_once_and_then_at_each_change(sender):
    async with sender.running() as wake:
        await asyncio.sleep(1000)
        wake()
        await asyncio.sleep(1000)
        wake()
        wake()
        await asyncio.sleep(1000)
    assert sender.times == pytest.approx([0, 1001, 2001])


async def test_it_is_sent_again_after_the_time_that_was_asked_for(sender):
    sender.wait_s = 20
    async with sender.running():
        await asyncio.sleep(45)
        sender.wait_s = None
        await asyncio.sleep(1000)
    assert sender.times == pytest.approx([0, 20, 40, 60])


async def test_a_change_does_not_wait_for_the_time_that_was_asked_for(sender):
    sender.wait_s = 20
    async with sender.running() as wake:
        await asyncio.sleep(14)
        wake()
        await asyncio.sleep(10)
    assert sender.times == pytest.approx([0, 15])


async def test_what_changes_while_it_is_sent_is_sent_afterwards(sender):
    changes = [sender.renewal.wake]
    sender.during = lambda: changes.pop()() if changes else None
    async with sender.running():
        await asyncio.sleep(1000)
    assert sender.times == pytest.approx([0, 0])
