"""Waits after failures, in virtual time."""

import asyncio
import contextlib

import pytest

from joulie_api.errors import (
    Forbidden,
    Gone,
    IdleTimeoutError,
    NotFound,
    ServerError,
    StreamBrokenError,
    TooManyRequests,
    TransportError,
    Unauthorized,
)
from joulie_api.outage import PROBE_INTERVAL_S, RETURN_S, Outage

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


async def attempts(outage, seconds, **attempt_s):
    """Let work of these names fail after these seconds, again and again; return when each attempt began, and whose."""
    made = []

    async def work(name, takes_s):
        while True:
            await outage.wait(30.0)
            made.append((asyncio.get_running_loop().time(), name))
            await asyncio.sleep(takes_s)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for name, takes_s in attempt_s.items():
                group.create_task(work(name, takes_s))
    return made


async def test_all_that_may_probe_take_turns():
    assert await attempts(Outage(), 11, a=0, b=0, c=0) == [(2, "a"), (4, "b"), (6, "c"), (8, "a"), (10, "b")]


async def test_while_one_attempt_is_under_way_no_other_has_its_turn():
    assert await attempts(Outage(), 15, a=3, b=3) == [(2, "a"), (7, "b"), (12, "a")]


async def test_what_has_waited_already_has_its_turn_sooner_but_turns_keep_their_distance():
    outage = Outage()
    assert await waited(outage, 30.0, waited_s=5.0) == 0
    assert await waited(outage, 30.0, waited_s=5.0) == PROBE_INTERVAL_S
    await asyncio.sleep(1.5)
    assert await waited(outage, 30.0, waited_s=1.0) == 1.0


async def test_an_earlier_turn_replaces_a_later_one():
    outage = Outage()
    assert await asyncio.gather(waited(outage, 30.0), waited(outage, 9.0, waited_s=1.5)) == [0.5, 9.0]


async def test_an_answer_to_others_does_not_end_the_wait_of_the_next_turn():
    outage = Outage()
    wait = asyncio.create_task(waited(outage, 30.0))
    for _ in range(10):
        await asyncio.sleep(0.1)
        outage.answered()
    assert await wait == PROBE_INTERVAL_S


REFUSALS = Unauthorized(401, "", ""), Forbidden(403, "", ""), NotFound(404, "", "")


@pytest.mark.parametrize(
    "failure", [TransportError(""), StreamBrokenError(""), IdleTimeoutError(""), ServerError(503, "", "")]
)
async def test_a_refusal_takes_turns_for_a_while_after_a_failure_that_shows_no_server_at_work(failure):
    outage = Outage()
    assert outage.may_probe_after(failure)
    assert not any(map(outage.may_probe_after, REFUSALS))
    outage.failed(failure)
    await asyncio.sleep(RETURN_S - 0.1)
    assert all(map(outage.may_probe_after, REFUSALS))
    await asyncio.sleep(0.1)
    assert not any(map(outage.may_probe_after, REFUSALS))


async def test_neither_overload_nor_what_a_server_at_work_answers_takes_turns():
    outage = Outage()
    outage.failed(TransportError("refused"))
    assert not any(map(outage.may_probe_after, (TooManyRequests(429, "", "", 1.0), Gone(410, "", ""), None)))
    assert Outage().may_probe_after(Forbidden(403, "", "")) is False
    other = Outage()
    other.failed(Forbidden(403, "", ""))
    other.failed(TooManyRequests(429, "", ""))
    assert not other.may_probe_after(Forbidden(403, "", ""))
