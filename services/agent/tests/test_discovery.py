"""NodeHardware from what backends tell, labels and the inventory."""

import pytest

from joulie_agent.backends.base import HardwareFacts
from joulie_agent.discovery import Discoverer
from joulie_core.caps_resolve import WattRange
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_hardware import (
    Capabilities,
    CpuCapRange,
    CpuHardware,
    GpuCapRange,
    GpuHardware,
    Quality,
)
from joulie_core.labels import GPU_PRODUCT, HW_CPU_MODEL, HW_CPU_SOCKETS, HW_GPU_COUNT
from joulie_core.names import NodeName
from joulie_core.node import Node

CAN = Capabilities(cpu_control=True, gpu_control=True, cpu_telemetry=True, gpu_telemetry=True)
LABELS = {HW_CPU_MODEL: "AMD EPYC 7763", HW_CPU_SOCKETS: "2", GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB", HW_GPU_COUNT: "4"}


@pytest.fixture
def discover():
    discoverer = Discoverer(Inventory.load())

    def ask(labels=None, facts=None, *, allocatable=None, can=CAN):
        node = Node(name=NodeName("n1"), labels=labels or {}, allocatable=allocatable or {"cpu": "64"})
        return discoverer.discover(node, facts or HardwareFacts(), can)

    return ask


def test_labels_are_looked_up_in_the_inventory(discover):
    hardware = discover(LABELS)
    assert hardware.status.cpu.vendor == "AMD"
    assert (hardware.packages, hardware.cpu_limits.max_watts) == (2, 280)
    assert (hardware.status.gpu.count, hardware.gpu_limits.max_watts) == (4, 400)
    assert hardware.status.quality.overall is Quality.EXACT


def test_what_the_backend_tells_comes_before_the_inventory(discover):
    facts = HardwareFacts(
        cpu=CpuHardware(sockets=1, cap_range=CpuCapRange(min_watts_per_socket=90, max_watts_per_socket=225)),
        gpu=GpuHardware(present=True, count=8, cap_range_per_gpu=GpuCapRange(min_watts=150, max_watts=300)),
    )
    hardware = discover(LABELS, facts)
    assert (hardware.packages, hardware.cpu_limits) == (1, WattRange(225, 90))
    assert (hardware.status.gpu.count, hardware.gpu_limits) == (8, WattRange(300, 150))


def test_a_cap_range_is_never_that_of_a_generic_model(discover):
    hardware = discover()
    assert hardware.cpu_limits == WattRange()
    assert hardware.status.cpu.total_cores > 0
    assert hardware.status.quality.overall is Quality.HEURISTIC
    assert HW_CPU_MODEL in hardware.status.quality.warnings[0]


def test_a_node_of_which_nothing_is_known_is_unavailable(discover):
    hardware = discover(allocatable={"memory": "1Gi"})
    assert (hardware.status.cpu, hardware.status.quality.overall) == (None, Quality.UNAVAILABLE)
    assert (hardware.packages, hardware.gpu_present) == (1, False)


def test_the_cap_in_force_is_no_property_of_the_hardware(discover):
    def told(cap_watts):
        return HardwareFacts(gpu=GpuHardware(present=True, count=1, current_cap_watts=cap_watts))

    assert discover(LABELS, told(400)).status == discover(LABELS, told(240)).status


def test_the_same_question_is_answered_once(discover):
    assert discover(LABELS) is discover(dict(LABELS))


def test_capabilities_are_published(discover):
    can = Capabilities(cpu_control=True)
    status = discover(LABELS, can=can).status
    assert status.capabilities == can
    assert (status.cpu.control_available, status.gpu.control_available) == (True, False)
