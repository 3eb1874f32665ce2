"""The Helm client that the chart's tests use: built once, before the first test."""

import contextlib
from pathlib import Path

import pytest
from tests.chart import Helm

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.progress import terminal_reporter

_BUILD_ERROR = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get Helm before the first test: a cold build takes minutes, which no test's time limit should pay for."""
    asked = any("helm" in getattr(item, "fixturenames", ()) for item in session.items)
    if session.config.option.collectonly or not asked:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        try:
            with terminal_reporter() as reporter:
                lookup.ensure((Binary.HELM,), reporter=reporter)
        except BinaryError as error:
            session.config.stash[_BUILD_ERROR] = str(error)


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The Helm client, without a cluster. Fails where it is neither here nor can be built."""
    if _BUILD_ERROR in pytestconfig.stash:
        pytest.fail(pytestconfig.stash[_BUILD_ERROR], pytrace=False)
    path: Path = lookup.ensure((Binary.HELM,))[Binary.HELM]
    return Helm(path, tmp_path_factory.mktemp("helm"))
