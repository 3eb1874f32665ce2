"""Fixtures for every test in the repository."""

import asyncio

pytest_plugins = ["joulie_api.testing.fixtures"]


def pytest_sessionstart() -> None:
    """Let no event loop be made up in passing: looptime asks for one at the first synchronous test and drops it open."""
    asyncio.set_event_loop(None)
