"""Clock limits by the class of the holders, beside those of caps: the lower one is in force, and each has a lease."""

import pytest

from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware.gpu.device_calls import GpuDeadlines
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import (
    LeaseKind,
    ReadGpu,
    Restore,
    SetGpuCaps,
    SetGpuClassClocks,
    SetGpuClocks,
    Subsystem,
)
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.fake_gpu import FakeGpu

FREE = 1980


def by_cap(lease_s=80.0, **mhz):
    return SetGpuClocks(clocks_mhz=mhz, lease_s=lease_s)


def by_class(lease_s=10.0, **mhz):
    return SetGpuClassClocks(clocks_mhz=mhz, lease_s=lease_s)


@pytest.fixture(params=[False, True], ids=["remembered", "reported"])
def bench(gpu_bench, request):
    """Two GPUs of a vendor that tells no clock limit, and of one that does."""
    made = gpu_bench(FakeGpu("a"), FakeGpu("b"))
    made.library.reports_clock = request.param
    return made


@pytest.fixture
def executor(bench, events, clock):
    made = SubsystemExecutor(Subsystem.GPU, bench.handler, events, clock=clock)
    yield made
    made.stop(clock.now)
    made.close()


def clocks(bench):
    return [each.clock_mhz for each in bench.library.gpus]


def test_a_clock_is_limited_by_class_and_restored_when_it_is_left_out(bench):
    done = bench.handler.execute(by_class(a=1200, b=900))
    assert (done.limits_mhz, done.failures, clocks(bench)) == ({"a": 1200, "b": 900}, {}, [1200, 900])
    done = bench.handler.execute(by_class(b=900))
    assert (done.limits_mhz, clocks(bench)) == ({"b": 900}, [FREE, 900])
    done = bench.handler.execute(by_class())
    assert (done.limits_mhz, done.failures, clocks(bench)) == ({}, {}, [FREE, FREE])
    assert bench.writer.managed == frozenset()


@pytest.mark.parametrize("first", ["cap", "class"])
def test_the_lower_limit_is_in_force_and_the_other_one_after_it(bench, first):
    requests = [by_cap(a=1400, b=1000), by_class(a=1200, b=1300)]
    for request in requests if first == "cap" else reversed(requests):
        bench.handler.execute(request)
    assert clocks(bench) == [1200, 1000]
    bench.handler.execute(by_class())
    assert clocks(bench) == [1400, 1000]
    bench.handler.execute(by_class(a=1200, b=1300))
    assert bench.handler.execute(by_cap()).reason is Reason.RESTORED
    assert clocks(bench) == [1200, 1300]
    bench.handler.execute(by_class())
    assert clocks(bench) == [FREE, FREE]


def test_a_request_of_one_writes_nothing_that_only_the_other_limits(bench):
    bench.handler.execute(by_class(b=900))
    before = bench.library.clock_writes
    bench.handler.execute(by_cap(a=1400))
    assert (clocks(bench), bench.library.clock_writes - before) == ([1400, 900], 1)


def test_a_request_that_only_lifts_writes_no_other_limit_and_the_next_one_does(bench):
    bench.handler.execute(by_class(a=1200, b=900))
    writes = [bench.library.clock_writes]
    for _ in range(2):
        done = bench.handler.execute(by_class(b=900))
        assert (done.limits_mhz, clocks(bench)) == ({"b": 900}, [FREE, 900])
        writes.append(bench.library.clock_writes)
    # A limit that the driver tells needs no further write to be certain of.
    assert [writes[1] - writes[0], writes[2] - writes[1]] == [0, 0 if bench.library.reports_clock else 1]


def test_a_request_that_lifts_and_lowers_writes_both(bench):
    bench.handler.execute(by_class(a=1200, b=900))
    bench.handler.execute(by_class(b=800))
    assert clocks(bench) == [FREE, 800]


def test_a_reading_tells_the_two_limits_apart(bench):
    bench.handler.execute(by_cap(a=1400))
    bench.handler.execute(by_class(a=1200, b=900))
    found = [(each.clock_limit_mhz, each.cap_clock_mhz, each.class_clock_mhz) for each in gpus(bench)]
    assert found == [(1200, 1400, 1200), (900, None, 900)]


def gpus(bench):
    return bench.handler.execute(ReadGpu()).gpus


