"""Watched pods as the operator keeps them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api.errors import DecodeError
from joulie_api.wire import decode_pod
from joulie_core.demand import WorkloadClass, workload_class
from joulie_core.powerest.pod_demand import pod_demand
from joulie_operator.pods import NO_POD, PodDecoder, PodSummary
from joulie_testing.api import claiming, make_pod


def wire(obj):
    return msgspec.json.encode(obj)


def summarize(pod):
    """Return the summary of a whole pod."""
    if not pod.active:
        return NO_POD
    demanded = workload_class(pod)
    demand = pod_demand(pod, demanded)
    return PodSummary(pod.node_name, demanded is WorkloadClass.PERFORMANCE, demand.cpu_cores, demand.gpus)


def test_the_gpus_of_a_pods_claims_are_those_of_the_moment():
    gpus = [1.0, 0.5]
    decode = PodDecoder(claimed_gpus=lambda _pod: gpus.pop(0))
    raw = wire(claiming(make_pod(), template="small"))
    assert [decode(raw).gpus for _ in range(2)] == [1.0, 0.5]


def test_pods_of_an_unknown_workload_class_are_reported_whole():
    reported = []
    decode = PodDecoder(reported.append)
    for name, value in (("a", "turbo"), ("b", "standard"), ("c", "performance"), ("d", None), ("e", "")):
        decode(wire(make_pod(name, "team", workload_class=value)))
    assert [(pod.namespace, pod.name) for pod in reported] == [("team", "a"), ("team", "e")]


pods = st.builds(
    make_pod,
    name=st.sampled_from("ab"),
    node=st.sampled_from([None, "n1", "n2"]),
    cpu=st.sampled_from([None, 1, "250m"]),
    gpu=st.integers(0, 2),
    workload_class=st.sampled_from([None, "performance", "standard", "other"]),
    phase=st.sampled_from([None, "Pending", "Succeeded", "Failed", "Unknown"]),
    deleting=st.booleans(),
)


@given(st.lists(pods, max_size=20))
def test_any_pod_is_summarized_as_the_whole_pod_is(made):
    decode = PodDecoder()
    for each in made:
        assert decode(wire(each)) == summarize(decode_pod(wire(each)))


def test_an_ended_pod_is_none():
    assert PodDecoder()(wire(make_pod(node="n1", phase="Succeeded", workload_class="performance"))) is NO_POD


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"metadata":{"name":"p"},"spec":{"containers":1}}', b"\xff"])
def test_what_is_no_pod_is_an_error(raw):
    with pytest.raises(DecodeError):
        PodDecoder()(raw)
