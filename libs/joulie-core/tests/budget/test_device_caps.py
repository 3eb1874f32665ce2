"""Caps of devices by a limit of their node, and the lower of two caps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget.binding import LimitSource
from joulie_core.budget.device_caps import (
    DeviceCaps,
    GpuGroup,
    LimitedDevices,
    caps_of_levels,
    caps_of_limit,
    lower_caps,
    lower_cpu_cap,
    lower_gpu_caps,
    lower_of,
    lowest_mw,
    sum_mw,
)
from joulie_core.control.caps_resolve import GpuDeviceCap, PctCap, WattCap, WattRange
from joulie_core.held_as import HeldAs

CPU = WattRange(250, 100)
GPUS = (GpuGroup("", WattRange(400, 100), 4),)
NODE = LimitedDevices(2, CPU, GPUS)


def total_mw(caps, devices):
    counts = {group.uuid: group.count for group in devices.gpus}
    return devices.packages * caps.cpu_mw + sum(counts[uuid] * cap for uuid, cap in caps.gpus_mw.items())


def test_a_limit_is_shared_equally_within_the_ranges():
    assert caps_of_limit(900_000, NODE) == DeviceCaps(150_000, {"": 150_000})
    assert caps_of_limit(1_700_000, NODE) == DeviceCaps(250_000, {"": 300_000})
    assert caps_of_limit(9_000_000, NODE) == DeviceCaps(250_000, {"": 400_000})


def test_free_gpus_get_what_packages_and_other_gpus_leave():
    devices = LimitedDevices(
        1, CPU, (GpuGroup("a", WattRange(400, 100), held_as=HeldAs.FREE), GpuGroup("b", WattRange(400, 100)))
    )
    assert caps_of_limit(750_000, devices) == DeviceCaps(250_000, {"a": 100_000, "b": 400_000})
    assert caps_of_limit(900_000, devices) == DeviceCaps(250_000, {"a": 250_000, "b": 400_000})
    assert devices.places == {"a": 2, "b": 0}


def test_gpus_of_standard_pods_get_what_packages_and_gpus_of_performance_pods_leave():
    ranges = WattRange(400, 100)
    held = {"a": HeldAs.STANDARD, "b": HeldAs.PERFORMANCE, "c": HeldAs.FREE}
    devices = LimitedDevices(1, CPU, tuple(GpuGroup(uuid, ranges, held_as=each) for uuid, each in held.items()))
    assert caps_of_limit(850_000, devices).gpus_mw == {"a": 100_000, "b": 400_000, "c": 100_000}
    assert caps_of_limit(1_000_000, devices).gpus_mw == {"a": 250_000, "b": 400_000, "c": 100_000}
    assert devices.places == {"a": 1, "b": 0, "c": 2}


def test_power_that_moves_is_in_force_nowhere():
    caps = DeviceCaps(250_000, {"a": 100_000, "b": 400_000, "c": 300_000}, 7)
    assert lower_caps(caps, {"a": 400_000, "b": 100_000}) == DeviceCaps(
        250_000, {"a": 100_000, "b": 100_000, "c": 300_000}, 7
    )


def test_what_does_not_divide_is_left_over():
    caps = caps_of_limit(1_000_000, NODE)
    assert caps == DeviceCaps(166_666, {"": 166_666})
    assert caps.gpu_mw == 166_666


def test_gpus_of_several_ranges_get_caps_of_their_own():
    devices = LimitedDevices(1, CPU, (GpuGroup("a", WattRange(80, 50)), GpuGroup("b", WattRange(400, 200))))
    assert caps_of_limit(450_000, devices) == DeviceCaps(170_000, {"a": 80_000, "b": 200_000})
    assert caps_of_limit(450_000, devices).gpu_mw == 80_000


def test_below_the_lowest_limits_these_are_the_caps_and_the_shortfall_is_told():
    assert caps_of_limit(590_000, NODE) == DeviceCaps(100_000, {"": 100_000}, 10_000)
    assert caps_of_limit(0, NODE) == DeviceCaps(100_000, {"": 100_000}, 600_000)
    assert lowest_mw(NODE) == 600_000


def test_a_node_without_gpus_has_no_cap_of_gpus():
    caps = caps_of_limit(300_000, LimitedDevices(2, CPU))
    assert (caps, caps.gpu_mw) == (DeviceCaps(150_000), None)


@pytest.mark.parametrize(
    "devices",
    [
        LimitedDevices(2, CPU, GPUS, problem="one is missing"),
        LimitedDevices(0, CPU, GPUS),
        LimitedDevices(2, WattRange(None, 100), GPUS),
        LimitedDevices(2, WattRange(250, None), GPUS),
        LimitedDevices(2, WattRange(250, 251), GPUS),
        LimitedDevices(2, WattRange(0, 0), GPUS),
        LimitedDevices(2, CPU, (GpuGroup("a", WattRange(400, 100)), GpuGroup("b", WattRange()))),
    ],
)
def test_a_device_without_a_known_range_leaves_no_caps(devices):
    assert caps_of_limit(900_000, devices) is None
    assert caps_of_levels(150_000, 150_000, devices) is None
    assert lowest_mw(devices) is None


def test_stored_levels_stay_within_the_ranges():
    devices = LimitedDevices(1, CPU, (GpuGroup("a", WattRange(80, 50)), GpuGroup("b", WattRange(400, 200))))
    assert caps_of_levels(120_000, 100_000, devices) == DeviceCaps(120_000, {"a": 80_000, "b": 200_000})
    assert caps_of_levels(90_000, None, devices) == DeviceCaps(100_000, {"a": 50_000, "b": 200_000})
    assert caps_of_levels(900_000, 60_000, devices) == DeviceCaps(250_000, {"a": 60_000, "b": 200_000})


@given(
    limit_mw=st.integers(0, 10**7),
    packages=st.integers(1, 8),
    low=st.integers(1, 200),
    more=st.integers(0, 200),
    gpus=st.lists(st.tuples(st.integers(1, 300), st.integers(0, 500), st.integers(1, 8)), max_size=4),
)
def test_caps_never_add_up_to_more_than_the_limit_but_for_the_lowest(limit_mw, packages, low, more, gpus):
    groups = tuple(
        GpuGroup(str(index), WattRange(least + span, least), count) for index, (least, span, count) in enumerate(gpus)
    )
    devices = LimitedDevices(packages, WattRange(low + more, low), groups)
    caps = caps_of_limit(limit_mw, devices)
    assert total_mw(caps, devices) <= max(limit_mw, lowest_mw(devices))
    assert caps.shortfall_mw == max(0, lowest_mw(devices) - limit_mw)
    again = caps_of_levels(caps.cpu_mw, caps.gpu_mw, devices)
    assert total_mw(again, devices) <= total_mw(caps, devices)


def test_the_lower_of_two_caps_applies_whichever_it_is():
    assert lower_cpu_cap(WattCap(120, 120, "why"), 150_000) == (WattCap(120, 120, "why"), LimitSource.PROFILE)
    assert lower_cpu_cap(WattCap(180, 180), 150_000) == (WattCap(150, 150), LimitSource.BUDGET)
    assert lower_cpu_cap(WattCap(150, 150), 150_000) == (WattCap(150, 150), LimitSource.BUDGET)


def test_either_applies_alone():
    assert lower_cpu_cap(None, 150_000) == (WattCap(150, 150), LimitSource.BUDGET)
    assert lower_cpu_cap(WattCap(120, 120), None) == (WattCap(120, 120), LimitSource.PROFILE)
    assert lower_cpu_cap(PctCap(60), None) == (PctCap(60), LimitSource.PROFILE)
    assert lower_cpu_cap(None, None) == (None, None)


def test_a_percentage_of_an_unknown_range_does_not_displace_a_budget():
    assert lower_cpu_cap(PctCap(10), 150_000) == (WattCap(150, 150), LimitSource.BUDGET)


def test_each_gpu_gets_the_lower_of_its_two_caps():
    profile = (GpuDeviceCap("a", WattCap(200, 200)), GpuDeviceCap("b", WattCap(300, 300)))
    caps, source = lower_gpu_caps(profile, {"a": 250_000, "b": 250_000})
    assert [(cap.uuid, cap.cap.cap_watts) for cap in caps] == [("a", 200), ("b", 250)]
    assert source is LimitSource.BUDGET
    assert lower_gpu_caps(profile, {})[1] is LimitSource.PROFILE
    assert lower_gpu_caps((), {"a": 250_000})[0] == (GpuDeviceCap("a", WattCap(250, 250)),)
    assert lower_gpu_caps((), {}) == ((), None)


def test_of_two_splits_each_device_gets_the_lower():
    one, other = DeviceCaps(150_000, {"a": 300_000, "b": 100_000}, 7), DeviceCaps(120_000, {"a": 350_000, "b": 90_000})
    assert lower_of(one, other) == DeviceCaps(120_000, {"a": 300_000, "b": 90_000}, 7)


@given(st.integers(600_000, 2_100_000), st.integers(0, 1_500_000), st.permutations(list(HeldAs)))
def test_a_higher_limit_lowers_no_device(limit_mw, more_mw, held):
    """So that a fallback raises none: but for the milliwatts that do not go into equal parts."""
    groups = tuple(GpuGroup(uuid, WattRange(400, 100), held_as=each) for uuid, each in zip("abcd", held, strict=False))
    devices = LimitedDevices(2, CPU, groups)
    lower, higher = caps_of_limit(limit_mw, devices), caps_of_limit(limit_mw + more_mw, devices)
    assert lower.cpu_mw <= higher.cpu_mw
    assert all(cap <= higher.gpus_mw[uuid] + len(held) for uuid, cap in lower.gpus_mw.items())
    assert sum_mw(lower, devices) == total_mw(lower, devices) <= limit_mw
