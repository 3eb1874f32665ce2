import pytest

from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_sim.hardware import hardware_of
from joulie_testing.api.builders import make_node


def parts(**fields):
    import msgspec

    return hardware_of(decode_node(msgspec.json.encode(make_node("n1", **fields))), Inventory.load())


def test_labels_name_the_parts_and_allocatable_counts_the_cores():
    hardware = parts(cpu=128, cpu_model="AMD-EPYC-7763", cpu_sockets=1, gpus=8, gpu_model="NVIDIA-A100-SXM4-80GB")
    assert (hardware.cpu.model, hardware.cpu.sockets, hardware.cpu.cores) == ("AMD EPYC 7763", 1, 128.0)
    assert hardware.cpu.physical_cores == 64
    assert (hardware.gpu.model, hardware.gpu.count) == ("NVIDIA A100 SXM4 80GB", 8)
    assert hardware.memory_bytes == 128 * 1024**3


def test_an_idle_and_a_busy_package_draw_the_watts_of_the_inventory():
    cpu = parts(cpu=128, cpu_model="AMD-EPYC-7763", cpu_sockets=1).cpu
    assert cpu.curve.watts(1.0, cpu.max_watts) == pytest.approx(280.0)
    assert 0.0 < cpu.curve.watts(0.0, cpu.max_watts) < 100.0


def test_an_unknown_model_is_a_generic_one():
    assert parts(cpu=64, cpu_model="AMD-Something").cpu.vendor == "AMD"


def test_a_node_without_hardware_labels_has_no_parts():
    hardware = hardware_of(Node(name=NodeName("n1")), Inventory.load())
    assert (hardware.cpu, hardware.gpu) == (None, None)
