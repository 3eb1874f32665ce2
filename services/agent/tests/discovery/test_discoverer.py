"""NodeHardware from what backends tell, labels and the inventory."""

import pytest

from joulie_agent.discovery.discoverer import Discoverer
from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.control.caps_resolve import WattRange
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view
from joulie_core.kinds.node_hardware import (
    Capabilities,
    CpuCapRange,
    CpuHardware,
    FactOrigins,
    GpuCapRange,
    GpuHardware,
    Origin,
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


def test_facts_of_the_backend_come_before_the_inventory(discover):
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


@pytest.mark.parametrize("told", [None, GpuHardware(), GpuHardware(warnings=("no NVIDIA driver",))])
def test_gpus_that_the_backend_could_not_see_are_filled_from_labels_and_called_labelled(discover, told):
    facts = HardwareFacts(cpu=CpuHardware(raw_model="AMD EPYC 7763", sockets=1, total_cores=64), gpu=told)
    status = discover(LABELS, facts).status
    assert (status.gpu.present, status.gpu.count) == (True, 4)
    assert status.quality.facts == FactOrigins(cpu=Origin.SEEN, gpu=Origin.LABELLED)
    assert status.quality.overall is Quality.EXACT


def test_a_node_whose_gpus_are_unknown_is_not_published_as_without_gpus(discover):
    facts = HardwareFacts(gpu=GpuHardware(warnings=("no NVIDIA driver",)))
    status = discover({HW_CPU_MODEL: "AMD EPYC 7763"}, facts).status
    assert (status.gpu.present, status.gpu.warnings) == (None, ("no NVIDIA driver",))
    assert "present" not in status.gpu.dump()
    assert status.quality.facts.gpu is None
    assert discover({HW_CPU_MODEL: "AMD EPYC 7763"}).status.gpu is None


def test_a_machine_that_was_searched_for_gpus_is_published_as_without_gpus(discover):
    status = discover({HW_CPU_MODEL: "AMD EPYC 7763"}, HardwareFacts(gpu=GpuHardware(present=False))).status
    assert (status.gpu.present, status.quality.facts.gpu) == (False, Origin.SEEN)


def test_gpus_that_are_offered_and_not_seen_are_published_with_a_warning_and_no_exact_quality(discover):
    facts = HardwareFacts(gpu=GpuHardware(present=False))
    status = discover(LABELS, facts, allocatable={"cpu": "64", "nvidia.com/gpu": "4"}).status
    assert (status.gpu.present, status.gpu.count, status.quality.overall) == (True, 4, Quality.HEURISTIC)
    [said] = status.quality.warnings
    assert "offers 4" in said


def test_what_is_published_gives_the_operator_the_same_view_with_the_same_origins(discover):
    node = Node(name=NodeName("n1"), labels=LABELS, allocatable={"cpu": "64", "nvidia.com/gpu": "4"})
    facts = HardwareFacts(cpu=CpuHardware(raw_model="AMD EPYC 7763", sockets=1, total_cores=64), gpu=GpuHardware())
    published = discover(LABELS, facts, allocatable=dict(node.allocatable)).status
    view = resolve_view(node, published, Inventory.load())
    assert (view.origins.cpu, view.origins.gpu, view.gpu.count) == (Origin.SEEN, Origin.LABELLED, 4)


def test_gpus_that_a_backend_counts_without_saying_present_are_published_as_present(discover):
    status = discover({HW_CPU_MODEL: "AMD EPYC 7763"}, HardwareFacts(gpu=GpuHardware(count=8))).status
    assert (status.gpu.present, status.gpu.count, status.quality.facts.gpu) == (True, 8, Origin.INFERRED)
