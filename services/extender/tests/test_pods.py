"""What is read of a pod, against what the whole pod says."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api.errors import DecodeError
from joulie_api.testing import make_pod
from joulie_api.wire import decode_pod
from joulie_core.demand import workload_class
from joulie_core.labels import POWER_PROFILE
from joulie_core.powerest.pod_demand import pod_demand
from joulie_extender.pods import read_bound_pod

QUANTITIES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "example.com/other"]),
    st.sampled_from(["0", "1", "2500m", "4Gi", "8"]) | st.sampled_from([1, 0.5]),
    max_size=3,
)
RESOURCES = st.none() | st.fixed_dictionaries({}, optional={"requests": QUANTITIES, "limits": st.none() | QUANTITIES})
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("ab"), "image": st.just("i")},
        optional={"resources": RESOURCES, "restartPolicy": st.sampled_from(["Always", "Never"]), "env": st.just([])},
    ),
    max_size=3,
)
EXPRESSIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from([POWER_PROFILE, "zone"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists"]),
        "values": st.sampled_from([["eco"], ["performance"], ["eco", "performance"]]),
    }
)
TERMS = st.fixed_dictionaries({"matchExpressions": st.lists(EXPRESSIONS, max_size=2)})
AFFINITY = st.builds(
    lambda terms: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
    st.lists(TERMS, max_size=2),
)
SPECS = st.fixed_dictionaries(
    {"nodeName": st.just("n"), "schedulerName": st.just("s")},
    optional={
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "overhead": QUANTITIES,
        "resources": RESOURCES,
        "nodeSelector": st.sampled_from([{POWER_PROFILE: "eco"}, {POWER_PROFILE: "performance"}, {"zone": "z"}]),
        "affinity": st.none() | AFFINITY,
        "resourceClaims": st.none() | st.just([{"name": "c", "resourceClaimName": "claim"}]),
    },
)
PODS = st.builds(
    lambda annotations, spec: {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "annotations": annotations},
        "spec": spec,
        "status": {"phase": "Running"},
    },
    st.none()
    | st.dictionaries(st.sampled_from(["joulie.io/workload-class", "other"]), st.sampled_from(["performance"])),
    SPECS,
)


def gpus_of_claims(pod):
    return 3.0 * len(pod.claims) if pod.namespace == "ns" else 0.0


@given(st.lists(PODS, min_size=1, max_size=4))
def test_any_pods_in_any_order_have_the_demand_of_the_whole_pod(pods):
    for pod in pods * 2:
        raw = msgspec.json.encode(pod)
        whole = decode_pod(raw)
        expected = pod_demand(whole, workload_class(whole), gpus_of_claims(whole))
        read = read_bound_pod(raw, gpus_of_claims)
        assert (read.uid, read.node, read.demand) == ("u", "n", expected)


def test_a_pods_claims_are_counted_anew_each_time():
    pod = make_pod("p", node="n", cpu=1)
    pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "claim"}]
    raw = msgspec.json.encode(pod)
    assert [read_bound_pod(raw, lambda _pod, gpus=gpus: gpus).demand.gpus for gpus in (1.0, 2.0)] == [1.0, 2.0]


@pytest.mark.parametrize("raw", [b"{}", b"[]", b"{", b'{"metadata":{}}', b'{"metadata":{"name":"\xff"}}'])
def test_what_is_no_bound_pod_is_refused(raw):
    with pytest.raises(DecodeError):
        read_bound_pod(raw)
