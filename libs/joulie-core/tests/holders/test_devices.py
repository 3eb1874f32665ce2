import pytest

from joulie_core.holders.devices import GpuIndex, OfGpu, OfSomeGpu
from joulie_core.holders.records import ClaimedDevice, NodeGpu, PluginDevice, SliceDevice

UUID = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
MIG = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
WHOLE = NodeGpu(UUID, "NVIDIA", 0, "00000000:C1:00.0", minor=3, partitioned=None)
CUT = NodeGpu("GPU-00000000-0000-0000-0000-000000000001", "NVIDIA", 1, "0000:c2:00.0", minor=0, partitions=(MIG,))
AMD = NodeGpu("a1ff74a1-0000-1000-80da-1b7d2c3f6fd0", "AMD", 0, "0000:05:00.0", partitioned=False)
AMD_CUT = NodeGpu(
    "a2ff74a1-0000-1000-80da-1b7d2c3f6fd0", "AMD", 1, "0000:06:00.0", partitions=("amdgpu_xcp_1",), partitioned=True
)
GPUS = (WHOLE, CUT, AMD, AMD_CUT)


def of_plugin(resource, device_id):
    return GpuIndex(GPUS).of_plugin(PluginDevice(resource, device_id))


@pytest.mark.parametrize(
    ("resource", "device_id", "expected"),
    [
        ("nvidia.com/gpu", UUID, OfGpu(UUID, exclusive=True)),
        ("nvidia.com/gpu", UUID.upper(), OfGpu(UUID, exclusive=True)),
        ("nvidia.com/gpu", f"{UUID}::0", OfGpu(UUID)),
        ("nvidia.com/gpu", f"{UUID}::7", OfGpu(UUID)),
        ("nvidia.com/gpu.shared", f"{UUID}::1", OfGpu(UUID)),
        ("nvidia.com/gpu.shared", UUID, OfGpu(UUID)),
        ("nvidia.com/gpu", MIG, OfGpu(CUT.uuid)),
        ("nvidia.com/mig-1g.5gb", MIG, OfGpu(CUT.uuid)),
        ("nvidia.com/mig-1g.5gb.shared", f"{MIG}::2", OfGpu(CUT.uuid)),
        ("nvidia.com/gpu", f"MIG-{UUID}/7/0", OfGpu(UUID)),
        ("nvidia.com/gpu", "nvidia3", OfGpu(UUID, exclusive=True)),
        ("nvidia.com/gpu", "nvidia3/vgpu1", OfGpu(UUID)),
        ("nvidia.com/gpu", "nvidia0/gi3", OfGpu(CUT.uuid)),
        ("nvidia.com/gpu", "nvidia0/gi3/vgpu1", OfGpu(CUT.uuid)),
        ("amd.com/gpu", "0000:05:00.0", OfGpu(AMD.uuid, exclusive=True)),
        ("amd.com/gpu", "0000:06:00.0", OfGpu(AMD_CUT.uuid)),
        ("amd.com/cpx_nps4", "0000:06:00.0", OfGpu(AMD_CUT.uuid)),
        ("amd.com/cpx_nps4", "amdgpu_xcp_1", OfGpu(AMD_CUT.uuid)),
        ("amd.com/gpu", "0000:05:00.0-slice-2", OfGpu(AMD.uuid)),
        ("amd.com/cpx_nps4", "amdgpu_xcp_1-slice-0", OfGpu(AMD_CUT.uuid)),
        ("example.com/rented-gpu", UUID, OfGpu(UUID)),
    ],
)
def test_ids_of_device_plugins_lead_to_the_physical_gpu(resource, device_id, expected):
    assert of_plugin(resource, device_id) == expected


@pytest.mark.parametrize(
    ("resource", "device_id", "vendor"),
    [
        ("nvidia.com/gpu", "GPU-ffffffff-0000-0000-0000-000000000000", "NVIDIA"),
        ("nvidia.com/gpu", "MIG-ffffffff-0000-0000-0000-000000000000::1", "NVIDIA"),
        ("nvidia.com/gpu", "nvidia9", "NVIDIA"),
        ("nvidia.com/gpu", "", "NVIDIA"),
        ("nvidia.com/gpu", "10000:c1:00.0", "NVIDIA"),
        ("amd.com/cpx_nps4", "amdgpu_xcp_9", "AMD"),
        ("amd.com/cpx_nps4", "amdgpu_xcp_1-slice-x", "AMD"),
        ("example.com/rented-gpu", "GPU-ffffffff-0000-0000-0000-000000000000", ""),
    ],
)
def test_a_gpu_that_is_not_on_the_node_is_some_gpu_of_its_vendor(resource, device_id, vendor):
    assert of_plugin(resource, device_id) == OfSomeGpu(vendor)


