"""pytest plugin: fails a session in which a service was refused a request, or in which nothing used a grant.

The second is checked only where the session was the whole suite and every test of it passed. Where pytest-xdist
distributes the tests, its processes send the requests they have seen to the one that compares them.
"""

from dataclasses import astuple
from typing import Any, Final

import pytest
from tests.e2e.grants import GROUPS, USERS, granted, refused, used

from joulie_devcluster.control_plane.audit import UserRequest
from joulie_devcluster.fixtures import AUDITED, REQUESTS

_REPORT: Final = pytest.StashKey[list[str]]()
_INCOMPLETE: Final = pytest.StashKey[list[str]]()
_SENT: Final = "joulie_requests"


def pytest_configure(config: pytest.Config) -> None:
    """Let every cluster log the requests of the services."""
    config.stash[AUDITED] = (USERS, GROUPS)
    config.stash[_INCOMPLETE] = []
    config.pluginmanager.register(_Reports(config.stash[_INCOMPLETE]))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note whether a part of the suite is selected."""
    config = session.config
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.markexpr == "e2e and not long"
    if not whole or config.option.keyword or config.option.deselect or getattr(config.option, "lf", False):
        config.stash[_INCOMPLETE].append("a part of the suite was selected")


class _Reports:
    """Notes tests that did not run to their end; here or in a process of pytest-xdist."""

    def __init__(self, incomplete: list[str]) -> None:
        self._incomplete = incomplete

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that did not pass."""
        if not report.passed:
            self._incomplete.append(f"{report.nodeid} {report.outcome}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take the requests of a process of pytest-xdist that has ended."""
    sent = getattr(node, "workeroutput", {}).get(_SENT)
    if sent is None:
        node.config.stash[_INCOMPLETE].append("a process of pytest-xdist failed")
        return
    node.config.stash.setdefault(REQUESTS, set()).update(UserRequest(*each) for each in sent)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare requests and grants after the last cluster has ended."""
    requests = session.config.stash.get(REQUESTS, set())
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_SENT] = [astuple(each) for each in requests]
        return
    if not requests:
        return
    denied, grants = refused(requests), granted()
    found = used(requests)
    incomplete = session.config.stash[_INCOMPLETE]
    unused = sorted(grants - found)
    report = [
        f"{len(grants & found)} of {len(grants)} grants used, {len(denied)} kinds of requests always refused with 403"
    ]
    report += [f"refused: {each}" for each in denied]
    report += [f"not used: {each}" for each in unused if not incomplete]
    if incomplete:
        report.append(f"unused grants are no failure: {incomplete[0]}")
    session.config.stash[_REPORT] = report
    if exitstatus == pytest.ExitCode.OK and (denied or (unused and not incomplete)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the comparison."""
    report = config.stash.get(_REPORT, [])
    if report:
        terminalreporter.section("permissions of the services")
    for line in report:
        terminalreporter.write_line(line)
