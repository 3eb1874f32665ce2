"""How many GPUs a claim is."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.pod import Container, Pod
from joulie_core.powerest.claims import DEVICE_CLASS_GPUS, ClaimDemand, ClaimRequest, DeviceRequest
from joulie_core.powerest.pod_demand import class_resource_gpus, other_extended_resources, pod_demand

CLASSES = {**DEVICE_CLASS_GPUS, "small": 0.25, "nic": 0.0}


def gpus(*requests):
    return ClaimDemand(tuple(requests)).gpus(CLASSES)


def of(device_class, count=1, *, admin=False, allocated=None):
    return ClaimRequest((DeviceRequest(device_class, count, admin),), allocated)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (of("gpu.nvidia.com", 4), 4),
        (of("gpu.amd.com"), 1),
        (of("gpu.intel.com", 2), 2),
        (of("mig.nvidia.com", 2), 2),
        (of("compute-domain-default-channel.nvidia.com"), 0),
        (of("small", 2), 0.5),
        (of("nic", 4), 0),
        (of("gpu.example.com", 3), 3),
        (of("gpu.nvidia.com", None), 8),
        (of("gpu.nvidia.com", None, allocated=4), 4),
        (of("gpu.nvidia.com", 2, admin=True), 0),
        (ClaimRequest((DeviceRequest("gpu.nvidia.com", 1), DeviceRequest("small", 8))), 2),
        (ClaimRequest(()), 0),
    ],
)
def test_a_request_counts_as_the_most_gpus_that_its_devices_may_be(request_, expected):
    assert gpus(request_) == expected


def test_the_requests_of_a_claim_are_added_up():
    assert gpus(of("gpu.nvidia.com", 4), of("nic"), of("small")) == 4.25
    assert gpus() == 0


def test_classes_without_a_vendor_are_reported():
    claim = ClaimDemand((of("gpu.nvidia.com"), of("fpga.example.com"), of("admin.example.com", admin=True)))
    assert claim.unknown_classes(CLASSES) == {"fpga.example.com"}


def test_claimed_gpus_are_added_to_those_of_extended_resources():
    pod = Pod("p", containers=(Container(limits={"nvidia.com/gpu": "1"}),))
    assert pod_demand(pod, WorkloadClass.STANDARD, claimed_gpus=2.5).gpus == 3.5


@pytest.mark.parametrize(
    ("device_class", "expected"), [("gpu.nvidia.com", 2), ("compute-domain-daemon.nvidia.com", 0), ("unheard.of", 2)]
)
def test_an_extended_resource_of_a_device_class_counts_as_the_class_does(device_class, expected):
    resource = f"deviceclass.resource.kubernetes.io/{device_class}"
    pod = Pod("p", containers=(Container(limits={resource: "2"}),))
    assert pod_demand(pod, WorkloadClass.STANDARD).gpus == expected


CLASS_OF = {"example.com/gpu": "gpu.nvidia.com", "example.com/quarter": "small", "example.com/odd": "unheard.of"}


@pytest.mark.parametrize(
    ("resource", "in_demand", "by_class"),
    [
        ("example.com/gpu", 0, 2),
        ("example.com/quarter", 0, 0.5),
        ("example.com/odd", 0, 2),
        ("example.com/fpga", 0, 0),
        ("nvidia.com/gpu", 2, 0),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", 2, 0),
        ("deviceclass.resource.kubernetes.io/small", 2, -1.5),
        ("cpu", 0, 0),
    ],
)
def test_an_extended_resource_that_a_class_serves_counts_as_the_class_does(resource, in_demand, by_class):
    pod = Pod("p", containers=(Container(limits={resource: "2"}),))
    assert pod_demand(pod, WorkloadClass.STANDARD).gpus == in_demand
    assert class_resource_gpus(pod, CLASSES, CLASS_OF) == by_class


def test_start_up_and_running_containers_count_once_for_a_class():
    requested = {"example.com/gpu": "1"}
    pod = Pod("p", containers=(Container(requests=requested),) * 3, init_containers=(Container(requests=requested),))
    assert class_resource_gpus(pod, CLASSES, CLASS_OF) == 3


def test_only_resources_whose_names_do_not_show_a_gpu_depend_on_classes():
    requests = {"cpu": "1", "nvidia.com/gpu": "1", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"}
    assert other_extended_resources(Pod("p", containers=(Container(requests=requests),))) == ("example.com/gpu",)
