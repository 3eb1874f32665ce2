"""pytest plugin: fails a session in which a service was refused a request, or in which nothing used a grant.

The second is checked only where the session was the whole suite and every test of it passed. In a process of
pytest-xdist nothing is checked: each of them sees a part.
"""

from typing import Final

import pytest
from tests.e2e.grants import GROUPS, USERS, granted, refused, used

from joulie_devcluster.fixtures import AUDITED, REQUESTS

_REPORT: Final = pytest.StashKey[list[str]]()
_INCOMPLETE: Final = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Let every cluster log the requests of the services."""
    config.stash[AUDITED] = (USERS, GROUPS)
    config.stash[_INCOMPLETE] = []


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note whether a part of the suite was selected."""
    config = session.config
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.markexpr == "e2e"
    if not whole or config.option.keyword or config.option.deselect or getattr(config.option, "lf", False):
        config.stash[_INCOMPLETE].append("a part of the suite was selected")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Note a test that did not run to its end."""
    report = yield
    if not report.passed:
        item.config.stash[_INCOMPLETE].append(f"{item.nodeid} {report.outcome}")
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Compare requests and grants after the last cluster has ended."""
    requests = session.config.stash.get(REQUESTS, set())
    if not requests or hasattr(session.config, "workerinput"):
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
