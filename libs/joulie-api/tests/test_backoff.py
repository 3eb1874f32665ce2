import pytest

from joulie_api.backoff import Backoff


def test_the_ceiling_doubles_from_0_8_s_to_30_s():
    backoff = Backoff(lambda: 1.0)
    assert [backoff.next_s(0.0) for _ in range(8)] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])


def test_the_wait_is_anywhere_below_the_ceiling():
    chances = iter([0.0, 0.5, 0.25])
    backoff = Backoff(lambda: next(chances))
    assert [backoff.next_s(0.0) for _ in range(3)] == pytest.approx([0.0, 0.8, 0.8])


def test_two_minutes_of_health_after_a_wait_start_over():
    backoff = Backoff(lambda: 1.0)
    backoff.next_s(0.0)
    assert backoff.next_s(0.8) == pytest.approx(1.6)
    assert backoff.next_s(2.4 + 119.9) == pytest.approx(3.2)
    assert backoff.next_s(1_000.0) == pytest.approx(0.8)
    assert backoff.next_s(1_000.8 + 120.0) == pytest.approx(0.8)


def test_ceilings_and_the_time_without_failure_can_be_chosen():
    backoff = Backoff(lambda: 1.0, initial_s=0.2, cap_s=5.0, reset_after_s=30.0)
    assert [backoff.next_s(0.0) for _ in range(6)] == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0])
    assert backoff.next_s(34.9) == pytest.approx(5.0)
    assert backoff.next_s(69.9) == pytest.approx(0.2)
