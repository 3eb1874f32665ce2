"""Caps of devices by the class of the pods that hold them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps import ClassCapSettings, DeviceHolder, DeviceLimits, holder_of, limits_of
from joulie_core.demand import WorkloadClass
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.node import Node

STANDARD, PERFORMANCE = WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE
GPUS = [
    view_from_node(Node("n", labels={"joulie.io/hw.gpu-model": spec.model, "joulie.io/hw.gpu-count": "8"}), each).gpu
    for each in (Inventory.load(),)
    for spec in each.gpus.values()
]


@pytest.mark.parametrize(
    ("classes", "holder"),
    [
        ([], "free"),
        ([STANDARD], "standard"),
        ([STANDARD, STANDARD], "standard"),
        ([STANDARD, PERFORMANCE], "performance"),
        ([STANDARD, None], "performance"),
        ([None], "performance"),
    ],
)
def test_a_device_is_a_standard_pods_only_where_nothing_else_holds_it(classes, holder):
    assert holder_of(classes) is DeviceHolder(holder)


@pytest.mark.parametrize("holder", [DeviceHolder.FREE, DeviceHolder.PERFORMANCE])
@given(st.sampled_from(GPUS), st.floats(1, 100), st.floats(50, 100))
def test_no_other_device_is_limited(holder, gpu, gpu_pct, cpu_pct):
    settings = ClassCapSettings(gpu_pct_of_natural=gpu_pct, cpu_frequency_pct=cpu_pct)
    assert limits_of(holder, gpu, settings) == DeviceLimits()


@given(st.sampled_from(GPUS), st.floats(1, 100))
def test_a_gpu_is_capped_between_its_knee_and_its_limit(gpu, pct):
    cap_watts = limits_of(DeviceHolder.STANDARD, gpu, ClassCapSettings(gpu_pct_of_natural=pct)).gpu_cap_watts
    assert gpu.min_watts <= cap_watts <= gpu.max_watts
    assert cap_watts >= min(gpu.spec.knee_watts, gpu.max_watts)


@pytest.mark.parametrize(
    ("name", "share"),
    [
        # Swept: the cap that was asked for.
        ("NVIDIA V100 PCIe", 0.6),
        ("NVIDIA Quadro RTX 6000", 0.6),
        # Not swept, and a relative of a model that was.
        ("NVIDIA H100 SXM", 0.75),
        ("NVIDIA A100 PCIe 80GB", 0.75),
        ("AMD Instinct MI300X", 0.75),
        ("Tesla P100", 0.75),
        # Of the vendor alone.
        ("NVIDIA Some New Board", 0.75),
    ],
)
def test_a_model_whose_knee_was_not_measured_is_not_capped_below_three_quarters_of_its_natural_power(name, share):
    labels = {"joulie.io/hw.gpu-model": name, "joulie.io/hw.gpu-count": "8"}
    gpu = view_from_node(Node("n", labels=labels), Inventory.load()).gpu
    limits = limits_of(DeviceHolder.STANDARD, gpu, ClassCapSettings(gpu_pct_of_natural=60))
    assert limits.gpu_cap_watts == pytest.approx(share * gpu.spec.natural_watts)


def test_the_cap_is_a_share_of_the_models_natural_power():
    gpu = next(each for each in GPUS if "H100" in each.model)
    limits = limits_of(DeviceHolder.STANDARD, gpu, ClassCapSettings(gpu_pct_of_natural=75, cpu_frequency_pct=80))
    assert limits == DeviceLimits(gpu_cap_watts=0.75 * gpu.spec.natural_watts, cpu_frequency_share=0.8)
    assert limits_of(DeviceHolder.STANDARD, None, ClassCapSettings(cpu_frequency_pct=100)) == DeviceLimits()
