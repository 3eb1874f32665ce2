import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.holders.records import node_pod
from joulie_core.labels import WORKLOAD_CLASS
from joulie_core.pod import Container, Pod, PodClaim


def gpus(number, resource="nvidia.com/gpu", *, sidecar=False):
    return Container(limits={resource: str(number)}, sidecar=sidecar)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (None, WorkloadClass.STANDARD),
        ("standard", WorkloadClass.STANDARD),
        ("performance", WorkloadClass.PERFORMANCE),
        ("fast", None),
        ("", None),
    ],
)
def test_a_class_that_is_neither_performance_nor_standard_is_unknown(annotation, expected):
    annotations = {} if annotation is None else {WORKLOAD_CLASS: annotation}

    assert node_pod(Pod("a", annotations=annotations)).workload_class is expected


@pytest.mark.parametrize(
    ("pod", "units"),
    [
        (Pod("a", containers=(gpus(1), gpus(2))), {"NVIDIA": 3}),
        (Pod("a", containers=(gpus(1),), init_containers=(gpus(4),)), {"NVIDIA": 4}),
        (Pod("a", containers=(gpus(1),), init_containers=(gpus(1, sidecar=True),)), {"NVIDIA": 2}),
        (Pod("a", containers=(gpus(1), gpus(2, "nvidia.com/mig-1g.5gb"))), {"NVIDIA": 3}),
        (Pod("a", containers=(gpus(1), gpus(2, "amd.com/gpu"))), {"NVIDIA": 1, "AMD": 2}),
        (Pod("a", containers=(gpus(1, "deviceclass.resource.kubernetes.io/gpu.nvidia.com"),)), {"NVIDIA": 1}),
        (Pod("a", containers=(gpus(1, "deviceclass.resource.kubernetes.io/rented"),)), {"": 1}),
        (Pod("a", containers=(gpus(1, "rdma/hca"),)), {}),
    ],
)
def test_the_units_of_a_pod_are_those_of_its_largest_moment(pod, units):
    found = node_pod(pod)

    assert found.units == units
    assert not found.unreadable


@pytest.mark.parametrize("quantity", ["many", "1e999999", ""])
def test_a_quantity_that_cannot_be_read_is_not_zero(quantity):
    found = node_pod(Pod("a", containers=(gpus(quantity),)))

    assert found.unreadable or found.units.get("NVIDIA", 0) > 0


@pytest.mark.parametrize(("phase", "active"), [("Pending", True), ("Running", True), ("Failed", False)])
def test_a_pod_is_active_until_its_phase_says_that_it_has_ended(phase, active):
    claims = (PodClaim("c"), PodClaim())
    pod = Pod("a", "team", "u", phase=phase, deleting=True, claims=claims, start_time="1970-01-01T00:00:05Z")

    found = node_pod(pod)

    assert (found.active, found.key, found.uid) == (active, "team/a", "u")
    assert found.running is (phase == "Running")
    assert (found.started_at_s, found.claims) == (5.0, ("c", None))
