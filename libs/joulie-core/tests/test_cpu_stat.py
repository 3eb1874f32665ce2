"""CPU time in `cpu.stat`."""

import pytest

from joulie_core.cpu_stat import usage_us


def test_the_usage_is_found_among_other_lines():
    assert usage_us("nr_periods 0\nusage_usec 1234567\nuser_usec 1\n") == 1_234_567


@pytest.mark.parametrize(
    "text",
    ["", "usage_usec", "usage_usec -5", "usage_usec 1.5", "usage_usec ٣", f"usage_usec {'9' * 21}", "user_usec 5"],
)
def test_what_is_no_usage_is_none(text):
    assert usage_us(text) is None
