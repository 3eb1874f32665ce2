"""A file of the CPUs that blocks: what it holds up, for how long, and what becomes of a write that lands late."""

import threading
from functools import partial

import pytest

from joulie_actuator import subsystems
from joulie_actuator.executor import RETRY_S
from joulie_actuator.hardware import journal
from joulie_actuator.hardware.sysfs import OsCalls
from joulie_actuator.hardware.watch import CALL_S, Watch
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.protocol import ReadCpu, Restore, SetCpuCap, SetThrottle, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import CpuReadings, RestoreReport
from joulie_actuator.subsystems import HostSubsystems
from joulie_core.control_result import ControlResult

CAP = SetCpuCap(cap_watts_per_package=90, lease_s=60)


class BlockingCalls(OsCalls):
    """The running system's calls, of which those for some files block until they are released.

    Time stands still for the deadlines of calls except where one blocks, so that a slow disk misses none of them.
    """

    def __init__(self):
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.released = threading.Event()
        #: Threads that have been blocked, in order.
        self.threads: list[threading.Thread] = []

    def read(self, path):
        self._block(path, self.reads)
        return super().read(path)

    def write(self, path, content):
        self._block(path, self.writes)
        super().write(path, content)

    def _block(self, path, blocked):
        if any(path.endswith(end) for end in blocked):
            self.block()

    def block(self):
        """Block the calling thread until the release; its call is overdue at once."""
        if not self.released.is_set():
            self.threads.append(threading.current_thread())
            self.released.wait()

    def now_s(self):
        """Return the time of the deadlines."""
        return len(self.threads) * 2 * CALL_S

    def release(self):
        """Let everything return; waits until the threads that were blocked have ended."""
        self.released.set()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive(), "a thread that was given up goes on"


class PolledWatch(Watch):
    """Has its supervisor look every few milliseconds whether a call is overdue."""

    def left_s(self):
        return min(0.005, super().left_s())


@pytest.fixture
def calls(monkeypatch):
    made = BlockingCalls()
    monkeypatch.setattr(subsystems, "OsCalls", lambda: made)
    monkeypatch.setattr(subsystems, "Watch", partial(PolledWatch, clock=made.now_s))
    yield made
    made.released.set()


@pytest.fixture
def bench(actuator_settings, events, clock, calls):
    class Bench:
        settings, machine = actuator_settings()
        machine_subsystems = HostSubsystems(settings, events, drivers=[], clock=clock)
        executor = machine_subsystems.executors[Subsystem.CPU]

        @property
        def limits_watts(self):
            return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

        @property
        def journal(self):
            return set(journal.peek(subsystems.Path(self.settings.state_dir) / "cpu"))

    made = Bench()
    yield made
    made.machine_subsystems.close()


def test_a_counter_that_blocks_costs_its_own_reading_only(bench, calls):
    calls.reads.add(f"{bench.machine.zones()[0]}/energy_uj")
    reading = bench.executor.execute(ReadCpu())
    assert isinstance(reading, CpuReadings)
    assert [zone.energy_uj is None for zone in reading.zones] == [True, False]
    done = bench.executor.execute(CAP)
    assert (done.result, bench.limits_watts) == (ControlResult.APPLIED, [90, 90])
    assert len(calls.threads) == 1, "the file is not tried again while it blocks"
    calls.release()
    assert all(zone.energy_uj is not None for zone in bench.executor.execute(ReadCpu()).zones)


def test_a_write_that_blocks_is_refused_and_the_other_package_is_capped_and_restored(bench, calls, clock):
    stuck = bench.machine.limits()[0]
    calls.writes.add(stuck)
    done = bench.executor.execute(CAP)
    assert isinstance(done, ControlOutcome)
    assert (done.result, done.reason) != (ControlResult.APPLIED, Reason.CAPPED)
    assert "has not returned" in done.message
    assert bench.limits_watts == [150, 90]
    clock.now += 60
    bench.executor.check()
    assert bench.limits_watts == [150, 150]
    assert len(bench.journal) == 1, "what the blocked write may still do is not forgotten"


def test_a_write_that_lands_late_is_found_and_restored_and_its_thread_does_nothing_else(bench, calls, clock):
    calls.writes.add(bench.machine.limits()[0])
    bench.executor.execute(CAP)
    clock.now += 60
    bench.executor.check()
    held = bench.journal
    calls.release()
    assert bench.limits_watts == [90, 150], "it has landed"
    assert bench.journal == held, "a thread that was given up records nothing"
    clock.now += 15
    assert bench.executor.check() is None
    assert bench.limits_watts == [150, 150]
    assert bench.journal == set()


def test_stopping_restores_what_does_not_block_and_reports_the_rest(bench, calls, clock):
    bench.executor.execute(CAP)
    bench.executor.execute(SetThrottle(throttle_pct=100, lease_s=60))
    calls.reads.add(bench.machine.limits()[0])
    assert not bench.executor.stop(clock.now)
    assert bench.limits_watts == [90, 150]
    assert {bench.machine.read(path) for path in bench.machine.policy_limits()} == {3_900_000}


def test_a_restore_that_blocks_is_reported_and_done_when_the_file_returns(bench, calls, clock, events):
    bench.executor.execute(CAP)
    calls.writes.add(bench.machine.limits()[0])
    report = bench.executor.execute(Restore(subsystem=Subsystem.CPU))
    assert isinstance(report, RestoreReport)
    assert len(report.left) == 1
    assert bench.limits_watts == [90, 150]
    (event,) = events.named("restore incomplete")
    assert [path for path in event["blocked"] if path.endswith(bench.machine.limits()[0])]
    calls.release()
    clock.now += 15
    assert bench.executor.check() is None
    assert bench.limits_watts == [150, 150]


def test_a_whole_driver_that_blocks_leaves_the_rest_of_the_part_to_be_restored(bench, calls, clock):
    bench.executor.execute(CAP)
    bench.executor.execute(SetThrottle(throttle_pct=100, lease_s=60))
    calls.reads.add("/scaling_max_freq")
    assert not bench.executor.stop(clock.now)
    assert bench.limits_watts == [150, 150]
    assert len(calls.threads) == len(bench.machine.policy_limits())


def test_a_journal_that_blocks_stops_caps_and_not_restores(bench, calls, clock, monkeypatch):
    bench.executor.execute(CAP)
    monkeypatch.setattr(journal.os, "fsync", lambda _file: calls.block())
    done = bench.executor.execute(SetCpuCap(cap_watts_per_package=100, lease_s=60))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_JOURNAL)
    assert bench.limits_watts == [90, 90]
    clock.now += 60
    assert bench.executor.check() == RETRY_S
    assert bench.limits_watts == [150, 150]
    assert bench.journal, "the next process restores once more"
    calls.release()


def test_a_machine_whose_discovery_blocks_is_served_all_the_same(actuator_settings, events, clock, calls):
    settings, machine = actuator_settings()
    calls.reads.add(f"{machine.zones()[0]}/name")
    made = HostSubsystems(settings, events, drivers=[], clock=clock)
    assert isinstance(made.executors[Subsystem.CPU].execute(ReadCpu()), CpuReadings)
    made.close()


def test_without_a_thread_to_be_had_everything_is_restored_in_the_callers(bench, monkeypatch, clock):
    bench.executor.execute(CAP)
    bench.executor._thread.stop()

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert bench.executor.stop(clock.now)
    assert bench.limits_watts == [150, 150]
