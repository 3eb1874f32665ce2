"""Intent to watts: docs/decisions/0013-conventions.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.control.caps_resolve import (
    GpuDeviceCap,
    GpuDeviceRange,
    PctCap,
    WattCap,
    WattRange,
    resolve_cpu_cap,
    resolve_gpu_cap,
    resolve_gpu_caps,
)
from joulie_core.kinds.node_power_profile import CpuTarget, GpuPowerCap

EPYC = WattRange(max_watts=400, min_watts=120)
UNKNOWN = WattRange()


def test_an_absent_stanza_means_leave_alone():
    assert resolve_cpu_cap(None, EPYC) is None
    assert resolve_gpu_cap(None, EPYC) is None
    assert resolve_gpu_caps(None, [GpuDeviceRange("GPU-1", EPYC)]) == ()


def test_an_empty_stanza_means_leave_alone():
    assert resolve_cpu_cap(CpuTarget(), EPYC) is None
    assert resolve_gpu_cap(GpuPowerCap(), EPYC) is None


def test_watts_win_over_the_percentage():
    target = CpuTarget(package_power_cap_watts=200, package_power_cap_pct_of_max=60)
    assert resolve_cpu_cap(target, EPYC) == WattCap(200, 200)
    assert resolve_gpu_cap(GpuPowerCap(cap_watts_per_gpu=200, cap_pct_of_max=60), EPYC) == WattCap(200, 200)


def test_a_percentage_is_of_the_maximum_of_one_package():
    assert resolve_cpu_cap(CpuTarget(package_power_cap_pct_of_max=60), EPYC) == WattCap(240, 240)


def test_a_percentage_without_a_range_stays_a_percentage():
    assert resolve_cpu_cap(CpuTarget(package_power_cap_pct_of_max=60), UNKNOWN) == PctCap(60)
    assert resolve_gpu_cap(GpuPowerCap(cap_pct_of_max=60), WattRange(max_watts=0)) == PctCap(60)


def test_watts_without_a_range_are_requested_unchanged():
    assert resolve_cpu_cap(CpuTarget(package_power_cap_watts=5000), UNKNOWN) == WattCap(5000, 5000)


def test_watts_above_the_range_are_clamped_with_a_message():
    cap = resolve_cpu_cap(CpuTarget(package_power_cap_watts=5000), EPYC)
    assert cap == WattCap(5000, 400, "5000 W clamped to the maximum of 400 W")


def test_a_percentage_below_the_minimum_is_clamped_with_a_message():
    cap = resolve_gpu_cap(GpuPowerCap(cap_pct_of_max=10), WattRange(max_watts=700, min_watts=200))
    assert cap == WattCap(70, 200, "70 W clamped to the minimum of 200 W")


def test_each_gpu_is_clamped_to_its_own_range():
    devices = [GpuDeviceRange("GPU-a", WattRange(400, 100)), GpuDeviceRange("GPU-b", WattRange(70, 60))]
    assert resolve_gpu_caps(GpuPowerCap(cap_pct_of_max=60), devices) == (
        GpuDeviceCap("GPU-a", WattCap(240, 240)),
        GpuDeviceCap("GPU-b", WattCap(42, 60, "42 W clamped to the minimum of 60 W")),
    )


@given(st.floats(0.1, 1e4), st.floats(1, 1000), st.floats(0, 1))
def test_a_requested_cap_lies_in_the_range(watts, max_watts, share):
    limits = WattRange(max_watts=max_watts, min_watts=share * max_watts)
    cap = resolve_gpu_cap(GpuPowerCap(cap_watts_per_gpu=watts), limits)
    assert limits.min_watts <= cap.cap_watts <= limits.max_watts
    assert bool(cap.message) == (cap.cap_watts != watts)


@pytest.mark.parametrize("pct", [0.5, 33.3, 100])
def test_a_percentage_within_the_range_is_exact(pct):
    assert resolve_cpu_cap(CpuTarget(package_power_cap_pct_of_max=pct), WattRange(300)).cap_watts == pct / 100 * 300
