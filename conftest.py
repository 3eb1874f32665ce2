"""Fixtures for every test in the repository."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

pytest_plugins = ["joulie_testing.api.fixtures", "joulie_devcluster.fixtures", "tests.e2e.audit_plugin"]

# Before its first test pytest-asyncio asks for the current event loop, to restore it at the end. Python 3.11 then
# creates one that nobody closes, and a ResourceWarning is an error here. Told that there is none, it restores none.
asyncio.set_event_loop(None)

# How long one example takes says nothing on a busy machine; pytest-timeout bounds the whole test. The checks run the
# same examples each time, so that a change fails only for what it did; `just search` looks for others.
settings.register_profile("joulie", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("joulie")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Leave the process's logging as it was: a program that a test ran may log to the test's own standard output."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # Where rich is installed, structlog's default is its traceback, with the values of local variables. On a busy
    # machine it takes seconds to draw one, and whatever a test waits for meanwhile is late.
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
