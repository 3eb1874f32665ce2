"""Fixtures for every test in the repository."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import structlog
from hypothesis import settings
from tests import marks

pytest_plugins = ["joulie_testing.api.fixtures", "joulie_devcluster.fixtures", "tests.e2e.audit_plugin"]

# Before its first test pytest-asyncio asks for the current event loop, to restore it at the end. Python 3.11 then
# creates one that nobody closes, and a ResourceWarning is an error here. Told that there is none, it restores none.
asyncio.set_event_loop(None)

#: The end-to-end files that take longest, by their length: begun last, one of them would keep one process busy for
#: minutes while the others have ended. By `just e2e --durations 0`.
_LONGEST: Final = (
    "test_scheduling.py",
    "test_hand_overs.py",
    "test_agent_pod.py",
    "test_sleep.py",
    "test_demo_process.py",
    "test_limited_starts.py",
    "test_container_resources.py",
    "test_container_pod.py",
    "test_hostile.py",
    "test_oversubscription.py",
    "test_chart.py",
    "test_planning.py",
    "test_documentation.py",
)

# How long one example takes says nothing on a busy machine; pytest-timeout bounds the whole test. The checks run the
# same examples each time, so that a change fails only for what it did; `just search` looks for others.
settings.register_profile("joulie", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("joulie")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files in which no test has the marks that `-m` asks for."""
    wanted = marks.required(config.option.markexpr)
    test_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if wanted and test_file and not marks.can_have(collection_path, wanted) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    marks.check_stated(items)
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


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
