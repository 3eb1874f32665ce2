"""A controller on recorded writes."""

import asyncio

import pytest
from services.operator.tests.sleep.controller.controlled import World


@pytest.fixture
def world():
    return World()


@pytest.fixture
def one_pass(monkeypatch):
    """Ends `run` where it waits for the next pass."""

    async def run(world):
        async def end():
            raise asyncio.CancelledError

        with monkeypatch.context() as patch:
            patch.setattr(world.controller._pacing, "next_pass", end)
            with pytest.raises(asyncio.CancelledError):
                await world.controller.run()

    return run
