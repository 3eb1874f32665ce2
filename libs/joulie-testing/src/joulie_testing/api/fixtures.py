"""pytest fixtures of the in-process API server: `fake_api` and `fake_client`.

Loaded for the whole repository by the root conftest; elsewhere through `pytest_plugins`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from joulie_api.client import KubeClient
from joulie_testing.api.server import FakeApiServer


@pytest.fixture
async def fake_api() -> AsyncIterator[FakeApiServer]:
    """Yield a started, empty API server."""
    async with FakeApiServer() as server:
        yield server


@pytest.fixture
async def fake_client(fake_api: FakeApiServer, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """Yield a client of `fake_api`, as services use it."""
    kubeconfig = fake_api.kubeconfig(tmp_path)
    async with await KubeClient.connect(kubeconfig=str(kubeconfig), user_agent="joulie-test/0") as client:
        yield client
