"""Pods on their nodes."""

from datetime import UTC, datetime

import msgspec
import pytest

from joulie_api.errors import DecodeError
from joulie_core.demand import WorkloadClass
from joulie_core.names import NodeName
from joulie_core.powerest.pod_demand import PodDemand
from joulie_extender.pods import BoundPod, read_bound_pod
from joulie_testing.api import claiming, make_pod


def test_a_bound_pod_has_its_uid_node_and_demand():
    pod = make_pod("p", node="n", cpu=1)
    pod["metadata"]["uid"] = "u"
    expected = PodDemand(1.0, workload_class=WorkloadClass.STANDARD)
    assert read_bound_pod(msgspec.json.encode(pod)) == BoundPod("u", NodeName("n"), expected, None, None)


def test_the_gpus_that_a_bound_pod_claims_are_in_its_demand():
    pod = claiming(make_pod("p", node="n", cpu=1), template="small")
    assert read_bound_pod(msgspec.json.encode(pod), lambda _pod: 2.0).demand.gpus == 2.0


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":{}}', b'{"metadata":{},"spec":{"nodeName":""}}'])
def test_what_is_no_bound_pod_is_refused(raw):
    with pytest.raises(DecodeError):
        read_bound_pod(raw)


def stating(owner=None, deadline_s=None, expected="2h", started="2026-11-28T09:00:00Z"):
    pod = make_pod("p", node="n", cpu=1)
    pod["metadata"]["uid"] = "u"
    if expected is not None:
        pod["metadata"].setdefault("annotations", {})["joulie.io/expected-duration"] = expected
    if owner is not None:
        pod["metadata"]["ownerReferences"] = [{"kind": owner, "name": "o", "controller": True}]
    if deadline_s is not None:
        pod["spec"]["activeDeadlineSeconds"] = deadline_s
    if started is not None:
        pod.setdefault("status", {})["startTime"] = started
    return read_bound_pod(msgspec.json.encode(pod))


STARTED_S = datetime(2026, 11, 28, 9, tzinfo=UTC).timestamp()


def test_a_bound_pod_has_the_time_that_it_is_expected_to_run_and_when_it_began():
    assert stating() == BoundPod("u", NodeName("n"), PodDemand(1.0), 7_200.0, STARTED_S)
    assert (stating(owner="Job").expected_s, stating(started=None).started_s) == (7_200.0, None)
    assert stating(deadline_s=60).expected_s == 60.0


def test_what_only_bounds_a_pod_and_a_pod_of_a_daemon_set_keep_no_node_on():
    assert stating(expected=None, deadline_s=60).expected_s is None
    assert stating(owner="DaemonSet").expected_s is None
    assert stating(expected="soon").expected_s is None
