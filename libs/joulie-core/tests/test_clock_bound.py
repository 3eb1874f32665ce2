"""Why a GPU's clock is no higher."""

import pytest

from joulie_core.clock_bound import ClockBound, clock_bound

NONE, UNKNOWN, CLOCK_LIMIT = ClockBound.NONE, ClockBound.UNKNOWN, ClockBound.CLOCK_LIMIT


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
