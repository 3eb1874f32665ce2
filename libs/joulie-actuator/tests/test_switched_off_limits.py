"""Power limits that firmware has left switched off, zones that get other numbers, and tools that save and restore."""

import os
from dataclasses import replace

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware import journal as journal_module
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.protocol import SetCpuCap, SetThrottle, Subsystem
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.kernel import Behaviour, KernelFault, KernelMachine, KernelTree
from joulie_testing.agent.kill_points import Fate, Killed
from joulie_testing.agent.machine_spec import PLATFORMS, Limit

SMALL = PLATFORMS["xeon-small"]
ZONES = ("package-0", "package-1")
CAP_UW = 120_000_000


class WatchedTree(KernelTree):
    """The process may die before and after each write; each write shows what is in force then."""

    def __init__(self, machine, fate):
        super().__init__(machine)
        self._machine_, self._fate = machine, fate
        self.in_force_uw = set()

    def write_text(self, path, text):
        self._fate.step()
        failure = super().write_text(path, text)
        self.in_force_uw |= {self._machine_.powercap.zone(zone).in_force_uw for zone in ZONES}
        self._fate.step()
        return failure


class Bench:
    def __init__(self, directory, clock, log, spec, **behaviour):
        self.clock, self.directory, self.log = clock, directory, log
        self.machine = KernelMachine(spec, Behaviour(**behaviour), clock=clock)
        self.machine.write_proc(directory)
        self.fate = Fate()
        self.tree = WatchedTree(self.machine, self.fate)
        self.start()

    def start(self):
        self.journal = Journal.open(self.directory / "state")
        self.handler = CpuHandler(
            tree=self.tree,
            proc_root=str(self.directory),
            writer=JournaledWriter(self.journal),
            min_freq_khz=1_500_000,
            clock=self.clock,
        )
        self.executor = SubsystemExecutor(Subsystem.CPU, self.handler, self.log, clock=self.clock)

    def cap(self, watts=120.0):
        return self.executor.execute(SetCpuCap(cap_watts_per_package=watts, lease_s=60))

    def throttle(self):
        return self.executor.execute(SetThrottle(throttle_pct=100, lease_s=60))

    def stop(self):
        """End as after SIGTERM."""
        assert self.executor.stop(self.clock.now)

    def limits(self):
        registers = self.machine.registers()
        return [(registers[f"{zone}/long_term"], registers[f"{zone}/enabled"]) for zone in ZONES]

    def set_by_another(self, path, value):
        self.machine.external_write(path, value)


@pytest.fixture
def make(tmp_path, clock, events):
    benches = []

    def make(*, limit=Limit.SWITCHED_OFF, limit_watts=0.0, **behaviour):
        spec = replace(SMALL, limit=limit, limit_watts=limit_watts)
        benches.append(Bench(tmp_path, clock, events, spec, **behaviour))
        return benches[-1]

    yield make
    for bench in benches:
        bench.journal.close()


@pytest.mark.parametrize("found_watts", [0, 90, 150])
def test_a_cap_is_in_force_where_firmware_has_left_the_limit_switched_off(found_watts, make):
    bench = make(limit_watts=found_watts)
    for _ in range(3):
        done = bench.cap()
        assert (done.result, done.enforced_watts) == (ControlResult.APPLIED, 120)
        assert bench.limits() == [(CAP_UW, 1)] * 2
    bench.stop()
    assert bench.limits() == [(found_watts * 1_000_000, 0)] * 2
    assert bench.tree.in_force_uw <= {None, CAP_UW}


def test_a_limit_that_is_switched_off_and_takes_no_other_value_stays_off(make):
    bench = make()
    for zone in ZONES:
        bench.machine.set_fault(bench.machine.limit_path(zone), KernelFault(ignores_writes=True))
    done = bench.cap()
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.FIRMWARE_LOCKED)
    assert bench.limits() == [(0, 0)] * 2
    assert 0 not in bench.tree.in_force_uw


def test_a_limit_that_cannot_be_switched_off_again_keeps_the_cap_and_not_0_watts(make, clock):
    bench = make()
    bench.cap()
    switch = f"{bench.machine.zone_path('package-0')}/enabled"
    bench.machine.set_fault(switch, KernelFault(ignores_writes=True))
    assert not bench.executor.stop(clock.now)
    assert bench.limits() == [(CAP_UW, 1), (0, 0)]
    bench.machine.clear_faults()
    bench.stop()
    assert bench.limits() == [(0, 0)] * 2


