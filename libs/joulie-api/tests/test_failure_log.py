"""A failure and its recovery are logged once each."""

import logging

import pytest
import structlog
from structlog.testing import capture_logs

from joulie_api.failure_log import FailureLog


@pytest.fixture
def logs():
    with capture_logs() as entries:
        yield entries


def failures(**options):
    return FailureLog(structlog.get_logger(), failed="power query failed", recovered="power query recovered", **options)


def events(logs):
    return [(each["event"], each.get("cause")) for each in logs]


def test_a_failure_is_one_line_and_its_end_another(logs):
    log = failures()
    for _ in range(3):
        log.failed(TimeoutError("after 3 s"))
    log.recovered()
    log.recovered()
    assert logs == [
        {"event": "power query failed", "log_level": "warning", "cause": "TimeoutError", "problem": "after 3 s"},
        {"event": "power query recovered", "log_level": "info"},
    ]


def test_what_never_failed_did_not_recover(logs):
    failures().recovered()
    assert logs == []


def test_it_can_fail_again(logs):
    log = failures()
    for _ in range(2):
        log.failed("no series")
        log.recovered()
    assert events(logs) == [("power query failed", "no series"), ("power query recovered", None)] * 2


def test_each_new_cause_is_logged_and_causes_that_alternate_are_not_logged_again(logs):
    log = failures()
    for _ in range(3):
        log.failed(TimeoutError("after 3 s"))
        log.failed(ConnectionError("refused"))
    assert events(logs) == [("power query failed", "TimeoutError"), ("power query failed", "ConnectionError")]


def test_a_text_that_varies_has_a_cause_of_its_own(logs):
    log = failures()
    log.failed("silent for 71 s", cause="silent")
    log.failed("silent for 81 s", cause="silent")
    assert [(each["cause"], each["problem"]) for each in logs] == [("silent", "silent for 71 s")]


def test_an_exception_without_text_is_named_by_its_type(logs):
    failures().failed(TimeoutError())
    assert [(each["cause"], each["problem"]) for each in logs] == [("TimeoutError", "TimeoutError")]


def test_the_latest_problem_is_known_until_it_ends():
    log = failures()
    assert log.problem() is None
    log.failed(TimeoutError("after 3 s"))
    log.failed(TimeoutError("after 4 s"))
    assert log.problem() == "after 4 s"
    log.recovered()
    assert log.problem() is None


def test_subjects_fail_and_recover_apart_from_each_other(logs):
    log = failures()
    log.failed("no answer", node="n1")
    log.failed("no answer", node="n2")
    log.recovered(node="n1")
    assert [(each["event"], each["node"]) for each in logs] == [
        ("power query failed", "n1"),
        ("power query failed", "n2"),
        ("power query recovered", "n1"),
    ]


def test_a_subject_that_is_gone_is_forgotten_without_a_line(logs):
    log = failures()
    log.failed("no answer", node="n1")
    log.failed("no answer", node="n2")
    log.retain(lambda subject: subject["node"] == "n2")
    log.recovered(node="n1")
    log.recovered(node="n2")
    assert [(each["event"], each["node"]) for each in logs[2:]] == [("power query recovered", "n2")]


def test_the_level_and_the_traceback_are_chosen_where_the_log_is_made(logs):
    error = ValueError("broken")
    failures(level=logging.ERROR, trace=True).failed(error)
    failures(level=logging.INFO).failed(error)
    assert [(each["log_level"], each.get("exc_info")) for each in logs] == [("error", error), ("info", None)]
