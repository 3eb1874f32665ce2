"""Run times that pods state, on the wire."""

import json

import pytest

from joulie_api.stated_times import TimedPod, read_stated_time
from joulie_core.stated_time import StatedTime

EXPECTED = "joulie.io/expected-duration"


def read(annotation=None, deadline=None, **parts):
    pod = {"metadata": {"annotations": {EXPECTED: annotation} if annotation is not None else {}}, "spec": {}, **parts}
    if deadline is not None:
        pod["spec"]["activeDeadlineSeconds"] = deadline
    return read_stated_time(json.dumps(pod).encode())


def test_a_pod_that_states_nothing_has_no_stated_time():
    assert read() is None
    assert read_stated_time(b"{}") is None


def test_the_annotation_is_what_is_expected_and_the_deadline_is_a_bound():
    assert read("1h") == TimedPod(StatedTime(3_600.0, 3_600.0), None, of_daemon_set=False)
    assert read(deadline=60) == TimedPod(StatedTime(60.0), None, of_daemon_set=False)
    assert read("1h", 60).stated == StatedTime(60.0, 60.0)


def test_a_pod_began_when_the_kubelet_took_it():
    assert read("1h", status={"startTime": "1970-01-01T00:01:00Z"}).started_s == 60.0
    assert [read("1h", status=status).started_s for status in (None, {}, {"startTime": "soon"})] == [None] * 3


@pytest.mark.parametrize(("kind", "of_daemon_set"), [("DaemonSet", True), ("Job", False)])
def test_a_pod_of_a_daemon_set_is_told_apart(kind, of_daemon_set):
    pod = {
        "metadata": {"annotations": {EXPECTED: "1h"}, "ownerReferences": [{"kind": kind, "name": "o"}]},
        "status": {},
    }
    timed = read_stated_time(json.dumps(pod).encode())
    assert timed is not None
    assert timed.of_daemon_set is of_daemon_set


@pytest.mark.parametrize(
    "raw",
    [
        b'{"metadata":{"annotations":{"joulie.io/expected-duration":5}}}',
        b'{"metadata":{"annotations":{"joulie.io/expected-duration":"-5m"}}}',
        b'{"metadata":{"annotations":{"joulie.io/expected-duration":"99999h"}}}',
        b'{"metadata":{"annotations":null},"spec":{"activeDeadlineSeconds":"60"}}',
        b'{"metadata":{},"spec":{"activeDeadlineSeconds":1e400}}',
        b'{"metadata":{},"spec":{"activeDeadlineSeconds":' + b"9" * 5_000 + b"}}",
        b'{"metadata":{"annotations":{"joulie.io/expected-duration":"1h"},"ownerReferences":{}}}',
        b'{"metadata":{"annotations":{"joulie.io/expected-duration":"1h"',
        b'["joulie.io/expected-duration"]',
        b'{"metadata":{"name":"joulie.io/expected-duration"},"spec":null,"status":null}',
        b'{"metadata":{"annotations":{"joulie.io/expected-duration":"1h"}},"spec":' + b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_not_stated_and_no_error(raw):
    assert read_stated_time(raw) is None
