"""Watts by GPU model: the names by which an entry is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.caps import CapSettings, intent_for
from joulie_core.gpu_model_caps import unknown_models
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_hardware import NodeHardwareStatus
from joulie_core.node import Node

INVENTORY = Inventory.load()
PRODUCT = "nvidia.com/gpu.product"
CAPS = {"performanceWatts": 650, "ecoWatts": 400}


def eco_watts(configured, *, product="", raw_model=""):
    """The eco cap of a node whose label and driver call the model so."""
    status = NodeHardwareStatus.model_validate(
        {"gpu": {"present": True, "rawModel": raw_model, "count": 8}} if raw_model else {}
    )
    labels = {PRODUCT: product, "nvidia.com/gpu.count": "8"} if product else {}
    hardware = resolve_view(Node("n1", labels=labels, allocatable={"nvidia.com/gpu": "8"}), status, INVENTORY)
    settings = CapSettings(gpu_write_absolute_caps=True, gpu_model_caps_json=configured)
    return intent_for(Profile.ECO, draining=False, hardware=hardware, settings=settings).gpu_watts


@pytest.mark.parametrize(
    ("key", "product", "raw_model"),
    [
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3", ""),
        ("NVIDIA-H100-80GB-HBM3", "", "NVIDIA H100 80GB HBM3"),
        ("nvidia h100 80gb hbm3", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", ""),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3-SHARED", ""),
        ("H100", "NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3"),
        ("nvidia-h100-sxm", "NVIDIA-H100-80GB-HBM3", ""),
        ("NVIDIA H100 SXM", "", "NVIDIA H100 80GB HBM3"),
        ("Tesla-V100-SXM2-32GB", "Tesla-V100-SXM2-32GB", ""),
        ("V100M32", "Tesla-V100-SXM2-32GB", ""),
        ("NVIDIA GeForce RTX 4090", "", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090", ""),
    ],
)
def test_an_entry_is_found_by_every_name_of_the_model(key, product, raw_model):
    assert eco_watts({key: CAPS}, product=product, raw_model=raw_model) == 400


@pytest.mark.parametrize("key", ["H100", "NVIDIA-H100-NVL", "A100", "NVIDIA"])
def test_an_entry_of_another_model_is_left_alone(key):
    assert eco_watts({key: CAPS}, product="NVIDIA-H100-PCIe") is None


def test_the_very_name_wins_over_the_same_model_and_that_over_a_relative():
    entries = {
        "H100": {"performanceWatts": 650, "ecoWatts": 301},
        "NVIDIA H100 SXM5": {"performanceWatts": 650, "ecoWatts": 302},
        "NVIDIA-H100-80GB-HBM3": {"performanceWatts": 650, "ecoWatts": 303},
    }
    for expected in (303, 302, 301):
        assert eco_watts(entries, product="NVIDIA-H100-80GB-HBM3") == expected
        entries.popitem()


def test_a_name_that_the_inventory_does_not_know_is_reported_with_the_closest_known_ones():
    [unknown] = unknown_models(["NVIDIA-H100-80GB-HBM3", "MI3O0X", "T4"])
    assert unknown.name == "MI3O0X"
    assert unknown.known[0] == "AMD Instinct MI300X"
    assert len(unknown.known) == 5


@given(st.sampled_from(sorted(INVENTORY.gpus.values(), key=lambda spec: spec.key)), st.sampled_from(["upper", "lower"]))
def test_the_inventorys_own_names_are_known_and_found(spec, case):
    key = getattr(spec.model, case)()
    assert unknown_models([key]) == ()
    assert eco_watts({key: CAPS}, raw_model=spec.model) == 400
