"""One test for each way in which the kubelet's answer can mislead."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import Holder, NodePods, held_devices
from joulie_core.holders.records import (
    ClaimedDevice,
    DeviceListing,
    DeviceUsers,
    HolderReason,
    ListedContainer,
    ListedPod,
    NodeGpu,
    NodePod,
    NoListing,
    PluginDevice,
    SliceDevice,
)

NOW = 1_000_000.0
STANDARD, PERFORMANCE = WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE
A, B = NodeGpu("GPU-a", "NVIDIA", 0, minor=0), NodeGpu("GPU-b", "NVIDIA", 1, minor=1, partitions=("MIG-1", "MIG-2"))
GPUS = (A, B)
SHARED = "nvidia.com/gpu.shared"


def pod(name="train", workload_class=STANDARD, *, units=1, started=NOW - 60, active=True, claims=(), uid="u1"):
    return NodePod(
        "team", name, uid, active, workload_class, started, units={"NVIDIA": units} if units else {}, claims=claims
    )


def listed(name="train", *device_ids, resource="nvidia.com/gpu", container="main"):
    devices = tuple(PluginDevice(resource, each) for each in device_ids)
    return ListedPod("team", name, (ListedContainer(container, devices),))


def held(listing, pods, *, gpus=GPUS, users=None, slices=()):
    """Return as what each GPU is held and why, by UUID."""
    answer = DeviceListing(tuple(listing), NOW)
    found = held_devices(answer, NodePods({each.key: each for each in pods}, slices), gpus, users)
    return {each.uuid: (each.held_as.value, each.reason.value) for each in found}


def holders(listing, pods, uuid="GPU-a", **context):
    found = held_devices(
        DeviceListing(tuple(listing), NOW), NodePods({each.key: each for each in pods}, **context), GPUS
    )
    return next(each for each in found if each.uuid == uuid).holders


def test_a_gpu_of_a_standard_pod_is_standard_and_the_other_is_free():
    found = held([listed("train", "GPU-a")], [pod()])

    assert found == {"GPU-a": ("standard", "AllStandard"), "GPU-b": ("free", "NoPod")}
    assert holders([listed("train", "GPU-a")], [pod()]) == (Holder("team", "train", "main", STANDARD, "u1"),)


def test_a_gpu_of_a_performance_pod_is_performance():
    assert held([listed("train", "GPU-a")], [pod(workload_class=PERFORMANCE)])["GPU-a"] == (
        "performance",
        "PerformancePod",
    )


def test_a_pod_of_unknown_class_makes_its_gpu_unknown():
    assert held([listed("train", "GPU-a")], [pod(workload_class=None)])["GPU-a"] == ("unknown", "ClassUnknown")


def test_pods_that_have_ended_hold_nothing_though_older_kubelets_list_them():
    assert held([listed("train", "GPU-a")], [pod(active=False)])["GPU-a"] == ("free", "NoPod")


def test_a_pod_that_is_being_deleted_holds_its_devices_until_it_has_ended():
    # The phase of a pod that is being deleted stays Running until its containers have ended.
    assert held([listed("train", "GPU-a")], [pod(active=True)])["GPU-a"] == ("standard", "AllStandard")


def test_repeated_cdi_ids_and_repeated_entries_are_one_holder():
    device = ClaimedDevice("gpu.nvidia.com", "n", "gpu-0")
    container = ListedContainer("main", claimed=(device,) * 5000, claims=("claim",) * 5000)
    slices = (SliceDevice("gpu.nvidia.com", "n", 1, "gpu-0", {"uuid": "GPU-a"}),)

    found = holders([ListedPod("team", "train", (container,))], [pod(units=0, claims=("claim",))], slices=slices)

    assert found == (Holder("team", "train", "main", STANDARD, "u1"),)


def test_an_init_container_listed_nowhere_may_hold_what_looks_free():
    # The init container requests two GPUs, the app container one: the second stays allocated.
    found = held([listed("train", "GPU-a")], [pod(units=2)])

    assert found == {"GPU-a": ("standard", "AllStandard"), "GPU-b": ("unknown", "NotListed")}


def test_an_init_container_of_a_performance_pod_leaves_the_gpus_of_others_that_have_them_alone():
    found = held([listed("train", "GPU-a")], [pod(), pod("fast", PERFORMANCE)])

    assert found == {"GPU-a": ("standard", "AllStandard"), "GPU-b": ("unknown", "NotListed")}


def test_what_a_performance_pod_may_hold_is_not_standard_where_it_is_shared():
    found = held([listed("train", "GPU-b::0", resource=SHARED)], [pod(), pod("fast", PERFORMANCE)])

    assert found["GPU-b"] == ("unknown", "NotListed")


def test_what_a_standard_pod_may_hold_stays_standard_where_it_is_shared():
    found = held([listed("train", "GPU-b::0", resource=SHARED)], [pod(), pod("slow")])

    assert found["GPU-b"] == ("standard", "AllStandard")


def test_sidecars_are_listed_and_count_as_holders():
    entry = ListedPod(
        "team",
        "train",
        (
            ListedContainer("main", (PluginDevice("nvidia.com/gpu", "GPU-a"),)),
            ListedContainer("sidecar", (PluginDevice("nvidia.com/gpu", "GPU-b"),)),
        ),
    )

    assert held([entry], [pod(units=2)])["GPU-b"] == ("standard", "AllStandard")
    assert holders([entry], [pod(units=2)], "GPU-b") == (Holder("team", "train", "sidecar", STANDARD, "u1"),)


def test_sidecars_that_an_older_kubelet_does_not_list_may_hold_what_looks_free():
    assert held([listed("train", "GPU-a")], [pod(units=2)])["GPU-b"] == ("unknown", "NotListed")


def test_ephemeral_containers_are_listed_nowhere_and_request_nothing():
    # They have no resources of their own; a pod without requests that is not listed holds nothing.
    assert held([listed("train", "GPU-a")], [pod(), pod("debugged", PERFORMANCE, units=0)])["GPU-b"] == (
        "free",
        "NoPod",
    )


@pytest.mark.parametrize("started", [None, NOW - 0.9, NOW, NOW + 5])
def test_a_reused_pod_name_is_not_taken_for_the_new_pod(started):
    # The answer was asked for before the pod of that name had surely started: it may be the earlier one's.
    new_pod = pod(started=started, uid="u2")

    assert held([listed("train", "GPU-a")], [new_pod])["GPU-a"] == ("unknown", "PodTooNew")


def test_a_pod_that_started_a_second_before_the_answer_is_the_one_of_its_name():
    assert held([listed("train", "GPU-a")], [pod(started=NOW - 1.0)])["GPU-a"] == ("standard", "AllStandard")


@pytest.mark.parametrize("active", [True, False])
def test_two_entries_of_one_name_are_of_no_pod_that_is_known(active):
    found = held([listed("train", "GPU-a"), listed("train", "GPU-b")], [pod(active=active)])

    assert found == {"GPU-a": ("unknown", "SameName"), "GPU-b": ("unknown", "SameName")}


def test_a_pod_that_the_api_server_does_not_have_is_unknown():
    assert held([listed("gone", "GPU-a")], [])["GPU-a"] == ("unknown", "PodUnknown")


def test_pods_of_one_name_in_other_namespaces_are_others():
    other = replace(pod(workload_class=PERFORMANCE), namespace="other")

    assert held([listed("train", "GPU-a")], [pod(), replace(other, units={})])["GPU-a"] == ("standard", "AllStandard")


def test_a_kubelet_that_restarts_and_lists_nothing_yet_leaves_no_gpu_free():
    found = held([], [pod()])

    assert found == {"GPU-a": ("unknown", "NotListed"), "GPU-b": ("unknown", "NotListed")}


def test_a_device_plugin_that_has_not_come_back_leaves_its_pod_unlisted_and_the_gpus_unknown():
    # The pod runs and requests a GPU; its entry has none.
    found = held([listed("train")], [pod()])

    assert {held_as for held_as, _ in found.values()} == {"unknown"}


def test_an_assignment_at_admission_counts_while_the_pod_is_pending():
    # The kubelet sets the start time when it admits the pod, before images are pulled.
    assert held([listed("train", "GPU-a")], [pod(started=NOW - 3)])["GPU-a"] == ("standard", "AllStandard")


def test_a_performance_pod_that_is_not_admitted_yet_makes_free_gpus_unknown():
    assert held([], [pod("fast", PERFORMANCE, started=None)])["GPU-a"] == ("unknown", "NotListed")


def test_a_shared_claim_is_held_by_all_its_pods():
    claimed = ListedContainer("main", claimed=(ClaimedDevice("gpu.nvidia.com", "n", "gpu-0"),), claims=("shared",))
    slices = (SliceDevice("gpu.nvidia.com", "n", 1, "gpu-0", {"uuid": "GPU-a"}),)
    entries = [ListedPod("team", name, (claimed,)) for name in ("one", "two")]
    pods = [pod("one", units=0, claims=("shared",)), pod("two", PERFORMANCE, units=0, claims=("shared",))]

    assert held(entries, pods, slices=slices)["GPU-a"] == ("performance", "PerformancePod")
    assert [each.pod for each in holders(entries, pods, slices=slices)] == ["one", "two"]


@pytest.mark.parametrize("claims", [("shared", "other"), (None,)])
def test_a_claim_that_is_not_listed_may_hold_any_gpu(claims):
    claimed = ListedContainer("main", claimed=(ClaimedDevice("gpu.nvidia.com", "n", "gpu-0"),), claims=("shared",))
    slices = (SliceDevice("gpu.nvidia.com", "n", 1, "gpu-0", {"uuid": "GPU-a"}),)

    found = held([ListedPod("team", "train", (claimed,))], [pod(units=0, claims=claims)], slices=slices)

    assert found == {"GPU-a": ("standard", "AllStandard"), "GPU-b": ("unknown", "NotListed")}


def test_several_pods_on_one_share_are_all_holders():
    entries = [listed("one", "GPU-b::1", resource=SHARED), listed("two", "GPU-b::1", resource=SHARED)]

    assert held(entries, [pod("one"), pod("two")])["GPU-b"] == ("standard", "AllStandard")
    assert held(entries, [pod("one"), pod("two", workload_class=None)])["GPU-b"] == ("unknown", "ClassUnknown")
    assert held(entries, [pod("one"), pod("two", PERFORMANCE)])["GPU-b"] == ("performance", "PerformancePod")


def test_other_shares_of_one_gpu_are_the_same_gpu():
    entries = [listed("one", "GPU-b::0", resource=SHARED), listed("two", "GPU-b::1", resource=SHARED)]

    assert len(holders(entries, [pod("one"), pod("two")], "GPU-b")) == 2


def test_partitions_of_one_gpu_are_the_same_gpu():
    entries = [listed("one", "MIG-1"), listed("two", "MIG-2")]

    assert held(entries, [pod("one"), pod("two", PERFORMANCE)])["GPU-b"] == ("performance", "PerformancePod")


def test_a_gpu_that_is_not_found_may_be_any_of_its_vendor():
    amd = NodeGpu("amd", "AMD")

    found = held([listed("train", "MIG-new")], [pod(workload_class=PERFORMANCE)], gpus=(A, amd))

    assert found == {"GPU-a": ("unknown", "DeviceUnknown"), "amd": ("free", "NoPod")}


def test_a_pod_that_lacks_a_gpu_may_hold_the_one_it_has_exclusively_but_no_other_pods():
    found = held([listed("fast", "GPU-a"), listed("train", "GPU-b")], [pod("fast", PERFORMANCE, units=2), pod()])

    assert found == {"GPU-a": ("performance", "PerformancePod"), "GPU-b": ("standard", "AllStandard")}


def test_a_partition_of_an_amd_gpu_is_held_as_its_parent():
    cut = NodeGpu("amd-0", "AMD", 0, "0000:c1:00.0", partitions=("amdgpu_xcp_1", "amdgpu_xcp_2"), partitioned=True)
    other = NodeGpu("amd-1", "AMD", 1, "0000:c2:00.0", partitioned=False)
    gpus, resource = (cut, other), "amd.com/cpx_nps4"
    pods = [
        replace(pod("slow", uid="u1"), units={"AMD": 1}),
        replace(pod("fast", PERFORMANCE, uid="u2"), units={"AMD": 1}),
    ]
    entries = [listed("slow", "0000:c1:00.0", resource=resource), listed("fast", "amdgpu_xcp_2", resource=resource)]

    assert held(entries, pods, gpus=gpus) == {
        "amd-0": ("performance", "PerformancePod"),
        "amd-1": ("free", "NoPod"),
    }


def test_a_partition_whose_parent_is_not_known_leaves_no_gpu_of_amd_standard_or_free():
    gpus = tuple(NodeGpu(f"amd-{n}", "AMD", n, f"0000:c{n}:00.0", partitioned=bool(n)) for n in (1, 2))
    pods = [replace(pod("fast", PERFORMANCE, uid="u2"), units={"AMD": 1})]

    found = held([listed("fast", "amdgpu_xcp_2", resource="amd.com/cpx_nps4")], pods, gpus=(*gpus, A))

    assert found == {
        "amd-1": ("unknown", "DeviceUnknown"),
        "amd-2": ("unknown", "DeviceUnknown"),
        "GPU-a": ("free", "NoPod"),
    }


OUTSIDE, UNUSED = DeviceUsers(outside_pid=7), DeviceUsers()


def test_processes_outside_of_pods_are_neither_free_nor_standard():
    entries = [listed("train", "GPU-a")]

    assert held(entries, [pod()], users={"GPU-a": OUTSIDE, "GPU-b": OUTSIDE}) == {
        "GPU-a": ("outside", "OutsideProcess"),
        "GPU-b": ("outside", "OutsideProcess"),
    }
    assert held(entries, [pod()], users={"GPU-a": UNUSED, "GPU-b": UNUSED}) == {
        "GPU-a": ("standard", "AllStandard"),
        "GPU-b": ("free", "NotHeld"),
    }


def test_processes_of_pods_on_the_node_are_not_outside_and_those_of_others_are():
    of_pods = DeviceUsers(frozenset({"u1", "u2"}))
    users = {"GPU-a": of_pods, "GPU-b": UNUSED}
    monitor = pod("monitor", units=0, uid="u2")

    assert held([listed("train", "GPU-a")], [pod(), monitor], users=users)["GPU-a"] == ("standard", "AllStandard")
    for others in ([], [replace(monitor, active=False)]):
        found = held([listed("train", "GPU-a")], [pod(), *others], users=users)
        assert found["GPU-a"] == ("outside", "OutsideProcess")
    static = replace(pod("monitor", units=0, uid="u9"), cgroup_uid="u2")
    assert held([listed("train", "GPU-a")], [pod(), static], users=users)["GPU-a"] == ("standard", "AllStandard")


@pytest.mark.parametrize("users", [{}, {"GPU-a": DeviceUsers(problem="not supported")}])
def test_processes_that_were_looked_for_and_are_not_known_make_a_gpu_unknown(users):
    found = held([listed("train", "GPU-a")], [pod()], users=users)

    assert found == {"GPU-a": ("unknown", "ProcessesUnknown"), "GPU-b": ("unknown", "ProcessesUnknown")}


def test_a_performance_pod_counts_before_a_process_outside_of_pods():
    found = held([listed("fast", "GPU-a")], [pod("fast", PERFORMANCE)], users={"GPU-a": OUTSIDE})

    assert found["GPU-a"] == ("performance", "PerformancePod")


@pytest.mark.parametrize("workload_class", [STANDARD, PERFORMANCE])
def test_the_energy_of_a_gpu_that_a_process_outside_of_pods_uses_is_no_pods(workload_class):
    listing, pods = (
        DeviceListing((listed("train", "GPU-a"),), NOW),
        NodePods({"team/train": pod("train", workload_class)}),
    )

    (used,) = held_devices(listing, pods, (A,), {"GPU-a": OUTSIDE})
    assert used.pods is None
    (unused,) = held_devices(listing, pods, (A,), {"GPU-a": UNUSED})
    assert unused.pods == {"u1"}


def test_no_answer_makes_every_gpu_unknown_with_the_reason():
    found = held_devices(NoListing(HolderReason.KUBELET_LATE, "2 s"), NodePods({}), GPUS)

    assert {(each.held_as, each.reason, each.message) for each in found} == {
        (HeldAs.UNKNOWN, HolderReason.KUBELET_LATE, "2 s")
    }


def test_pods_that_are_not_read_yet_make_every_gpu_unknown():
    found = held_devices(DeviceListing((), NOW), None, GPUS)

    assert {(each.held_as, each.reason) for each in found} == {(HeldAs.UNKNOWN, HolderReason.PODS_NOT_READ)}


@pytest.mark.parametrize(
    ("units", "unreadable", "expected"),
    [({"": 1}, False, "unknown"), ({"AMD": 1}, False, "free"), ({}, True, "unknown"), ({"NVIDIA": 0}, False, "free")],
)
def test_requests_of_unknown_vendors_and_unreadable_ones_may_be_any_gpu(units, unreadable, expected):
    odd = replace(pod("odd"), units=units, unreadable=unreadable)

    assert held([], [odd])["GPU-a"][0] == expected


def test_an_extended_resource_that_is_listed_as_a_claim_is_listed():
    claimed = ListedContainer("main", claimed=(ClaimedDevice("gpu.nvidia.com", "n", "gpu-0"),), claims=("made",))
    slices = (SliceDevice("gpu.nvidia.com", "n", 1, "gpu-0", {"uuid": "GPU-a"}),)
    entry = ListedPod("team", "train", (claimed,))

    for units in ({"NVIDIA": 1}, {"": 1}):
        found = held([entry], [replace(pod(), units=units)], slices=slices)
        assert found == {"GPU-a": ("standard", "AllStandard"), "GPU-b": ("free", "NoPod")}


_NAMES = st.sampled_from(["one", "two", "three"])
_IDS = st.sampled_from(["GPU-a", "GPU-a::0", "GPU-b", "GPU-b::1", "MIG-1", "MIG-9", "nvidia1", ""])
_ENTRIES = st.lists(st.builds(lambda name, ids: listed(name, *ids), _NAMES, st.lists(_IDS, max_size=3)), max_size=4)
_PODS = st.lists(
    st.builds(
        lambda name, of_class, units, started, active: pod(name, of_class, units=units, started=started, active=active),
        _NAMES,
        st.sampled_from([STANDARD, PERFORMANCE, None]),
        st.integers(0, 3),
        st.sampled_from([None, NOW - 60, NOW]),
        st.booleans(),
    ),
    max_size=3,
    unique_by=lambda each: each.name,
)


@given(_ENTRIES, _PODS)
def test_a_standard_gpu_has_no_holder_that_is_not_a_standard_pod(entries, pods):
    by_name = {each.name: each for each in pods}
    for device in held_devices(DeviceListing(tuple(entries), NOW), NodePods({each.key: each for each in pods}), GPUS):
        if device.held_as is HeldAs.STANDARD:
            assert device.holders
            for holder in device.holders:
                assert by_name[holder.pod].workload_class is STANDARD
                assert by_name[holder.pod].active
        if device.held_as is HeldAs.FREE:
            assert not device.holders


def pods_of(listing, pods, uuid="GPU-a"):
    """Return the UIDs of the pods that certainly are all that hold a GPU; None where that is not certain."""
    found = held_devices(DeviceListing(tuple(listing), NOW), NodePods({each.key: each for each in pods}), GPUS)
    return next(each for each in found if each.uuid == uuid).pods


@pytest.mark.parametrize("workload_class", [STANDARD, PERFORMANCE, None])
def test_the_pods_of_a_gpu_are_certain_whatever_their_class(workload_class):
    assert pods_of([listed("train", "GPU-a")], [pod(workload_class=workload_class)]) == {"u1"}
    assert pods_of([listed("train", "GPU-a")], [pod(workload_class=workload_class)], "GPU-b") == frozenset()


def test_a_pod_that_may_be_another_one_of_its_name_is_not_certain():
    assert pods_of([listed("train", "GPU-a")], [pod(started=NOW)]) is None
    assert pods_of([listed("train", "GPU-a")], []) is None


def test_the_pods_of_a_gpu_are_not_certain_while_another_may_hold_it_even_where_its_class_is():
    shared = listed("train", "GPU-a::0", resource=SHARED)
    perhaps = pod("other", uid="u2", units=2)
    assert held([shared], [pod(), perhaps])["GPU-a"] == ("standard", "AllStandard")
    assert pods_of([shared], [pod(), perhaps]) is None


def test_without_an_answer_no_pods_are_certain():
    (first, _) = held_devices(NoListing(HolderReason.KUBELET_SILENT), NodePods({}), GPUS)
    assert first.pods is None
