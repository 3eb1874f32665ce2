"""What may be written to a knob, and how its value relates to what was written."""

import pytest

from joulie_actuator.hardware.knob import LOWEST_CAP_SHARE, HardwareFailure, KnobKind, KnobLimits
from joulie_actuator.reasons import Reason

LIMITS = KnobLimits(50, 300)


@pytest.mark.parametrize(("value", "nearest"), [(49, 50), (50, 50), (51, 51), (299, 299), (300, 300), (301, 300)])
def test_both_ends_may_be_written_and_no_value_beyond_them(value, nearest):
    assert LIMITS.clamp(value) == nearest
    assert (value in LIMITS) is (value == nearest)


def test_a_value_is_read_as_written_unless_the_hardware_rounds():
    assert LIMITS.rounding == 0


def test_without_a_minimum_a_cap_is_at_least_a_quarter_of_the_maximum():
    assert LOWEST_CAP_SHARE == 0.25


def test_a_failure_may_have_no_more_to_say_than_its_reason():
    assert HardwareFailure(Reason.IO_ERROR) == HardwareFailure(Reason.IO_ERROR, "")


def test_a_request_and_a_lower_limit_read_the_lowest_of_several_and_registers_do_not():
    assert {kind for kind in KnobKind if kind.is_request} == {KnobKind.REQUEST, KnobKind.FLOOR}
