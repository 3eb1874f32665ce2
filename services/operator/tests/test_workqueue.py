"""The queue of nodes to be published."""

import asyncio

import pytest

from joulie_core.names import NodeName
from joulie_operator.workqueue import WorkQueue

A, B, C = (NodeName(name) for name in "abc")


async def test_urgent_names_go_first_and_each_waits_once():
    queue = WorkQueue()
    queue.add(A, urgent=False)
    queue.add(B, urgent=False)
    queue.add(C)
    queue.add(B)
    queue.add(B, urgent=False)
    assert [await queue.take() for _ in range(3)] == [C, B, A]


async def test_a_name_is_with_one_worker_at_a_time_and_comes_again_if_it_was_added_meanwhile():
    queue = WorkQueue()
    queue.add(A)
    assert await queue.take() == A
    queue.add(A)
    waiting = asyncio.create_task(queue.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(A)
    assert await waiting == A


async def test_ordinary_names_wait_while_only_urgent_ones_are_handed_out():
    queue = WorkQueue()
    queue.add(A, urgent=False)
    with queue.urgent_only(10.0):
        queue.add(B)
        assert await queue.take() == B
        waiting = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == A


@pytest.mark.looptime
async def test_ordinary_names_wait_for_no_longer_than_stated():
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add(A, urgent=False)
    with queue.urgent_only(10.0):
        assert await queue.take() == A
    assert loop.time() == pytest.approx(10.0)


@pytest.mark.looptime
async def test_an_end_of_one_wait_does_not_end_the_next():
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    with queue.urgent_only(10.0):
        await asyncio.sleep(9.0)
    queue.add(A, urgent=False)
    with queue.urgent_only(10.0):
        assert await queue.take() == A
    assert loop.time() == pytest.approx(19.0)


async def test_every_waiting_worker_is_served():
    queue = WorkQueue()
    workers = [asyncio.create_task(queue.take()) for _ in range(3)]
    await asyncio.sleep(0)
    for name in (A, B, C):
        queue.add(name)
    assert set(await asyncio.gather(*workers)) == {A, B, C}


@pytest.mark.looptime
async def test_a_node_is_queued_after_its_delay_and_the_earliest_counts():
    loop = asyncio.get_running_loop()
    queue = WorkQueue()
    queue.add_later(A, 60)
    queue.add_later(A, 5)
    queue.add_later(A, 30)
    started_at = loop.time()
    assert await queue.take() == A
    assert loop.time() - started_at == pytest.approx(5)
    queue.done(A)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.take()
