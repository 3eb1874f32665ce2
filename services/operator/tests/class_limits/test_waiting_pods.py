"""The GPUs that pods without a node wait for."""

import msgspec
import pytest

from joulie_core.class_caps.waiting import GpuRequest
from joulie_core.labels import POWER_PROFILE, WORKLOAD_CLASS
from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_operator.class_limits.pods import awaited_gpus
from joulie_operator.pods import PodDecoder

GPU = "nvidia.com/gpu"


def pod(workload_class="performance", limits=None, **spec):
    annotations = {} if workload_class is None else {WORKLOAD_CLASS: workload_class}
    resources = {"limits": {GPU: "2"} if limits is None else limits}
    return {
        "metadata": {"name": "p", "namespace": "ml", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": resources}], **spec},
        "status": {"phase": "Pending"},
    }


def read(found, claimed_gpus=lambda _pod: 0.0):
    return PodDecoder(None, claimed_gpus, awaited_gpus)(msgspec.json.encode(found)).awaited_gpus


def test_a_performance_pod_waits_for_its_gpus():
    assert read(pod()) == GpuRequest(((GPU, 2.0),))


def test_equal_pods_are_one_object():
    decoder = PodDecoder(awaited_gpus=awaited_gpus)
    assert decoder(msgspec.json.encode(pod())) is decoder(msgspec.json.encode(pod()))


def test_nothing_is_read_of_it_without_a_reader_of_it():
    assert PodDecoder()(msgspec.json.encode(pod())).awaited_gpus is None


@pytest.mark.parametrize("workload_class", ["standard", None])
def test_a_standard_pod_lifts_nothing(workload_class):
    assert read(pod(workload_class)) is None


def test_a_pod_of_unknown_class_waits():
    assert read(pod("fast")) == GpuRequest(((GPU, 2.0),))


def test_a_pod_without_gpus_lifts_nothing():
    assert read(pod(limits={"cpu": "4"})) is None


@pytest.mark.parametrize("spec", [{"schedulingGates": [{"name": "quota"}]}, {"nodeName": "n1"}])
def test_a_pod_with_gates_or_a_node_lifts_nothing(spec):
    assert read(pod(**spec)) is None
    assert read(pod(schedulingGates=[])) is not None


def test_a_pod_that_is_being_deleted_lifts_nothing():
    found = pod()
    found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read(found) is None


def test_which_gpus_a_claim_is_for_is_not_known():
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    assert read(pod(limits={}, resourceClaims=claims), lambda _pod: 1.0) == GpuRequest(None)
    assert read(pod(limits={}, resourceClaims=claims)) is None


def affinity(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def asks(key, value):
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


def test_selector_and_terms_are_read():
    found = read(pod(nodeSelector={"b": "2", "a": "1"}, affinity=affinity(asks("product", "H100"))))
    product = Requirement("product", SelectorOperator.IN, ("H100",))
    assert found == GpuRequest(((GPU, 2.0),), (("a", "1"), ("b", "2")), (Term((product,)),))


def test_labels_that_the_operator_changes_keep_no_node_away():
    # What makes it a performance pod.
    assert read(pod(None, nodeSelector={POWER_PROFILE: "performance"})) == GpuRequest(((GPU, 2.0),))
    found = read(pod(affinity=affinity(asks(POWER_PROFILE, "performance"), asks("product", "H100"))))
    assert found == GpuRequest(((GPU, 2.0),))
    both = {
        "matchExpressions": asks(POWER_PROFILE, "performance")["matchExpressions"] + asks("a", "1")["matchExpressions"]
    }
    kept = Requirement("a", SelectorOperator.IN, ("1",))
    assert read(pod(affinity=affinity(both))) == GpuRequest(((GPU, 2.0),), required_terms=(Term((kept,)),))


def test_a_term_that_matches_no_node_stays_one():
    assert read(pod(affinity=affinity({}))) == GpuRequest(((GPU, 2.0),), required_terms=(Term(),))
