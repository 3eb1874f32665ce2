"""When passes begin: once in the interval, and soon after pods have begun to wait, however many they are."""

import asyncio

import pytest

from joulie_operator.sleep.pacing import LoopTurns, PassPacing

pytestmark = pytest.mark.looptime


async def begun(pacing, until_s, *, pass_s=0.0):
    """Return when passes begin, each of which takes `pass_s`."""
    loop, times = asyncio.get_running_loop(), []
    first = loop.time()

    async def run():
        while True:
            pacing.begin()
            times.append(round(loop.time() - first, 6))
            pacing.take_pods()
            await asyncio.sleep(pass_s)
            await pacing.next_pass()

    running = asyncio.create_task(run())
    await asyncio.sleep(until_s)
    running.cancel()
    return times


def pods(pacing, *at_s):
    """Let pods begin to wait at these times."""
    loop = asyncio.get_running_loop()
    for each in at_s:
        loop.call_later(each, pacing.on_waiting_pod)


async def test_without_pods_a_pass_begins_once_in_the_interval():
    assert await begun(PassPacing(10), 35, pass_s=2) == [0, 10, 20, 30]


async def test_a_pass_that_took_longer_than_the_interval_is_followed_by_the_next_at_once():
    assert await begun(PassPacing(10), 35, pass_s=15) == [0, 15, 30]


async def test_a_pod_that_begins_to_wait_is_seen_at_once():
    pacing = PassPacing(10)
    pods(pacing, 4)
    assert await begun(pacing, 15) == [0, 4, 14], "and the interval begins anew"


async def test_pods_that_come_one_by_one_share_a_pass_in_each_second():
    pacing = PassPacing(10)
    pods(pacing, *(4 + number / 1000 for number in range(5000)))
    assert await begun(pacing, 15) == [0, 4, 5, 6, 7, 8, 9]


async def test_at_most_half_of_the_time_is_spent_on_passes():
    pacing = PassPacing(100)
    pods(pacing, *range(50))
    assert await begun(pacing, 40, pass_s=3) == [0, 6, 12, 18, 24, 30, 36]


async def test_a_pod_that_comes_during_a_pass_is_not_missed():
    pacing = PassPacing(10)
    pods(pacing, 0.3)
    assert await begun(pacing, 9, pass_s=0.5) == [0, 1.5]


async def test_the_interval_holds_where_it_is_shorter_than_the_pause():
    pacing = PassPacing(0.5)
    pods(pacing, 0.1)
    assert await begun(pacing, 1.2) == [0, 0.5, 1]


async def test_others_have_their_turn_only_after_long_work():
    loop, turns, ran = asyncio.get_running_loop(), LoopTurns(), []
    loop.call_soon(ran.append, "at once")
    await turns.next()
    assert ran == []
    await asyncio.sleep(0.01)
    began = loop.time()
    loop.call_soon(ran.append, "after long work")
    await turns.next()
    assert ran == ["at once", "after long work"]
    loop.call_soon(ran.append, "after no further work")
    await turns.next()
    assert ran == ["at once", "after long work"]
    assert loop.time() == began, "a turn is no pause"
