"""Tests of the record of contained failures."""

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.errors import DecodeError
from joulie_api.failures import MAX_SUBJECTS, Failures


def test_invalid_input_and_internal_errors_are_counted_apart() -> None:
    registry = CollectorRegistry()
    failures = Failures(registry)
    failures.invalid_input("resourceclaims", DecodeError("not a claim"), key="a/b")
    failures.invalid_input("resourceclaims", DecodeError("not a claim"), key="a/b")
    failures.internal_error("reconcile node", KeyError("x"), node="n1")
    assert registry.get_sample_value("joulie_invalid_input_total", {"source": "resourceclaims"}) == 2
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": "reconcile node"}) == 1


def test_a_subject_is_logged_once_until_it_works_again() -> None:
    failures = Failures(CollectorRegistry())
    with capture_logs() as lines:
        for _ in range(2):
            failures.invalid_input("bmc", DecodeError("not JSON"), node="n1")
        failures.valid_input("bmc", node="n1")
        failures.invalid_input("bmc", DecodeError("not JSON"), node="n1")
    assert [line["event"] for line in lines] == [
        "invalid input set aside",
        "input valid again",
        "invalid input set aside",
    ]
    assert lines[0]["node"] == "n1"
    assert lines[0]["problem"] == "not JSON"


def test_an_internal_error_is_logged_with_its_traceback() -> None:
    failures = Failures(CollectorRegistry())
    error = KeyError("x")
    with capture_logs() as lines:
        failures.internal_error("plan", error)
        failures.worked("plan")
    assert lines[0]["log_level"] == "error"
    assert lines[0]["exc_info"] is error
    assert lines[1]["event"] == "works again"


def test_the_log_is_bounded_where_others_determine_how_many_fail() -> None:
    registry = CollectorRegistry()
    failures = Failures(registry)
    with capture_logs() as lines:
        for number in range(MAX_SUBJECTS + 5):
            failures.invalid_input("bmc", DecodeError("not JSON"), node=f"n{number}")
    assert len(lines) == MAX_SUBJECTS
    assert registry.get_sample_value("joulie_invalid_input_total", {"source": "bmc"}) == MAX_SUBJECTS + 5


def test_a_subject_that_is_gone_is_forgotten_and_others_are_not() -> None:
    failures = Failures(CollectorRegistry())
    with capture_logs() as lines:
        for node in ("n1", "n2"):
            failures.internal_error("node pass", KeyError("x"), node=node)
            failures.invalid_input("bmc", DecodeError("not JSON"), node=node)
        failures.forget(node="n1")
        for node in ("n1", "n2"):
            failures.worked("node pass", node=node)
            failures.valid_input("bmc", node=node)
    assert [(line["event"], line["node"]) for line in lines[4:]] == [
        ("works again", "n2"),
        ("input valid again", "n2"),
    ]
