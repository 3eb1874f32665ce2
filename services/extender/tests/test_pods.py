"""Pods on their nodes."""

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
    assert read_bound_pod(msgspec.json.encode(pod)) == BoundPod("u", NodeName("n"), expected)


def test_the_gpus_that_a_bound_pod_claims_are_in_its_demand():
    pod = claiming(make_pod("p", node="n", cpu=1), template="small")
    assert read_bound_pod(msgspec.json.encode(pod), lambda _pod: 2.0).demand.gpus == 2.0


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":{}}', b'{"metadata":{},"spec":{"nodeName":""}}'])
def test_what_is_no_bound_pod_is_refused(raw):
    with pytest.raises(DecodeError):
        read_bound_pod(raw)
