"""A decision about sleep that fails."""

import asyncio


async def test_a_pass_that_fails_for_an_unexpected_reason_is_counted_and_followed_by_the_next(world, monkeypatch):
    controller, passes, done = world.controller, [], asyncio.Event()

    async def step():
        passes.append(True)
        if len(passes) == 1:
            raise OverflowError("a defect")
        done.set()

    monkeypatch.setattr(controller, "step", step)
    monkeypatch.setattr(controller, "_interval_s", 0.0)
    await world.seen()
    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(10):
        await done.wait()
    running.cancel()
    labels = {"work": "decide about sleep"}
    assert world.registry.get_sample_value("joulie_internal_errors_total", labels) == 1
