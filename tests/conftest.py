"""The programs that the chart's tests use: built once, before the first test."""

import contextlib
from pathlib import Path

import pytest
from tests.chart import Helm

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.progress import terminal_reporter

_BUILD_ERROR = pytest.StashKey[str]()
_PROGRAMS = {"helm": Binary.HELM, "cyclonus": Binary.CYCLONUS}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get programs before the first test: a cold build takes minutes, which no test's time limit should pay for."""
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    programs = [program for name, program in _PROGRAMS.items() if name in asked]
    if session.config.option.collectonly or not programs:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        try:
            with terminal_reporter() as reporter:
                lookup.ensure(programs, reporter=reporter)
        except BinaryError as error:
            session.config.stash[_BUILD_ERROR] = str(error)


@pytest.fixture(scope="session")
def helm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """The Helm client, without a cluster. Fails where it is neither here nor can be built."""
    return Helm(_program(pytestconfig, Binary.HELM), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def cyclonus(pytestconfig: pytest.Config) -> Path:
    """The program that tells what NetworkPolicies allow. Fails where it is neither here nor can be built."""
    return _program(pytestconfig, Binary.CYCLONUS)


def _program(config: pytest.Config, binary: Binary) -> Path:
    if _BUILD_ERROR in config.stash:
        pytest.fail(config.stash[_BUILD_ERROR], pytrace=False)
    return lookup.ensure((binary,))[binary]
