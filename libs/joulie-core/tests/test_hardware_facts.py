"""What is known of a node: seen, told by labels and resources, or unknown; and what happens where two disagree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.caps import CapSettings, intent_for
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_hardware import NodeHardwareStatus, Origin
from joulie_core.node import Node

INVENTORY = Inventory.load()
CPU = {"joulie.io/hw.cpu-model": "AMD EPYC 7763", "joulie.io/hw.cpu-sockets": "1", "joulie.io/hw.cpu-cores": "64"}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
SEEN_CPU = {"rawModel": "AMD EPYC 7763 64-Core Processor", "sockets": 1, "totalCores": 64}


def view(labels, status=None, *, capacity=None, **allocatable):
    node = Node("n1", labels=labels, allocatable=_names(allocatable), capacity=_names(capacity or {}))
    return resolve_view(node, None if status is None else NodeHardwareStatus.model_validate(status), INVENTORY)


def _names(resources):
    names = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
    return {names.get(key, key): value for key, value in resources.items()}


def eco_intent(hardware):
    return intent_for(Profile.ECO, draining=False, hardware=hardware, settings=CapSettings())


@pytest.mark.parametrize("gpu", [{}, None, {"warnings": ["no NVIDIA driver"]}])
def test_a_gpu_that_nobody_could_see_is_not_absent_labels_and_resources_fill_it(gpu):
    hardware = view(CPU | H100, {"cpu": SEEN_CPU, "gpu": gpu}, nvidia="8")
    assert (hardware.gpu.model, hardware.gpu.count, hardware.tdp_watts) == ("NVIDIA H100 SXM", 8, 280 + 8 * 700)
    assert hardware.family == "NVIDIA H100 SXM"
    assert eco_intent(hardware).cpu_pct == 100
    assert (hardware.origins.cpu, hardware.origins.gpu) == (Origin.SEEN, Origin.LABELLED)
    assert hardware.conflicts == ()


def test_a_count_without_presence_is_a_count():
    hardware = view(CPU | H100, {"gpu": {"count": 8}})
    assert hardware.gpu.count == 8
    assert hardware.origins.gpu is Origin.LABELLED


def test_no_gpu_is_a_fact_only_where_somebody_looked():
    assert view(CPU, {"gpu": {"present": False}}).origins.gpu is Origin.SEEN
    unknown = view(CPU, {"gpu": {}})
    assert (unknown.gpu, unknown.origins.gpu) == (None, None)


def test_a_node_that_offers_gpus_which_the_agent_does_not_see_is_a_node_of_gpus_with_a_warning():
    hardware = view(CPU | H100, {"cpu": SEEN_CPU, "gpu": {"present": False}}, nvidia="8")
    assert (hardware.gpu.count, hardware.origins.gpu) == (8, Origin.LABELLED)
    assert eco_intent(hardware).cpu_pct == 100
    [said] = hardware.conflicts
    assert "8" in said
    assert "no GPU" in said


def test_labels_alone_do_not_overrule_what_the_agent_saw_and_the_conflict_is_a_warning():
    hardware = view(CPU | H100, {"gpu": {"present": False}})
    assert hardware.gpu is None
    assert len(hardware.conflicts) == 1


def test_no_gpu_is_authoritative_over_a_count_beside_it():
    hardware = view(CPU | H100, {"gpu": {"present": False, "count": 4}})
    assert (hardware.gpu, hardware.origins.gpu) == (None, Origin.SEEN)
    assert hardware.conflicts == ("the machine reports no GPU and a count of 4: none is assumed",)


def test_no_gpu_with_a_count_yields_to_resources_that_offer_gpus():
    hardware = view(CPU | H100, {"gpu": {"present": False, "count": 4}}, nvidia="8")
    assert (hardware.gpu.count, hardware.origins.gpu) == (8, Origin.LABELLED)


@pytest.mark.parametrize(
    ("labels", "status", "known"),
    [
        ({}, None, False),
        ({"nvidia.com/gpu.product": "NVIDIA-X9000"}, None, False),
        (
            {"nvidia.com/gpu.product": "NVIDIA-X9000"},
            {"gpu": {"capRangePerGpu": {"minWatts": 9, "maxWatts": 99}}},
            True,
        ),
        (H100, None, True),
    ],
)
def test_watts_of_a_generic_model_are_not_taken_for_known(labels, status, known):
    assert view(CPU | labels, status, nvidia="8").gpu.max_is_known is known


@pytest.mark.parametrize("driver", ["i915", "xe"])
def test_a_gpu_of_intels_drivers_counts_since_nothing_shows_that_it_is_part_of_the_processor(driver):
    gpu = view(CPU, **{f"gpu.intel.com/{driver}": "1"}).gpu
    assert (gpu.count, gpu.vendor, gpu.max_is_known) == (1, "Intel", False)


def test_fewer_gpus_seen_than_offered_are_a_warning_and_the_seen_ones_count():
    hardware = view(CPU, {"gpu": {"present": True, "rawModel": "NVIDIA L40S", "count": 7}}, nvidia="8")
    assert (hardware.gpu.count, hardware.origins.gpu) == (7, Origin.SEEN)
    assert len(hardware.conflicts) == 1


def test_gpus_that_are_unhealthy_are_still_in_the_node():
    assert view(CPU | H100, capacity={"nvidia": "8"}, nvidia="6").gpu.count == 8
    assert view(CPU | H100, capacity={"nvidia": "8"}, nvidia="0").gpu.count == 8


@pytest.mark.parametrize(
    ("labels", "allocatable", "count", "model"),
    [
        (H100 | {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "8"}, {"nvidia": "32"}, 8, "NVIDIA H100 SXM"),
        (H100 | {"nvidia.com/gpu.replicas": "4"}, {"nvidia.com/gpu.shared": "32"}, 8, "NVIDIA H100 SXM"),
        (
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.count": "56"},
            {"nvidia": "56"},
            8,
            "NVIDIA H100 SXM",
        ),
        (H100, {"nvidia.com/mig-1g.10gb": "28", "nvidia": "4"}, 8, "NVIDIA H100 SXM"),
        ({}, {"amd.com/cpx_nps4": "64"}, 8, "generic AMD GPU"),
        ({}, {"gpu.intel.com/xe": "2", "gpu.intel.com/xe_monitoring": "1"}, 2, "generic Intel GPU"),
        ({"gpu.intel.com/device.count": "2"}, {"gpu.intel.com/i915": "20"}, 2, "generic Intel GPU"),
    ],
)
def test_slices_and_shares_are_counted_as_the_gpus_they_are_of(labels, allocatable, count, model):
    gpu = view(CPU | labels, **allocatable).gpu
    assert (gpu.count, gpu.model) == (count, model)


@pytest.mark.parametrize(
    ("labels", "allocatable", "origin"),
    [
        (CPU, {}, Origin.LABELLED),
        ({"joulie.io/hw.cpu-model": "AMD EPYC 7763"}, {"cpu": "128"}, Origin.LABELLED),
        ({"joulie.io/hw.cpu-model": "AMD EPYC 7763"}, {}, Origin.INFERRED),
        ({}, {"cpu": "128"}, Origin.INFERRED),
    ],
)
def test_what_is_guessed_of_the_cpus_is_called_inferred(labels, allocatable, origin):
    assert view(labels, **allocatable).origins.cpu is origin


@pytest.mark.parametrize(
    ("labels", "allocatable", "origin"),
    [
        (H100, {"nvidia": "8"}, Origin.LABELLED),
        (H100, {}, Origin.INFERRED),
        ({}, {"nvidia": "8"}, Origin.INFERRED),
        ({"joulie.io/hw.gpu-count": "0"}, {}, Origin.LABELLED),
    ],
)
def test_what_is_guessed_of_the_gpus_is_called_inferred(labels, allocatable, origin):
    assert view(CPU | labels, **allocatable).origins.gpu is origin


def test_the_origin_of_cpus_and_memory_that_were_seen_is_reported():
    hardware = view({}, {"cpu": SEEN_CPU, "memory": {"totalBytes": 1024}})
    assert (hardware.origins.cpu, hardware.origins.memory) == (Origin.SEEN, Origin.SEEN)
    assert view({}, memory="1Gi").origins.memory is Origin.LABELLED


presence = st.sampled_from([None, True, False])


@given(presence, st.integers(0, 9), st.integers(0, 9), st.sampled_from(["", "0", "4"]), st.booleans())
def test_gpus_are_left_out_only_where_nothing_offers_or_counts_them(present, seen, offered, label, model):
    labels = CPU | (H100 if model else {}) | ({"joulie.io/hw.gpu-count": label} if label else {})
    status = {"gpu": {"count": seen} | ({} if present is None else {"present": present})}
    hardware = view(labels, status, nvidia=str(offered))
    if offered or (seen and present is not False):
        assert hardware.gpu is not None
    if hardware.gpu is None:
        assert present is False or label == "0" or not (model or label)
