import asyncio

from joulie_agent.node_agent.pusher import Pace, Pusher


async def test_a_value_that_was_gone_is_pushed_again_and_an_equal_one_is_not():
    values, pushed, moved = ["a"], [], asyncio.Event()

    def current():
        moved.set()
        return values[-1]

    async def push(value):
        pushed.append(value)

    pusher = Pusher("value", current, push, interval_s=0, pace=Pace())
    task = asyncio.create_task(pusher.run())
    for value in ("a", "a", None, "a", "end"):
        values.append(value)
        moved.clear()
        pusher.wake()
        await moved.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [each for each in pushed if each != "end"] == ["a", "a"]
