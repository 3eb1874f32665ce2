"""One line per interval."""

from joulie_api.log_limit import LogLimit


def test_one_line_is_admitted_per_interval_with_the_number_of_those_before():
    now_s = 0.0
    limit = LogLimit(2.0, clock=lambda: now_s)
    assert [limit.admit() for _ in range(4)] == [0, None, None, None]
    now_s = 2.0
    assert [limit.admit() for _ in range(2)] == [3, None]
    now_s = 9.0
    assert limit.admit() == 1
