import threading

import pytest

from joulie_agent.actuator.lane import RETRY_S, Lane
from joulie_agent.actuator.protocol import Fault, GivenBackReport, Part, ReadCpu, Restore, SetCpuCap, SetThrottle
from joulie_agent.hardware.knob import Refusal
from joulie_agent.reasons import Reason
from joulie_agent.testing.fake_sysfs import Fault as FileFault


def cap(watts, lease_s=60.0):
    return SetCpuCap(cap_uw_per_package=watts * 1_000_000, lease_s=lease_s)


@pytest.fixture
def bench(cpu_bench):
    return cpu_bench()


@pytest.fixture
def lane(bench, events, clock):
    return Lane(Part.CPU, bench.part, events, clock=clock)


def test_what_is_in_force_is_given_back_when_nobody_renews(bench, lane, clock, events):
    lane.ask(cap(90))
    clock.now += 59
    assert lane.check() == 1
    assert bench.limits_watts == [90, 90]
    clock.now += 1
    assert lane.check() is None
    assert bench.limits_watts == [150, 150]
    assert events.named("given back")[0]["why"] == "not renewed"


def test_asking_again_renews_and_reading_does_not(bench, lane, clock):
    lane.ask(cap(90))
    clock.now += 59
    lane.ask(cap(90))
    clock.now += 59
    lane.ask(ReadCpu())
    lane.check()
    assert bench.limits_watts == [90, 90]
    clock.now += 1
    lane.check()
    assert bench.limits_watts == [150, 150]


def test_a_cap_that_was_refused_renews_too_so_that_the_rest_stays(bench, lane, clock):
    lane.ask(SetThrottle(throttle_pct=100, lease_s=60))
    clock.now += 59
    bench.machine.faults |= {path: FileFault(write_errno=5) for path in bench.machine.limits()}
    lane.ask(cap(90))
    clock.now += 59
    lane.check()
    assert set(bench.policies_khz) == {1_500_000}


def test_what_a_predecessor_left_is_given_back_before_anything_is_asked(bench, lane, events):
    bench.part.carry_out(cap(90))
    lane.check()
    assert bench.limits_watts == [150, 150]
    assert events.named("given back")[0]["why"] == "left behind"


def test_a_request_that_comes_first_finds_what_a_predecessor_left_given_back(bench, lane):
    bench.part.carry_out(SetThrottle(throttle_pct=100, lease_s=60))
    lane.ask(cap(90))
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.limits_watts == [90, 90]


def test_what_could_not_be_given_back_is_tried_again_while_other_things_are_leased(bench, lane, clock):
    bench.part.carry_out(SetThrottle(throttle_pct=100, lease_s=60))
    stuck = bench.machine.policy_limits()[0]
    bench.machine.faults[stuck] = FileFault(write_errno=5)
    lane.check()
    assert bench.policies_khz.count(1_500_000) == 1
    lane.ask(cap(90, lease_s=3600))
    del bench.machine.faults[stuck]
    assert lane.check() == RETRY_S
    clock.now += RETRY_S
    lane.check()
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.limits_watts == [90, 90]


def test_a_failure_is_told_once_and_not_at_every_attempt(bench, lane, clock, events):
    lane.ask(cap(90))
    for path in bench.machine.limits():
        bench.machine.faults[path] = FileFault(write_errno=5)
    for _ in range(5):
        clock.now += 60
        lane.check()
    assert len(events.named("not everything given back")) == 1


def test_restoring_ends_the_lease(bench, lane):
    lane.ask(cap(90))
    report = lane.ask(Restore(part=Part.CPU))
    assert isinstance(report, GivenBackReport)
    assert bench.limits_watts == [150, 150]
    assert lane.check() is None


def test_a_part_without_a_journal_cannot_say_that_nothing_is_left(bench, lane):
    bench.part.hands = Refusal(Reason.NO_JOURNAL, "damaged")
    assert lane.ask(Restore(part=Part.CPU)) == Fault(message="damaged")
    assert lane.check() is None


def test_ending_gives_back_and_takes_no_more_requests(bench, lane, clock):
    lane.ask(cap(90))
    assert lane.end(clock.now + 10)
    assert bench.limits_watts == [150, 150]
    assert isinstance(lane.ask(cap(90)), Fault)
    assert bench.limits_watts == [150, 150]


def test_ending_says_what_could_not_be_given_back_in_time(bench, lane, clock):
    lane.ask(cap(90))
    bench.machine.faults[bench.machine.limits()[0]] = FileFault(write_errno=5)
    assert not lane.end(clock.now)
    assert bench.limits_watts == [90, 150]


def test_the_keeper_gives_back_in_real_time_and_ends_with_the_lane(bench, events):
    restored = threading.Event()

    def log(event, /, **details):
        events(event, **details)
        if event == "given back":
            restored.set()

    lane = Lane(Part.CPU, bench.part, log)
    lane.start()
    lane.ask(cap(90, lease_s=0.05))
    assert restored.wait(10)
    assert bench.limits_watts == [150, 150]
    assert lane.end(0)
