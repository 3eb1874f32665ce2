"""Waits after failures, in virtual time."""

import asyncio

import pytest

from joulie_api.outage import PROBE_INTERVAL_S, Outage

pytestmark = pytest.mark.looptime


async def waited(outage, delay_s, **options):
    loop = asyncio.get_running_loop()
    start = loop.time()
    await outage.wait(delay_s, **options)
    return loop.time() - start


async def test_one_of_many_waits_for_the_probe_interval_at_most():
    outage = Outage()
    assert await asyncio.gather(*(waited(outage, 30.0) for _ in range(3))) == [PROBE_INTERVAL_S, 30.0, 30.0]


async def test_a_shorter_wait_stays_short():
    outage = Outage()
    assert await asyncio.gather(waited(outage, 0.5), waited(outage, 0.7)) == [0.5, 0.7]


async def test_an_answer_ends_the_waits_of_the_others():
    outage = Outage()

    async def probe():
        await outage.wait(30.0)
        outage.answered()

    _, *others = await asyncio.gather(probe(), waited(outage, 30.0), waited(outage, 30.0))
    assert others == [PROBE_INTERVAL_S, PROBE_INTERVAL_S]


async def test_after_a_probe_the_next_to_fail_is_the_probe():
    outage = Outage()
    for _ in range(3):
        assert await waited(outage, 30.0) == PROBE_INTERVAL_S


async def test_a_probe_that_is_cancelled_leaves_its_place():
    outage = Outage()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await outage.wait(30.0)
    assert await waited(outage, 30.0) == PROBE_INTERVAL_S


async def test_what_the_server_refused_waits_in_full_or_until_another_is_answered():
    outage = Outage()
    assert await waited(outage, 30.0, probe=False) == 30.0

    async def probe():
        await outage.wait(30.0)
        outage.answered()

    _, refused = await asyncio.gather(probe(), waited(outage, 30.0, probe=False))
    assert refused == PROBE_INTERVAL_S
