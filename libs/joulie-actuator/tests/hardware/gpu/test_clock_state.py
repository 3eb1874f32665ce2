"""Why the clock of a GPU is no higher."""

import pytest

from joulie_actuator.hardware.gpu.clock_state import (
    ClockBound,
    Residency,
    bound_of_event_reasons,
    bound_of_metrics,
    busy_pct_of_metrics,
    clock_bound,
)

NONE, UNKNOWN, CLOCK_LIMIT = ClockBound.NONE, ClockBound.UNKNOWN, ClockBound.CLOCK_LIMIT
BEFORE = Residency(100, 40, (10, 20, 30, 40))
METRICS = {
    "average_gfx_activity": 90,
    "accumulation_counter": 110,
    "ppt_residency_acc": 40,
    "prochot_residency_acc": 10,
    "socket_thm_residency_acc": 20,
    "vr_thm_residency_acc": 30,
    "hbm_thm_residency_acc": 40,
}
OLDER = {"average_gfx_activity": 90, "accumulation_counter": "N/A", "ppt_residency_acc": "N/A"}


@pytest.mark.parametrize(
    ("reasons", "bound"),
    [
        (0x0, ClockBound.NONE),
        (0x1, ClockBound.IDLE),
        (0x4, ClockBound.POWER_LIMIT),
        (0x80 | 0x8, ClockBound.POWER_LIMIT),
        (0x4 | 0x1, ClockBound.POWER_LIMIT),
        (0x20, ClockBound.THERMAL),
        (0x40 | 0x8, ClockBound.THERMAL),
        (0x20 | 0x4, ClockBound.THERMAL),
        # Clocks that an application has set, a slowdown without a named reason, a bit of a later driver.
        (0x2, ClockBound.UNKNOWN),
        (0x8, ClockBound.UNKNOWN),
        (0x10, ClockBound.UNKNOWN),
        (0x100 | 0x1, ClockBound.UNKNOWN),
        (1 << 40, ClockBound.UNKNOWN),
    ],
)
def test_reasons_of_nvml_by_their_bits(reasons, bound):
    assert bound_of_event_reasons(reasons) is bound


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({}, ClockBound.NONE),
        ({"ppt_residency_acc": 41}, ClockBound.POWER_LIMIT),
        ({"prochot_residency_acc": 11}, ClockBound.THERMAL),
        ({"socket_thm_residency_acc": 21, "ppt_residency_acc": 41}, ClockBound.THERMAL),
        ({"vr_thm_residency_acc": 31}, ClockBound.THERMAL),
        ({"hbm_thm_residency_acc": 41, "ppt_residency_acc": "N/A"}, ClockBound.THERMAL),
        ({"average_gfx_activity": 0, "ppt_residency_acc": 41}, ClockBound.IDLE),
        ({"ppt_residency_acc": "N/A"}, ClockBound.UNKNOWN),
        ({"vr_thm_residency_acc": "N/A"}, ClockBound.UNKNOWN),
        ({"vr_thm_residency_acc": "N/A", "ppt_residency_acc": 41}, ClockBound.POWER_LIMIT),
        ({"ppt_residency_acc": True}, ClockBound.UNKNOWN),
        # The firmware has not read since, or has begun anew.
        ({"accumulation_counter": 100, "ppt_residency_acc": 41}, ClockBound.UNKNOWN),
        ({"accumulation_counter": 5, "ppt_residency_acc": 1}, ClockBound.UNKNOWN),
    ],
)
def test_counters_of_amd_tell_by_what_has_risen(changes, bound):
    assert bound_of_metrics({**METRICS, **changes}, BEFORE) is bound


def test_the_first_counters_tell_nothing():
    assert bound_of_metrics(METRICS, None) is ClockBound.UNKNOWN
    assert bound_of_metrics(METRICS, Residency.of({})) is ClockBound.UNKNOWN
    assert Residency.of(METRICS) == Residency(110, 40, (10, 20, 30, 40))


@pytest.mark.parametrize(
    ("status", "bound"),
    [
        ({"throttle_status": False, "indep_throttle_status": False}, ClockBound.NONE),
        ({"throttle_status": "N/A", "indep_throttle_status": False}, ClockBound.NONE),
        ({"throttle_status": False, "indep_throttle_status": True}, ClockBound.UNKNOWN),
        ({"throttle_status": "N/A", "indep_throttle_status": "N/A"}, ClockBound.UNKNOWN),
        ({}, ClockBound.UNKNOWN),
    ],
)
def test_older_devices_of_amd_tell_whether_any_reason_holds(status, bound):
    assert bound_of_metrics({**OLDER, **status}, None) is bound


@pytest.mark.parametrize("reported", ClockBound)
def test_without_a_limit_of_joulies_it_is_as_reported(reported):
    assert clock_bound(reported, 1500, None) is reported


@pytest.mark.parametrize("reported", [ClockBound.POWER_LIMIT, ClockBound.THERMAL, ClockBound.IDLE])
def test_a_named_reason_outweighs_the_limit_on_the_clock(reported):
    assert clock_bound(reported, 1200, 1200) is reported


@pytest.mark.parametrize("reported", [NONE, UNKNOWN])
@pytest.mark.parametrize(("clock_mhz", "binds"), [(1200, True), (1185, True), (1184, False), (1300, True)])
def test_a_limit_binds_where_the_clock_is_within_a_step_of_it(clock_mhz, binds, reported):
    assert clock_bound(reported, clock_mhz, 1200) is (CLOCK_LIMIT if binds else reported)


def test_whether_a_limit_binds_is_not_known_without_the_clock():
    assert clock_bound(NONE, None, 1200) is UNKNOWN


@pytest.mark.parametrize(
    ("activity", "busy_pct"), [(0, 0), (100, 100), (101, None), (65535, None), (-1, None), ("N/A", None), (True, None)]
)
def test_a_busy_time_of_amd_is_a_share_of_the_time(activity, busy_pct):
    assert busy_pct_of_metrics({"average_gfx_activity": activity}) == busy_pct


def test_a_busy_time_that_amd_does_not_report_is_not_known():
    assert busy_pct_of_metrics({}) is None