def test_a_limit_that_a_user_switches_off_during_a_cap_is_off_after_it(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    bench.cap()
    bench.set_by_another(f"{bench.machine.zone_path('package-0')}/enabled", 0)
    assert bench.cap().result is ControlResult.APPLIED
    assert bench.limits() == [(CAP_UW, 1)] * 2
    bench.stop()
    assert bench.limits() == [(150_000_000, 0), (150_000_000, 1)]


def test_a_cap_that_limits_nothing_reports_no_watts_where_the_limit_is_switched_off(make):
    bench = make()
    done = bench.cap(150.0)
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.RESTORED, None)
    assert bench.limits() == [(0, 0)] * 2


@pytest.mark.parametrize("found_watts", [0, 90])
def test_a_kill_at_any_point_leaves_no_limit_of_0_watts_in_force_and_loses_no_original(found_watts, make, monkeypatch):
    bench = make(limit_watts=found_watts)

    class MortalOs:
        def __getattr__(self, name):
            call = getattr(os, name)
            if name not in {"write", "replace", "fsync"}:
                return call

            def mortal(*args, **kwargs):
                bench.fate.step()
                result = call(*args, **kwargs)
                bench.fate.step()
                return result

            return mortal

    monkeypatch.setattr(journal_module, "os", MortalOs())

    def survives(step, act):
        try:
            with bench.fate.killed_at(step):
                act()
        except Killed:
            return False
        finally:
            bench.journal.close()
            bench.start()
        return True

    wrote, first = False, 0
    while not wrote:
        first += 1
        second, restored = 0, False
        while not restored:
            second += 3
            wrote = survives(first, lambda: bench.handler.execute(SetCpuCap(cap_watts_per_package=120.0, lease_s=60)))
            restored = survives(second, lambda: bench.handler.restore(bench.handler.writer.managed))
            assert survives(None, lambda: bench.handler.restore(bench.handler.writer.managed))
            assert bench.limits() == [(found_watts * 1_000_000, 0)] * 2, f"killed at steps {first} and {second}"
            assert not bench.journal.entries
    assert first > 10
    assert bench.tree.in_force_uw <= {None, CAP_UW}


def test_zones_that_are_renumbered_before_the_first_cap_keep_their_own_originals(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    for zone, watts in zip(ZONES, (140, 130), strict=True):
        bench.set_by_another(bench.machine.limit_path(zone), watts * 1_000_000)
    bench.machine.renumber_zones(order=["package-1", "package-0"])
    assert bench.cap().result is ControlResult.APPLIED
    bench.machine.renumber_zones(order=ZONES)
    bench.stop()
    assert bench.limits() == [(140_000_000, 1), (130_000_000, 1)]


def test_zones_that_are_renumbered_before_a_throttle_replaces_the_cap_have_their_own_originals_back(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    for zone, watts in zip(ZONES, (140, 130), strict=True):
        bench.set_by_another(bench.machine.limit_path(zone), watts * 1_000_000)
    bench.cap()
    bench.machine.renumber_zones(order=["package-1", "package-0"])
    bench.executor.execute(SetThrottle(throttle_pct=50, lease_s=60, release_caps=True))
    assert bench.limits() == [(140_000_000, 1), (130_000_000, 1)]


def test_a_cap_that_another_tool_saved_and_wrote_back_ends_with_its_owner(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    bench.cap()
    path = bench.machine.limit_path("package-0")
    saved = int(bench.machine.external_read(path))
    bench.set_by_another(path, 90_000_000)
    assert "external value 90000000 is lower and stays in force" in bench.cap().message
    bench.set_by_another(path, saved)
    bench.stop()
    assert bench.limits() == [(150_000_000, 1)] * 2


def test_a_throttle_that_another_tool_saved_and_wrote_back_ends_with_its_owner(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    bench.throttle()
    path = "devices/system/cpu/cpufreq/policy3/scaling_max_freq"
    saved = int(bench.machine.external_read(path))
    bench.set_by_another(path, 1_200_000)
    bench.throttle()
    assert bench.machine.user_request_khz("policy3") == 1_200_000
    bench.set_by_another(path, saved)
    bench.stop()
    assert {bench.machine.user_request_khz(name) for name in bench.machine.cpufreq.policies} == {3_900_000}


def test_a_limit_that_reads_a_power_unit_less_after_the_write_is_still_joulies(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    bench.cap()
    bench.set_by_another(bench.machine.limit_path("package-0"), CAP_UW - 125_000)
    bench.cap()
    bench.stop()
    assert bench.limits() == [(150_000_000, 1)] * 2


def test_a_platform_limit_that_shows_nowhere_at_the_first_throttle_does_not_become_the_original(make):
    bench = make(limit=Limit.WRITABLE, limit_watts=150)
    bench.machine.set_platform_limit("policy0", 2_000_000)
    bench.throttle()
    bench.machine.set_platform_limit("policy0", None)
    bench.stop()
    assert bench.machine.user_request_khz("policy0") == 3_900_000
