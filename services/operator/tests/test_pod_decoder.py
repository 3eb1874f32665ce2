"""Decoding of watched pods: what is computed again, and that it is right."""

import copy

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api.errors import DecodeError
from joulie_api.testing import claiming, make_pod
from joulie_api.wire import decode_pod
from joulie_core.quantity import QuantityError
from joulie_operator.pod_decoder import PodDecoder
from joulie_operator.published import NO_POD, summarize


def wire(obj):
    return msgspec.json.encode(obj)


class Counted(PodDecoder):
    """A decoder whose computations are counted."""

    def __init__(self, **options):
        self.computed = []
        super().__init__(self.computed.append, **options)


def life(**fields):
    """Return the states of a pod as the API server sends them."""
    pending = make_pod("p", cpu=2, **fields)
    bound = copy.deepcopy(pending)
    bound["spec"]["nodeName"] = "n1"
    bound["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    running = copy.deepcopy(bound)
    running["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    running["metadata"]["resourceVersion"] = "9"
    deleting = copy.deepcopy(running)
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return [pending, bound, running, deleting]


def test_the_demand_of_a_pod_is_computed_once_in_its_life():
    decode = Counted()
    summaries = [decode(wire(state)) for state in life(workload_class="performance")]
    assert len(decode.computed) == 1
    assert [each.node for each in summaries] == [None, "n1", "n1", "n1"]
    assert all(each.performance and each.cpu_cores == 2 for each in summaries)


def test_a_pod_with_claims_is_computed_every_time():
    gpus = [1.0, 0.5, 0.5, 0.5]
    decode = PodDecoder(claimed_gpus=lambda _pod: gpus.pop(0))
    states = [claiming(state, template="small") for state in life()]
    assert [decode(wire(state)).gpus for state in states] == [1.0, 0.5, 0.5, 0.5]


def _resize(pod):
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"


def _annotate(pod):
    pod["metadata"].setdefault("annotations", {})["joulie.io/workload-class"] = "performance"


def _select(pod):
    pod["spec"]["nodeSelector"] = {"joulie.io/power-profile": "performance"}


def _require(pod):
    expression = {"key": "joulie.io/power-profile", "operator": "In", "values": ["performance"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _start(pod):
    pod["spec"]["initContainers"] = [{"name": "init", "resources": {"requests": {"cpu": "8"}}}]


def _overhead(pod):
    pod["spec"]["overhead"] = {"cpu": "1"}


def _whole(pod):
    pod["spec"]["resources"] = {"requests": {"cpu": "3"}}


def _end(pod):
    pod["status"] = {"phase": "Failed"}


def _move(pod):
    pod["spec"]["nodeName"] = "n2"


@pytest.mark.parametrize("change", [_resize, _annotate, _select, _require, _start, _overhead, _whole, _end, _move])
def test_whatever_changes_the_demand_is_seen(change):
    decode = PodDecoder()
    pod = life()[2]
    before = decode(wire(pod))
    change(pod)
    after = decode(wire(pod))
    assert after == summarize(decode_pod(wire(pod)))
    assert after != before


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
def test_a_pod_is_summarized_as_if_nothing_was_remembered(made):
    decode = PodDecoder(kept=2)
    for each in made:
        assert decode(wire(each)) == summarize(decode_pod(wire(each)))


def test_only_the_demands_that_were_used_last_are_kept():
    decode = Counted(kept=2)
    first, second, third = (make_pod(f"p{cpu}", cpu=cpu) for cpu in (1, 2, 3))
    for each in (first, second, first, third, first):
        decode(wire(each))
    assert len(decode.computed) == 3
    decode(wire(second))
    assert len(decode.computed) == 4


def test_an_ended_pod_is_none():
    assert PodDecoder()(wire(make_pod(node="n1", phase="Succeeded", workload_class="performance"))) is NO_POD


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"metadata":{"name":"p"},"spec":{"containers":1}}', b"\xff"])
def test_what_is_no_pod_is_an_error(raw):
    with pytest.raises(DecodeError):
        PodDecoder()(raw)


def test_a_quantity_that_cannot_be_read_is_an_error_every_time():
    decode = PodDecoder()
    for _ in range(2):
        with pytest.raises(QuantityError):
            decode(wire(make_pod(cpu="much")))
