import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from joulie_api.errors import TransportError
from joulie_api.failures import Failures
from joulie_containers.node_agent.pusher import Pace, Pusher

_NO_DELAY = Pace(retry_initial_s=0.0, retry_cap_s=0.0)


@asynccontextmanager
async def running(
    current: Callable[[], str | None], push: Callable[[str], Awaitable[None]], registry: CollectorRegistry
) -> AsyncIterator[Pusher[str]]:
    pusher = Pusher("value", current, push, interval_s=0, failures=Failures(registry), pace=_NO_DELAY)
    task = asyncio.create_task(pusher.run())
    try:
        yield pusher
    finally:
        task.cancel()
        ended = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended[0], asyncio.CancelledError), ended


def _internal_errors(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("joulie_internal_errors_total", {"work": "push to or from the resource manager"})


async def test_a_value_that_was_gone_is_pushed_again_and_an_equal_one_is_not():
    values, pushed, moved = ["a"], [], asyncio.Event()

    def current():
        moved.set()
        return values[-1]

    async def push(value):
        pushed.append(value)

    async with running(current, push, CollectorRegistry()) as pusher:
        for value in ("a", "a", None, "a", "end"):
            values.append(value)
            moved.clear()
            pusher.wake()
            await moved.wait()
    assert [each for each in pushed if each != "end"] == ["a", "a"]


@pytest.mark.parametrize(("error", "defects"), [(TransportError("no answer"), None), (KeyError("a defect"), 2.0)])
async def test_whatever_a_push_raises_it_is_tried_again_and_only_defects_are_counted_as_such(error, defects):
    registry, pushed, done = CollectorRegistry(), [], asyncio.Event()

    async def push(value):
        pushed.append(value)
        if len(pushed) <= 2:
            raise error
        done.set()

    async with running(lambda: "a", push, registry) as pusher:
        pusher.wake()
        await done.wait()
    assert pushed == ["a", "a", "a"]
    assert _internal_errors(registry) == defects


async def test_a_value_that_cannot_be_determined_is_tried_again():
    registry, answers, done = CollectorRegistry(), [ValueError("a defect"), "a"], asyncio.Event()

    def current():
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def push(_value):
        done.set()

    async with running(current, push, registry) as pusher:
        pusher.wake()
        await done.wait()
    assert _internal_errors(registry) == 1
