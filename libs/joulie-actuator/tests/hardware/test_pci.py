"""GPUs on the PCI bus, seen without any vendor's library."""

import pytest

from joulie_actuator.hardware.pci import PciGpus, read_pci_gpus
from joulie_actuator.hardware.sysfs import SysfsTree

BRIDGE = ("0x8086", "0x060000")
H100, MI300X, FLEX = ("0x10de", "0x030200"), ("0x1002", "0x120000"), ("0x8086", "0x038000")


@pytest.fixture
def bus(tmp_path):
    """A bus with these functions; real sysfs has symbolic links here, which read the same."""

    def build(*functions):
        for number, function in enumerate(functions):
            directory = tmp_path / "bus/pci/devices" / f"0000:{number:02x}:00.0"
            directory.mkdir(parents=True)
            for name, value in zip(("vendor", "class"), function, strict=False):
                (directory / name).write_text(f"{value}\n", encoding="ascii")
        return read_pci_gpus(SysfsTree(tmp_path))

    return build


def test_gpus_are_counted_by_vendor(bus):
    assert bus(BRIDGE, H100, H100, MI300X, FLEX) == PciGpus({"NVIDIA": 2, "AMD": 1, "Intel": 1})


def test_a_bus_without_gpus_counts_none(bus):
    assert bus(BRIDGE, ("0x1a03", "0x030000"), ("0x10de", "0x068000"), ("0x10de", "0x040300")) == PciGpus({})


@pytest.mark.parametrize("function", [("0x8086", "0x030000"), ("0x1002", "0x030000")])
def test_graphics_that_may_be_built_into_the_processor_leave_it_open_whether_there_is_a_gpu(bus, function):
    assert bus(BRIDGE, function) == PciGpus({}, undecided=True)


def test_a_graphics_card_of_nvidia_is_a_gpu(bus):
    assert bus(BRIDGE, ("0x10de", "0x030000")) == PciGpus({"NVIDIA": 1})


@pytest.mark.parametrize("function", [("0x10de",), ("what", "0x030200"), ("0x10de", "")])
def test_a_function_that_cannot_be_read_leaves_it_open(bus, function):
    assert bus(BRIDGE, function) == PciGpus({}, undecided=True)


def test_virtual_functions_are_not_counted_beside_the_gpu_they_are_of(bus, tmp_path):
    first = tmp_path / "bus/pci/devices/0000:01:00.0"
    bus(BRIDGE, H100, H100)
    (first / "physfn").symlink_to("../0000:02:00.0")
    assert read_pci_gpus(SysfsTree(tmp_path)) == PciGpus({"NVIDIA": 1})


def test_a_machine_without_a_bus_has_no_count(tmp_path):
    assert read_pci_gpus(SysfsTree(tmp_path)) is None
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    assert read_pci_gpus(SysfsTree(tmp_path)) is None