def test_caps_that_release_clocks_leave_those_of_classes(bench):
    bench.handler.execute(by_cap(a=1000))
    bench.handler.execute(by_class(a=1200))
    bench.handler.execute(SetGpuCaps(caps_mw={"a": 400_000}, lease_s=60, release_clocks=True))
    assert clocks(bench) == [1200, FREE]


def test_a_limit_that_cannot_be_set_is_named_and_the_other_gpu_is_limited(bench):
    bench.library.gpus[0].clock_taken = True
    done = bench.handler.execute(by_class(a=1200, b=900))
    assert (done.limits_mhz, done.failures["a"].reason) == ({"b": 900}, Reason.REFUSED)
    assert clocks(bench) == [FREE, 900]


def test_a_limit_that_a_repeated_request_can_no_longer_set_is_named(gpu_bench):
    # The driver does not tell the limit, so that each request writes it anew.
    bench = gpu_bench(FakeGpu("a"), FakeGpu("b"))
    bench.library.reports_clock = False
    assert bench.handler.execute(by_class(a=1200)).failures == {}
    bench.library.clock_permitted = False
    done = bench.handler.execute(by_class(a=1200))
    assert (done.limits_mhz, done.failures["a"].reason) == ({"a": 1200}, Reason.NOT_PERMITTED)
    again = bench.handler.execute(by_cap(a=1200))
    assert (again.result, again.reason, again.backend) == (ControlResult.BLOCKED, Reason.NOT_PERMITTED, "nvml")


def test_each_answer_names_the_limits_that_are_in_force(bench):
    assert bench.handler.execute(by_class(a=1200)).message == "gpu/a/graphics_clock_mhz is 1200 MHz"
    assert bench.handler.execute(by_cap(b=900)).message == "gpu/b/graphics_clock_mhz is 900 MHz"


def test_a_cap_of_clocks_fails_in_part_where_one_gpu_takes_it(bench):
    bench.library.gpus[0].clock_taken = True
    outcome = bench.handler.execute(by_cap(a=1200, b=900))
    assert (outcome.result, outcome.reason, clocks(bench)) == (ControlResult.ERROR, Reason.REFUSED, [FREE, 900])


def test_a_limit_that_cannot_be_lifted_stays_named_until_it_is(bench):
    bench.handler.execute(by_class(a=1200))
    bench.library.clock_permitted = False
    for _ in range(2):
        done = bench.handler.execute(by_class())
        assert (done.limits_mhz, done.failures["a"].reason) == ({"a": 1200}, Reason.NOT_PERMITTED)
    assert (gpus(bench)[0].class_clock_mhz, gpus(bench)[1].class_clock_mhz) == (1200, None)
    bench.library.clock_permitted = True
    done = bench.handler.execute(by_class())
    assert (done.limits_mhz, done.failures, clocks(bench)) == ({}, {}, [FREE, FREE])
    assert gpus(bench)[0].class_clock_mhz is None


def test_a_limit_that_cannot_be_lifted_stays_named_while_the_executor_tries_by_itself(bench, executor, clock):
    executor.execute(by_class(a=1200))
    bench.library.clock_permitted = False
    for _ in range(3):
        done = executor.execute(by_class())
        assert (done.limits_mhz, done.failures["a"].reason) == ({"a": 1200}, Reason.NOT_PERMITTED)
        clock.now += 1.0
        executor.check()
    bench.library.clock_permitted = True
    clock.now += 20.0
    executor.check()
    assert clocks(bench) == [FREE, FREE]
    done = executor.execute(by_class())
    assert (done.limits_mhz, done.failures) == ({}, {})


def test_what_was_wanted_and_never_set_does_not_outlive_a_restore(bench, executor):
    bench.library.gpus[0].clock_taken = True
    executor.execute(by_cap(a=1000))
    executor.execute(Restore(subsystem=Subsystem.GPU))
    bench.library.gpus[0].clock_taken = False
    executor.execute(by_class(a=1200))
    assert clocks(bench) == [1200, FREE]


