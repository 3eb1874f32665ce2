"""A kubelet for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from services.agent.tests.holders.scripted_kubelet import Kubelet


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "kubelet.sock"


@pytest.fixture
async def kubelet(socket: Path) -> AsyncIterator[Kubelet]:
    kubelet = Kubelet()
    async with kubelet.running(socket):
        yield kubelet
