"""Tests of the record of contained failures."""

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.errors import DecodeError
from joulie_api.failures import MAX_SUBJECTS, Failures
from joulie_core.quantity import QuantityError


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


def test_contained_work_that_fails_is_an_internal_error_until_it_works() -> None:
    registry = CollectorRegistry()
    failures = Failures(registry)
    error = KeyError("x")
    with capture_logs() as lines:
        with failures.contained("node pass", node="n1"):
            raise error
        with failures.contained("node pass", node="n1"):
            pass
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": "node pass"}) == 1
    assert [(line["event"], line["work"], line["node"]) for line in lines] == [
        ("internal error, will be repeated", "node pass", "n1"),
        ("works again", "node pass", "n1"),
    ]
    assert lines[0]["exc_info"] is error


def test_contained_work_does_not_hide_a_request_that_the_api_server_refused() -> None:
    failures = Failures(CollectorRegistry())
    with pytest.raises(DecodeError), failures.contained("node pass", node="n1"):
        raise DecodeError("not a Node")


@pytest.mark.parametrize("error", [DecodeError("not a Quantity"), QuantityError("1x")])
def test_what_a_decoder_refuses_is_invalid_input(error: Exception) -> None:
    registry = CollectorRegistry()
    failures = Failures(registry)
    with capture_logs() as lines:
        failures.not_decoded("pods", error, key="a/b")
        failures.decoded("pods", key="a/b")
    assert registry.get_sample_value("joulie_invalid_input_total", {"source": "pods"}) == 1
    assert [(line["event"], line["source"], line["key"]) for line in lines] == [
        ("invalid input set aside", "pods", "a/b"),
        ("input valid again", "pods", "a/b"),
    ]
    assert lines[0]["problem"] == str(error)


def test_what_a_decoder_raises_otherwise_is_a_defect_of_the_decoder() -> None:
    registry = CollectorRegistry()
    failures = Failures(registry)
    error = KeyError("x")
    with capture_logs() as lines:
        failures.not_decoded("pods", error, key="a/b")
        failures.decoded("pods", key="a/b")
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": "decode pods"}) == 1
    assert [(line["event"], line["work"], line["key"]) for line in lines] == [
        ("internal error, will be repeated", "decode pods", "a/b"),
        ("works again", "decode pods", "a/b"),
    ]
    assert lines[0]["exc_info"] is error
