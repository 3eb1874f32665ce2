"""The GPUs of a pod that is about to start a container: certain, or not known."""

from dataclasses import replace

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.holders.held import NodePods
from joulie_core.holders.pod_gpus import StartingPod, gpus_of_pod, requests_no_gpu
from joulie_core.holders.records import (
    ClaimedDevice,
    DeviceListing,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodeGpu,
    NodePod,
    NoListing,
    PluginDevice,
)

GPUS = (NodeGpu("GPU-a", "NVIDIA", 0), NodeGpu("GPU-b", "NVIDIA", 1))
STARTING = StartingPod("team", "serve", "u1")
POD = NodePod("team", "serve", "u1", True, WorkloadClass.PERFORMANCE, 0.0, units={"NVIDIA": 1})


def listed(*device_ids, name="serve", claims=(), claimed=()):
    devices = tuple(PluginDevice("nvidia.com/gpu", each) for each in device_ids)
    return ListedPod("team", name, (ListedContainer("main", devices, tuple(claimed), tuple(claims)),))


def gpus_of(*entries, pod=POD, starting=STARTING):
    pods = NodePods({} if pod is None else {pod.key: pod})
    return gpus_of_pod(starting, DeviceListing(entries, 1000.0), pods, GPUS)


def test_the_gpus_of_a_pod_are_those_that_the_kubelet_lists_for_it():
    assert gpus_of(listed("GPU-b"), listed("GPU-a", name="train")) == {"GPU-b"}


def test_a_pod_that_requests_none_has_none():
    assert gpus_of(pod=replace(POD, units={})) == frozenset()


@pytest.mark.parametrize(
    ("entries", "pod"),
    [
        # The API server does not have it on the node, or has an earlier one of the name.
        ((listed("GPU-a"),), None),
        ((listed("GPU-a"),), replace(POD, uid="u0")),
        # Nothing is listed for it: a container that ends before the others start is never listed.
        ((), POD),
        ((listed("GPU-a"),), replace(POD, units={"NVIDIA": 2})),
        ((listed(),), replace(POD, units={}, claims=("gpu",))),
        ((listed(),), replace(POD, units={}, unreadable=True)),
        # One of the two is of an earlier pod of the name.
        ((listed("GPU-a"), listed("GPU-b")), POD),
        # It leads to no GPU that was found.
        ((listed("GPU-ffff"),), POD),
    ],
)
def test_what_is_not_certain_is_not_known(entries, pod):
    assert gpus_of(*entries, pod=pod) is None


def test_a_claim_that_is_listed_is_certain():
    claimed = ClaimedDevice("nic.example.com", "n1", "nic-0")
    pod = replace(POD, units={}, claims=("net",))
    assert gpus_of(listed(claims=["net"], claimed=[claimed]), pod=pod) == frozenset()


def test_without_an_answer_of_the_kubelet_or_of_the_api_server_nothing_is_known():
    pods = NodePods({POD.key: POD})
    assert gpus_of_pod(STARTING, NoListing(HolderReason.KUBELET_LATE), pods, GPUS) is None
    assert gpus_of_pod(STARTING, DeviceListing((listed("GPU-a"),), 1000.0), None, GPUS) is None


def test_a_static_pod_is_known_by_the_uid_that_the_kubelet_gave_it():
    pod = replace(POD, cgroup_uid="hash")
    assert gpus_of(listed("GPU-a"), pod=pod, starting=replace(STARTING, uid="hash")) == {"GPU-a"}


@pytest.mark.parametrize(
    ("pod", "certain"),
    [
        (replace(POD, units={}), True),
        (POD, False),
        (None, False),
        (replace(POD, units={}, uid="u0"), False),
        (replace(POD, units={}, claims=(None,)), False),
        (replace(POD, units={}, unreadable=True), False),
    ],
)
def test_a_pod_requests_no_gpu_only_if_that_is_certain(pod, certain):
    assert requests_no_gpu(STARTING, NodePods({} if pod is None else {pod.key: pod})) is certain
    assert not requests_no_gpu(STARTING, None)
