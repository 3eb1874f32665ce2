"""The limit of one GPU by the pods that hold it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.gpu_limits import GpuClocks, GpuLimit, LimitReason, bounded_cap_watts, gpu_limit
from joulie_core.hardware.clock_sweeps import ClockSweeps
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import view_from_node
from joulie_core.node import Node

NONE, TENTH, QUARTER, HALF = AllowedSlowdown
ALLOWED = [TENTH, QUARTER, HALF]


def gpu_of(model):
    labels = {"joulie.io/hw.gpu-model": model, "joulie.io/hw.gpu-count": "8"}
    return view_from_node(Node("n", labels=labels), Inventory.load()).gpu


GPUS = [gpu_of(spec.model) for spec in Inventory.load().gpus.values()]
V100, A100, H100 = gpu_of("NVIDIA V100 PCIe"), gpu_of("NVIDIA A100 PCIe 80GB"), gpu_of("NVIDIA H100 SXM")
CLOCKS = GpuClocks(1980, 1980, tuple(range(210, 1981, 15)))


@st.composite
def clocks_of_gpus(draw):
    step = draw(st.sampled_from([1, 7, 15]))
    lowest, count = draw(st.integers(100, 500)), draw(st.integers(1, 200))
    supported = tuple(lowest + step * index for index in range(count))
    highest = supported[-1]
    return GpuClocks(highest, draw(st.integers(1, highest)), draw(st.sampled_from([supported, ()])))


@pytest.mark.parametrize(
    ("holders", "reason"),
    [
        ([], LimitReason.FREE),
        ([None], LimitReason.HOLDER_UNKNOWN),
        ([HALF, None], LimitReason.HOLDER_UNKNOWN),
        ([NONE], LimitReason.NO_SLOWDOWN_ALLOWED),
        ([HALF, NONE, QUARTER], LimitReason.NO_SLOWDOWN_ALLOWED),
    ],
)
@pytest.mark.parametrize("clocks", [CLOCKS, None])
def test_a_gpu_is_limited_only_where_every_pod_that_holds_it_allows_a_slowdown(holders, reason, clocks):
    assert gpu_limit(holders, H100, clocks) == GpuLimit(reason)


@pytest.mark.parametrize("clocks", [CLOCKS, None])
def test_no_gpu_is_limited_while_performance_pods_wait_for_its_model(clocks):
    assert gpu_limit([HALF], H100, clocks, waited_for=True) == GpuLimit(LimitReason.GPUS_IN_DEMAND)


@pytest.mark.parametrize(
    ("allowed", "clock_mhz"),
    # 1980 / 1.1 is 1800; 1980 / 1.25 is 1584; 1980 / 1.5 is 1320.
    [(TENTH, 1800), (QUARTER, 1590), (HALF, 1320)],
)
def test_the_clock_is_the_held_one_over_the_allowed_time_rounded_up(allowed, clock_mhz):
    assert gpu_limit([allowed], H100, CLOCKS) == GpuLimit(LimitReason.CLOCK_LIMITED, clock_mhz=clock_mhz)


def test_the_clock_is_a_share_of_the_one_that_is_held_and_not_of_the_highest():
    assert gpu_limit([QUARTER], H100, GpuClocks(1980, 1500)).clock_mhz == 1200
    assert gpu_limit([QUARTER], None, GpuClocks(1980, 1501)).clock_mhz == 1201


def test_the_pod_that_allows_least_decides():
    assert gpu_limit([HALF, TENTH], H100, CLOCKS) == gpu_limit([TENTH], H100, CLOCKS)


@given(clocks_of_gpus(), st.sampled_from(ALLOWED), st.sampled_from([None, *GPUS]))
def test_no_clock_limit_makes_work_longer_than_allowed_or_goes_below_a_floor(clocks, allowed, gpu):
    limit = gpu_limit([allowed], gpu, clocks)
    assert limit.cap_watts is None
    if limit.reason is LimitReason.NOTHING_TO_GAIN:
        assert limit.clock_mhz is None
        return
    assert limit.reason is LimitReason.CLOCK_LIMITED
    assert limit.clock_mhz < clocks.held_mhz
    assert clocks.held_mhz * 100 <= limit.clock_mhz * (100 + allowed.pct)
    assert limit.clock_mhz * 100 >= clocks.highest_mhz * 50
    assert not clocks.supported_mhz or limit.clock_mhz in clocks.supported_mhz
    lower = [mhz for mhz in clocks.supported_mhz or range(limit.clock_mhz) if mhz < limit.clock_mhz]
    too_low = max(clocks.held_mhz * 100 / (100 + allowed.pct), clocks.highest_mhz * 0.5)
    sweep = None if gpu is None else ClockSweeps.load().models.get(gpu.model)
    if sweep is not None:
        too_low = max(too_low, clocks.highest_mhz * sweep.lowest_useful_pct / 100)
    assert all(mhz < too_low for mhz in lower), "a lower clock would do as well"


@pytest.mark.parametrize(("gpu", "clock_mhz"), [(V100, 680), (A100, 710), (H100, 600), (None, 600)])
def test_no_clock_is_below_the_knee_of_a_model_that_was_swept(gpu, clock_mhz):
    # By the held clock alone it would be 600.
    assert gpu_limit([HALF], gpu, GpuClocks(1000, 900)).clock_mhz == clock_mhz


def test_a_relative_of_a_model_that_was_swept_has_no_knee():
    relative = gpu_of("Tesla V100-FHHL-16GB")
    assert relative.model != V100.model
    assert gpu_limit([HALF], relative, GpuClocks(1000, 900)).clock_mhz == 600


def test_a_gpu_that_holds_no_more_than_half_of_its_highest_clock_is_not_limited():
    assert gpu_limit([HALF], H100, GpuClocks(1000, 500)) == GpuLimit(LimitReason.NOTHING_TO_GAIN)
    assert gpu_limit([HALF], H100, GpuClocks(1000, 501)).clock_mhz == 500


def test_without_a_supported_clock_that_is_high_enough_there_is_no_limit():
    assert gpu_limit([TENTH], H100, GpuClocks(1000, 1000, (300, 800))) == GpuLimit(LimitReason.NOTHING_TO_GAIN)


def test_a_clock_that_was_not_measured_under_load_is_not_limited_and_neither_is_the_power():
    assert gpu_limit([HALF], H100, GpuClocks(1980, None)) == GpuLimit(LimitReason.HELD_CLOCK_UNKNOWN)


@pytest.mark.parametrize(
    ("gpu", "allowed", "share"),
    [
        # 0.38 + 0.62 * (1 / 1.1) ** (1 / 0.31), and so on.
        (V100, TENTH, 0.8359),
        (V100, QUARTER, 0.6819),
        (V100, HALF, 0.5477),
        (H100, TENTH, 0.8359),
        # Not swept: three quarters of its natural power at least.
        (H100, QUARTER, 0.75),
        (H100, HALF, 0.75),
    ],
)
def test_where_clocks_cannot_be_set_the_power_is_limited_by_the_slow_end_of_the_band(gpu, allowed, share):
    expected_watts = pytest.approx(share * gpu.spec.natural_watts, rel=1e-3)
    assert gpu_limit([allowed], gpu, None) == GpuLimit(LimitReason.POWER_LIMITED, cap_watts=expected_watts)


@given(st.sampled_from(GPUS), st.sampled_from(ALLOWED))
def test_by_the_law_no_power_limit_makes_work_longer_than_allowed(gpu, allowed):
    limit = gpu_limit([allowed], gpu, None)
    natural_watts = gpu.spec.natural_watts
    if limit.reason is LimitReason.NOTHING_TO_GAIN:
        assert gpu.min_watts >= natural_watts
        return
    speed = gpu.spec.curve.response.retention(limit.cap_watts, natural_watts, gpu.spec.idle_watts)
    assert speed * (100 + allowed.pct) >= 100
    assert gpu.lowest_cap_watts <= limit.cap_watts <= gpu.max_watts


def test_a_gpu_of_an_unknown_model_whose_clock_cannot_be_set_is_not_limited():
    assert gpu_limit([HALF], None, None) == GpuLimit(LimitReason.MODEL_UNKNOWN)


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
    gpu = gpu_of(name)
    assert bounded_cap_watts(gpu, 0.6) == pytest.approx(share * gpu.spec.natural_watts)


@given(st.sampled_from(GPUS), st.floats(0.01, 1))
def test_a_cap_is_between_the_knee_and_the_limit_of_the_gpu(gpu, share):
    cap_watts = bounded_cap_watts(gpu, share)
    assert gpu.min_watts <= cap_watts <= gpu.max_watts
    assert cap_watts >= min(gpu.spec.knee_watts, gpu.max_watts)
