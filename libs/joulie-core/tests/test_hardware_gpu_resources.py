"""Extended resources of GPUs, whole and in parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.hardware.gpu_resources import GpuUnit, gpu_resource, gpus_per_unit, is_partitioned, physical_gpus

PRODUCT, REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
SINGLE_MIG = {PRODUCT: "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}


@pytest.mark.parametrize(
    ("name", "vendor", "unit"),
    [
        ("nvidia.com/gpu", "NVIDIA", GpuUnit.DEVICE),
        ("nvidia.com/gpu.shared", "NVIDIA", GpuUnit.SHARE),
        ("nvidia.com/mig-1g.10gb", "NVIDIA", GpuUnit.PARTITION),
        ("nvidia.com/mig-1g.10gb.me", "NVIDIA", GpuUnit.PARTITION),
        ("nvidia.com/mig-1c.3g.20gb", "NVIDIA", GpuUnit.PARTITION),
        ("nvidia.com/mig-1g.5gb.shared", "NVIDIA", GpuUnit.SHARE),
        ("amd.com/gpu", "AMD", GpuUnit.DEVICE),
        ("amd.com/spx_nps1", "AMD", GpuUnit.DEVICE),
        ("amd.com/cpx_nps4", "AMD", GpuUnit.PARTITION),
        ("gpu.intel.com/i915", "Intel", GpuUnit.DEVICE),
        ("gpu.intel.com/xe", "Intel", GpuUnit.DEVICE),
    ],
)
def test_resources_of_gpus_are_known_by_name(name, vendor, unit):
    found = gpu_resource(name)
    assert (found.vendor, found.unit) == (vendor, unit)


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "memory",
        "nvidia.com/gpumem",
        "nvidia.com/GA102GL_A10",
        "nvidia.com/mig-0g.5gb",
        "nvidia.com/mig-",
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/xe_monitoring",
        "gpu.intel.com/memory.max",
        "gpu.intel.com/millicores",
        "gpu.intel.com/tiles",
        "amd.com/zpx_nps1",
    ],
)
def test_other_resources_are_no_gpus(name):
    assert gpu_resource(name) is None


@pytest.mark.parametrize(
    ("name", "labels", "share"),
    [
        ("nvidia.com/gpu", {}, 1),
        ("nvidia.com/gpu", {REPLICAS: "4"}, 1 / 4),
        ("nvidia.com/gpu", {REPLICAS: "0"}, 1),
        ("nvidia.com/gpu", {"cloud.google.com/gke-max-shared-clients-per-gpu": "5"}, 1 / 5),
        ("nvidia.com/gpu", {"cloud.google.com/gke-gpu-partition-size": "2g.10gb"}, 2 / 7),
        ("nvidia.com/gpu", SINGLE_MIG, 1 / 7),
        ("nvidia.com/gpu", {PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-3g.20gb-SHARED", REPLICAS: "2"}, 3 / 14),
        ("nvidia.com/gpu.shared", {REPLICAS: "10", PRODUCT: "Tesla-T4-SHARED"}, 1 / 10),
        ("nvidia.com/gpu.shared", {}, None),
        ("nvidia.com/gpu.shared", {REPLICAS: "many"}, None),
        ("nvidia.com/mig-3g.40gb", {}, 3 / 7),
        ("nvidia.com/mig-7g.80gb", {}, 1),
        ("nvidia.com/mig-1c.3g.20gb", {}, 1 / 7),
        ("nvidia.com/mig-1g.6gb", {PRODUCT: "NVIDIA-A30"}, 1 / 4),
        ("nvidia.com/mig-1g.5gb.shared", {"nvidia.com/mig-1g.5gb.replicas": "2"}, 1 / 14),
        ("amd.com/gpu", {}, 1),
        ("amd.com/gpu", {"amd.com/compute-memory-partition": "cpx_nps4"}, 1 / 8),
        ("amd.com/dpx_nps1", {}, 1 / 2),
        ("gpu.intel.com/xe", {}, 1),
    ],
)
def test_a_unit_is_that_much_of_a_gpu(name, labels, share):
    assert gpus_per_unit(gpu_resource(name), labels) == (share if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("quantities", "labels", "gpus"),
    [
        ({"nvidia.com/gpu": 8}, {}, {"NVIDIA": 8}),
        ({"nvidia.com/gpu": 0, "cpu": 64}, {}, {}),
        ({"nvidia.com/gpu": 32}, {REPLICAS: "4"}, {"NVIDIA": 8}),
        ({"nvidia.com/gpu.shared": 32}, {REPLICAS: "4"}, {"NVIDIA": 8}),
        ({"nvidia.com/gpu.shared": 32}, {}, {"NVIDIA": 1}),
        ({"nvidia.com/gpu": 56}, SINGLE_MIG, {"NVIDIA": 8}),
        ({"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": 28}, {}, {"NVIDIA": 8}),
        ({"nvidia.com/mig-3g.40gb": 16}, {}, {"NVIDIA": 8}),
        ({"nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-2g.20gb": 8, "nvidia.com/mig-3g.40gb": 8}, {}, {"NVIDIA": 8}),
        ({"nvidia.com/mig-1g.10gb": 1}, {}, {"NVIDIA": 1}),
        ({"amd.com/spx_nps1": 5, "amd.com/cpx_nps1": 24}, {}, {"AMD": 8}),
        ({"amd.com/gpu": 64}, {"amd.com/gpu.compute-memory-partition": "CPX_NPS4"}, {"AMD": 8}),
        ({"gpu.intel.com/i915": 2, "gpu.intel.com/i915_monitoring": 1, "gpu.intel.com/tiles": 4}, {}, {"Intel": 2}),
        ({"nvidia.com/gpu": 1, "gpu.intel.com/i915": 1}, {}, {"NVIDIA": 1, "Intel": 1}),
    ],
)
def test_offers_stand_for_physical_gpus(quantities, labels, gpus):
    assert physical_gpus(quantities, labels) == gpus


def test_partitions_named_like_gpus_are_recognised_by_labels():
    assert is_partitioned(SINGLE_MIG)
    assert not is_partitioned({PRODUCT: "NVIDIA-H100-80GB-HBM3", "nvidia.com/mig.strategy": "single"})


@given(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-2g.20gb", "nvidia.com/gpu.shared", "amd.com/cpx_nps1"]),
    st.integers(1, 1000),
    st.integers(1, 50),
)
def test_the_units_of_a_node_are_never_more_than_its_gpus(name, quantity, replicas):
    labels = {REPLICAS: str(replicas)}
    resource = gpu_resource(name)
    [count] = physical_gpus({name: quantity}, labels).values()
    assert quantity * gpus_per_unit(resource, labels) <= count + 1e-9
