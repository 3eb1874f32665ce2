import asyncio

import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_operator.sources import poll_forever

pytestmark = pytest.mark.looptime


async def test_a_poll_that_fails_is_counted_and_followed_by_the_next_at_its_time():
    registry, polled = CollectorRegistry(), []

    async def poll():
        polled.append(asyncio.get_running_loop().time())
        await asyncio.sleep(2)
        if len(polled) == 1:
            raise KeyError("a defect")

    task = asyncio.create_task(poll_forever(poll, interval_s=10, failures=Failures(registry), work="poll power"))
    await asyncio.sleep(25)
    task.cancel()
    assert [at - polled[0] for at in polled] == [0, 10, 20]
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": "poll power"}) == 1
