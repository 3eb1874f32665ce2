"""CPU seconds between two readings of cgroups."""

from joulie_core.attribution.cpu_times import CpuSeconds, CpuTimes, cpu_seconds_between


def test_pods_have_the_difference_and_one_that_began_in_the_interval_all_of_its_time():
    before = CpuTimes(100.0, {"a": 10.0, "ended": 5.0})
    after = CpuTimes(130.0, {"a": 22.0, "new": 3.0})
    assert cpu_seconds_between(before, after) == CpuSeconds(30.0, {"a": 12.0, "new": 3.0})


def test_a_pod_that_was_perhaps_there_before_has_no_known_time():
    before = CpuTimes(100.0, {}, complete=False)
    assert cpu_seconds_between(before, CpuTimes(130.0, {"a": 22.0})) == CpuSeconds(30.0, {"a": None})


def test_a_time_that_went_back_or_could_not_be_read_is_unknown_and_not_zero():
    before = CpuTimes(100.0, {"back": 9.0, "unread": 1.0, "was-unread": None})
    after = CpuTimes(90.0, {"back": 8.0, "unread": None, "was-unread": 4.0})
    assert cpu_seconds_between(before, after) == CpuSeconds(None, {"back": None, "unread": None, "was-unread": None})


def test_without_one_of_the_readings_nothing_is_known():
    assert cpu_seconds_between(None, CpuTimes(1.0, {"a": 1.0})) == CpuSeconds(None, {})
    assert cpu_seconds_between(CpuTimes(1.0, {"a": 1.0}), None) == CpuSeconds(None, {})