def test_a_limit_that_cannot_be_raised_to_that_of_the_cap_is_tried_again(bench):
    bench.handler.execute(by_cap(a=1400))
    bench.handler.execute(by_class(a=1200))
    bench.library.clock_permitted = False
    for _ in range(2):
        assert bench.handler.execute(by_class()).failures["a"].reason is Reason.NOT_PERMITTED
    bench.library.clock_permitted = True
    done = bench.handler.execute(by_class())
    assert (done.limits_mhz, done.failures, clocks(bench)) == ({}, {}, [1400, FREE])


def test_a_gpu_that_is_gone_is_named(bench):
    done = bench.handler.execute(by_class(c=1200))
    assert (done.limits_mhz, done.failures["c"].reason) == ({}, Reason.NO_DEVICE)


def test_without_a_journal_nothing_is_set_and_the_reason_is_given(bench):
    failure = HardwareFailure(Reason.NO_JOURNAL, "read-only")
    bench.handler.writer = failure
    done = bench.handler.execute(by_class(a=1200))
    assert (done.failure, done.limits_mhz, clocks(bench)) == (failure, {}, [FREE, FREE])


def test_the_end_of_the_lease_of_classes_leaves_caps_and_their_clocks(bench, executor, clock):
    executor.execute(SetGpuCaps(caps_mw={"a": 400_000}, lease_s=80))
    executor.execute(by_cap(a=1400))
    executor.execute(by_class(a=1200, b=900))
    clock.now += 9.0
    assert executor.check() == 1.0
    assert clocks(bench) == [1200, 900]
    clock.now += 1.0
    assert executor.check() == 70.0
    assert (clocks(bench), bench.library.gpus[0].limit_mw) == ([1400, FREE], 400_000)


def test_the_end_of_the_lease_of_caps_leaves_the_clocks_of_classes(bench, executor, clock):
    executor.execute(SetGpuCaps(caps_mw={"a": 400_000}, lease_s=5))
    executor.execute(by_cap(lease_s=5, a=1000, b=1000))
    executor.execute(by_class(a=1200))
    clock.now += 5.0
    executor.check()
    assert (clocks(bench), bench.library.gpus[0].limit_mw) == ([1200, FREE], 700_000)


def test_renewed_caps_do_not_renew_the_limits_of_classes(bench, executor, clock):
    executor.execute(by_class(a=1200))
    for _ in range(4):
        clock.now += 4.0
        executor.execute(by_cap(b=1400))
    assert clocks(bench) == [FREE, 1400]


def test_a_restore_that_keeps_classes_restores_caps_and_their_clocks(bench, executor):
    executor.execute(SetGpuCaps(caps_mw={"a": 400_000}, lease_s=80))
    executor.execute(by_cap(a=1000, b=1400))
    executor.execute(by_class(a=1200))
    report = executor.execute(Restore(subsystem=Subsystem.GPU, keep_classes=True))
    assert (report.left, clocks(bench), bench.library.gpus[0].limit_mw) == ((), [1200, FREE], 700_000)
    executor.execute(Restore(subsystem=Subsystem.GPU))
    assert clocks(bench) == [FREE, FREE]
    executor.execute(by_cap(b=1400))
    assert clocks(bench) == [FREE, 1400], "what was restored is not wanted any more"


def test_a_set_that_has_timed_out_counts_as_limited_since_it_may_land(gpu_bench):
    bench = gpu_bench(FakeGpu("a"))
    deadlines = GpuDeadlines(call_s=0.2, crowded_call_s=0.2)
    bench.handler.drivers = [LibraryDriver(bench.library, deadlines=deadlines)]
    bench.handler.execute(by_class(a=1500))
    bench.library.gpus[0].answering.clear()
    try:
        done = bench.handler.execute(by_class(a=1200))
        assert (done.limits_mhz.keys(), done.failures["a"].reason) == ({"a"}, Reason.TIMEOUT)
        done = bench.handler.execute(by_class())
        assert (done.limits_mhz.keys(), done.failures["a"].reason) == ({"a"}, Reason.TIMEOUT)
    finally:
        bench.library.gpus[0].answering.set()


def test_an_outcome_of_caps_is_not_spoilt_by_what_a_class_cannot_have(bench):
    bench.library.gpus[0].clock_taken = True
    bench.handler.execute(by_class(a=1200))
    assert bench.handler.execute(by_cap(b=1400)).result is ControlResult.APPLIED
    assert bench.handler.keep(frozenset({LeaseKind.POWER})).left == ()
