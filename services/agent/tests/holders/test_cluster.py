import asyncio
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from joulie_agent.holders.cluster import NodePodsWatch, decode_node_pod, decode_slice
from joulie_api.errors import DecodeError
from joulie_core.demand import WorkloadClass
from joulie_core.holders.records import NodePod, SliceDevice
from joulie_testing.api import make_pod

SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "n1-gpu"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 4, "resourceSliceCount": 1},
        "devices": [
            {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-a"}, "minor": {"int": 0}}},
            {"name": "gpu-1", "attributes": {"resource.kubernetes.io/pciBusID": {"string": "0000:c1:00.0"}}},
            {"name": "channel-0"},
        ],
    },
}


def started(pod, at="2026-06-01T18:00:00Z"):
    pod["status"]["startTime"] = at
    return pod


encoded = msgspec.json.encode


def test_a_pod_is_read_with_its_class_its_requests_and_its_start():
    found = decode_node_pod(encoded(started(make_pod("train", "ml", node="n1", gpu=2, workload_class="performance"))))

    expected = NodePod("ml", "train", "", True, WorkloadClass.PERFORMANCE, 1_780_336_800.0, {"NVIDIA": 2})
    assert found == replace(expected, workload="pod/train", running=True)


def test_a_pod_is_read_with_its_workload_and_what_its_cgroup_is_named_by():
    pod = make_pod("web-6d4cf-x", "shop", node="n1")
    pod["metadata"] |= {
        "uid": "u1",
        "labels": {"pod-template-hash": "6d4cf"},
        "ownerReferences": [
            {"kind": "Other", "name": "first"},
            {"kind": "ReplicaSet", "name": "web-6d4cf", "controller": True},
        ],
    }
    found = decode_node_pod(encoded(pod))
    assert (found.workload, found.uid, found.cgroup_uid) == ("deployment/web", "u1", "u1")
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef"}
    assert decode_node_pod(encoded(pod)).cgroup_uid == "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("time", ["", "yesterday", "2026-06-01T18:00:00"])
def test_a_start_that_is_no_time_is_not_known(time):
    assert decode_node_pod(encoded(started(make_pod("train", node="n1"), time))).started_at_s is None


def test_a_slice_is_read_with_the_texts_among_its_attributes():
    assert decode_slice(encoded(SLICE)) == (
        SliceDevice("gpu.nvidia.com", "n1", 4, "gpu-0", {"uuid": "GPU-a"}),
        SliceDevice("gpu.nvidia.com", "n1", 4, "gpu-1", {"pciBusID": "0000:c1:00.0"}),
        SliceDevice("gpu.nvidia.com", "n1", 4, "channel-0", {}),
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b'{"spec": {"devices": [{"name": 1}]}}',
        encoded({"spec": {"devices": [{"name": "x"}] * 1025}}),
        encoded({"spec": {"devices": [{"name": "x", "attributes": {str(n): {} for n in range(257)}}]}}),
    ],
)
def test_what_is_no_slice_is_refused(raw):
    with pytest.raises(DecodeError):
        decode_slice(raw)


async def test_the_pods_of_the_node_alone_are_followed(fake_api, fake_client):
    fake_api.put_all([started(make_pod("mine", node="n1")), make_pod("other", node="n2"), make_pod("pending")])
    watch = NodePodsWatch(fake_client, "n1")
    assert watch.current() is None
    tasks = [asyncio.create_task(each) for each in (watch.pods.run(), watch.slices.run())]
    try:
        await watch.pods.wait_synced()
        async with asyncio.timeout(60):
            while True:
                if (found := watch.current()) is not None:
                    break
                await asyncio.sleep(0.01)
        assert list(found.pods) == ["default/mine"]
        assert found.slices == ()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
