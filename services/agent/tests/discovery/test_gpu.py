"""What the drivers say of GPUs and what the inventory knows of them, as NodeHardware has them."""

from dataclasses import replace

from joulie_actuator.hardware.gpu.driver import GpuDeviceInfo, Vendor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.pci import PciGpus
from joulie_actuator.reasons import Reason
from joulie_agent.discovery.gpu import describe_gpus, device_ranges, gpus_without_limit
from joulie_core.control.caps_resolve import GpuDeviceRange, WattRange
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import GpuCapRange, GpuDevice, GpuHardware, GpuSlicing

INVENTORY = Inventory.load()
H100 = GpuDeviceInfo(
    uuid="GPU-a",
    index=0,
    vendor=Vendor.NVIDIA,
    model="NVIDIA H100 80GB HBM3",
    min_mw=200_000,
    max_mw=700_000,
    default_mw=700_000,
    current_mw=500_000,
    enforced_mw=500_000,
    partitioned=False,
    partition_modes=("1g.10gb", "7g.80gb"),
)
L40S = replace(
    H100,
    uuid="GPU-b",
    index=1,
    model="NVIDIA L40S",
    min_mw=100_000,
    max_mw=350_000,
    default_mw=350_000,
    current_mw=350_000,
    partitioned=None,
    partition_modes=(),
)
MI300X = GpuDeviceInfo(
    "e1ff-a", 0, Vendor.AMD, model="AMD Instinct MI300X OAM", min_mw=0, max_mw=750_000, default_mw=750_000
)
LOST = HardwareFailure(Reason.DEVICE_LOST, "GPU 1: NVML: GPU is lost")


def describe(*devices, on_bus=None):
    return describe_gpus(devices, INVENTORY, on_bus=on_bus, control_available=True, telemetry_available=True)


def test_gpus_of_one_model():
    gpus = describe(H100, replace(H100, uuid="GPU-c", index=1))
    assert (gpus.present, gpus.raw_model, gpus.vendor, gpus.count) == (True, "NVIDIA H100 80GB HBM3", "NVIDIA", 2)
    assert gpus.model == INVENTORY.find_gpu(H100.model).model
    assert gpus.cap_range_per_gpu == GpuCapRange(min_watts=200, max_watts=700, default_watts=700)
    assert gpus.current_cap_watts == 500
    assert gpus.slicing == GpuSlicing(supported=True, modes=("1g.10gb", "7g.80gb"))
    assert gpus.devices[1] == GpuDevice(uuid="GPU-c", index=1, model=gpus.model, min=200, max=700, default=700)
    assert (gpus.control_available, gpus.telemetry_available, gpus.warnings) == (True, True, ())


def test_an_amd_gpu_is_found_in_the_inventory_and_has_a_range_above_zero():
    gpus = describe(MI300X)
    assert (gpus.vendor, gpus.cap_range_per_gpu.min_watts, gpus.slicing.supported) == ("AMD", 187.5, False)
    assert "MI300X" in gpus.model


def test_a_gpu_that_does_not_answer_is_warned_of_and_not_counted():
    gpus = describe(H100, replace(H100, uuid="GPU-c", index=1, failure=LOST))
    assert (gpus.count, len(gpus.devices), gpus.warnings) == (1, 1, (LOST.message,))


def test_a_gpu_that_does_not_answer_is_present_with_a_warning():
    gpus = describe(GpuDeviceInfo("", 0, Vendor.NVIDIA, failure=LOST))
    assert (gpus.present, gpus.vendor, gpus.count, gpus.warnings) == (True, "NVIDIA", 0, (LOST.message,))


def test_without_a_library_and_a_bus_the_presence_of_gpus_is_unknown():
    assert describe() == GpuHardware(control_available=True, telemetry_available=True)
    assert describe().present is None


def test_a_bus_without_gpus_counts_none():
    gpus = describe(on_bus=PciGpus({}))
    assert (gpus.present, gpus.warnings) == (False, ())


def test_a_bus_with_undecided_devices_leaves_the_presence_of_gpus_unknown():
    assert describe(on_bus=PciGpus({}, undecided=True)).present is None


def test_gpus_on_the_bus_that_no_library_answers_for_are_there_and_warned_of():
    gpus = describe(on_bus=PciGpus({"Intel": 1, "NVIDIA": 8}))
    assert (gpus.present, gpus.vendor, gpus.count, gpus.raw_model) == (True, "NVIDIA", 8, "")
    assert gpus.warnings == (
        "1 Intel GPU on the PCI bus, and no library that answers for it",
        "8 NVIDIA GPUs on the PCI bus, and no library that answers for them",
    )


def test_gpus_on_the_bus_that_do_not_answer_are_warned_of_beside_those_that_do():
    gpus = describe(H100, on_bus=PciGpus({"NVIDIA": 2}))
    assert (gpus.count, gpus.warnings) == (1, ("2 NVIDIA GPUs on the PCI bus, and 1 answers",))
    assert describe(H100, on_bus=PciGpus({"NVIDIA": 1})).warnings == ()


def test_of_several_models_the_most_common_gives_the_nodes_figures_and_each_device_keeps_its_own():
    gpus = describe(H100, L40S, replace(L40S, uuid="GPU-c", index=2))
    assert (gpus.raw_model, gpus.count, gpus.cap_range_per_gpu.max_watts) == ("NVIDIA L40S", 3, 350)
    assert [device.max for device in gpus.devices] == [700, 350, 350]
    assert gpus.warnings == ("GPUs of several models: NVIDIA H100 80GB HBM3, NVIDIA L40S",)


def test_where_the_driver_offers_no_limit_the_range_is_the_models_and_no_device_can_be_capped():
    silent = replace(H100, min_mw=None, max_mw=None)
    gpus = describe(silent)
    assert gpus.cap_range_per_gpu.max_watts == INVENTORY.find_gpu(H100.model).spec.max_watts
    assert gpus.warnings == ("GPU 0: the driver offers no power limit",)
    assert device_ranges([silent]) == ()


def test_an_unknown_model_without_a_limit_has_no_range():
    unknown = replace(H100, model="NVIDIA Graphics Device", min_mw=None, max_mw=None)
    assert describe(unknown).cap_range_per_gpu is None


def test_a_partitioned_gpu_is_warned_of():
    gpus = describe(replace(H100, partitioned=True))
    assert gpus.warnings == ("GPU 0: partitioned, and its power limit is that of all partitions together",)


def test_what_a_cap_moves_is_current_cap_watts_alone():
    before, after = describe(H100), describe(replace(H100, current_mw=300_000, enforced_mw=300_000))
    assert before.model_copy(update={"current_cap_watts": 300.0}) == after


def test_ranges_of_devices_are_in_watts():
    assert device_ranges([H100, replace(L40S, failure=LOST)]) == (GpuDeviceRange("GPU-a", WattRange(700, 200)),)


def test_gpus_without_a_limit_are_those_that_answer_without_one_or_not_at_all_and_those_of_the_bus():
    without = replace(L40S, min_mw=None, max_mw=None)
    silent = GpuDeviceInfo("", 2, Vendor.NVIDIA, failure=LOST)
    assert gpus_without_limit([H100, without, silent], None) == ("GPU GPU-b", "GPU 2")
    on_bus = PciGpus({"NVIDIA": 3, "AMD": 1})
    assert gpus_without_limit([H100, L40S], on_bus) == (
        "1 AMD GPU on the PCI bus, and no library that answers for it",
        "3 NVIDIA GPUs on the PCI bus, and 2 answer",
    )
    assert gpus_without_limit([H100, L40S], PciGpus({"NVIDIA": 2})) == ()