@pytest.mark.parametrize(
    ("resource", "device_id"),
    [("nvidia.com/hostdev", "0000:03:00.2"), ("rdma/hca_shared", "12"), ("smarter-devices/fuse", "fuse::1")],
)
def test_other_devices_of_the_same_vendors_are_no_gpus(resource, device_id):
    assert of_plugin(resource, device_id) is None


def test_partitions_of_amd_have_no_minor_number_of_nvidia():
    index = GpuIndex([NodeGpu("a", "AMD", minor=3)])

    assert index.of_plugin(PluginDevice("nvidia.com/gpu", "nvidia3")) == OfSomeGpu("NVIDIA")


NVIDIA_DRIVER, AMD_DRIVER = "gpu.nvidia.com", "gpu.amd.com"


def of_claim(driver, attributes, *, gpus=GPUS, generation=1, more=()):
    found = SliceDevice(driver, "node-1", generation, "the-device", attributes)
    return GpuIndex(gpus, [found, *more]).of_claim(ClaimedDevice(driver, "node-1", "the-device"))


@pytest.mark.parametrize(
    ("driver", "attributes", "uuid"),
    [
        (NVIDIA_DRIVER, {"type": "gpu", "uuid": UUID}, UUID),
        (NVIDIA_DRIVER, {"type": "mig", "uuid": MIG, "parentUUID": CUT.uuid}, CUT.uuid),
        (NVIDIA_DRIVER, {"type": "mig", "uuid": MIG}, CUT.uuid),
        (NVIDIA_DRIVER, {"type": "vfio", "pciBusID": "0000:c1:00.0"}, UUID),
        (AMD_DRIVER, {"type": "amdgpu", "pciAddr": "0000:05:00.0"}, AMD.uuid),
        (AMD_DRIVER, {"type": "amdgpu-partition", "parentPciAddr": "0000:06:00.0", "pciAddr": ""}, AMD_CUT.uuid),
        ("gpus.example.com", {"uuid": UUID}, UUID),
    ],
)
def test_devices_of_claims_lead_to_the_physical_gpu_by_their_attributes(driver, attributes, uuid):
    assert of_claim(driver, attributes) == OfGpu(uuid)


def test_a_mig_device_that_is_made_on_demand_is_found_by_its_parent_alone():
    attributes = {"type": "mig", "parentUUID": UUID, "profile": "1g.10gb"}

    assert of_claim(NVIDIA_DRIVER, attributes) == OfGpu(UUID)


def test_the_parent_counts_before_the_uuid_of_the_partition_itself():
    assert of_claim(NVIDIA_DRIVER, {"uuid": UUID, "parentUUID": CUT.uuid}) == OfGpu(CUT.uuid)


def test_a_device_without_a_slice_is_some_gpu_of_the_drivers_vendor():
    index = GpuIndex(GPUS)

    assert index.of_claim(ClaimedDevice(NVIDIA_DRIVER, "node-1", "gpu-0")) == OfSomeGpu("NVIDIA")
    assert index.of_claim(ClaimedDevice(AMD_DRIVER, "node-1", "gpu-0-128")) == OfSomeGpu("AMD")
    assert index.of_claim(ClaimedDevice("compute-domain.nvidia.com", "node-1", "channel-0")) is None


def test_slices_of_an_earlier_generation_do_not_count():
    old = SliceDevice(NVIDIA_DRIVER, "node-1", 1, "the-device", {"uuid": CUT.uuid})

    assert of_claim(NVIDIA_DRIVER, {"uuid": UUID}, generation=2, more=[old]) == OfGpu(UUID)


def test_a_device_that_the_newest_generation_lacks_is_not_found():
    newer = SliceDevice(NVIDIA_DRIVER, "node-1", 2, "another", {"uuid": UUID})

    assert of_claim(NVIDIA_DRIVER, {"uuid": UUID}, more=[newer]) == OfSomeGpu("NVIDIA")


def test_devices_of_one_name_in_other_pools_and_drivers_are_others():
    other_pool = SliceDevice(NVIDIA_DRIVER, "node-2", 9, "the-device", {"uuid": CUT.uuid})
    other_driver = SliceDevice(AMD_DRIVER, "node-1", 9, "the-device", {"pciAddr": AMD.pci_address})

    assert of_claim(NVIDIA_DRIVER, {"uuid": UUID}, more=[other_pool, other_driver]) == OfGpu(UUID)


@pytest.mark.parametrize("text", ["", "c1:00.0:", "::", "zz:00.0", "0000:c1:00.0" * 500])
def test_attributes_that_are_no_address_lead_nowhere(text):
    assert of_claim(AMD_DRIVER, {"pciAddr": text}, gpus=[NodeGpu("x", "AMD")]) == OfSomeGpu("AMD")
