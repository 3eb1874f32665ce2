import errno
import shutil

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.knob_results import RestoreOutcome
from joulie_actuator.hardware.power_meter import total_watts
from joulie_actuator.protocol import DescribeCpu, ReadCpu, SetCpuCap, SetThrottle
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.fake_sysfs import FakeTree, FileFault


def cap(watts, **options):
    return SetCpuCap(cap_watts_per_package=watts, lease_s=60, **options)


def throttle(pct, **options):
    return SetThrottle(throttle_pct=pct, lease_s=60, **options)


def test_a_cap_is_per_package_and_is_restored_as_found(cpu_bench):
    bench = cpu_bench()
    done = bench.handler.execute(cap(90))
    assert (done.result, done.reason, done.backend, done.enforced_watts) == (
        ControlResult.APPLIED,
        Reason.CAPPED,
        "rapl",
        90,
    )
    assert bench.limits_watts == [90, 90]
    report = bench.handler.restore(bench.writer.managed)
    assert [knob.outcome for knob in report.knobs] == [RestoreOutcome.RESTORED] * 2
    assert bench.limits_watts == [150, 150]


def test_a_package_of_several_dies_holds_the_cap_with_all_of_them(cpu_bench):
    bench = cpu_bench("xeon-multi-die")
    assert bench.handler.execute(cap(300)).enforced_watts == 300
    assert bench.limits_watts == [150] * 4


def test_a_cap_below_the_range_is_raised_to_its_minimum_with_a_message(cpu_bench):
    bench = cpu_bench()
    done = bench.handler.execute(cap(10))
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.CLAMPED, 37.5)
    assert "limited to 37.5 W" in done.message


@pytest.mark.parametrize("watts", [125, 5000])
def test_a_cap_that_is_not_below_the_range_leaves_a_factory_limit_above_it_as_it_is(watts, cpu_bench):
    bench = cpu_bench("client-hybrid")  # its range ends at 125 W, and the factory limit is 241 W
    for before in (watts, 90):
        bench.handler.execute(cap(before))
        done = bench.handler.execute(cap(watts))
        assert (done.result, done.reason, done.enforced_watts) == (ControlResult.APPLIED, Reason.RESTORED, 241)
        assert "no limit is set on package-0" in done.message
        assert bench.limits_watts == [241]
        assert bench.writer.managed == frozenset()


def test_a_cap_that_is_no_cap_and_cannot_be_lifted_is_an_error(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(cap(90))
    bench.machine.faults[bench.machine.limits()[0]] = FileFault(write_errno=errno.EIO)
    assert bench.handler.execute(cap(150)).result is ControlResult.ERROR
    assert bench.limits_watts == [90, 150]
    assert bench.writer.unclaimed == {"rapl/package-0/long_term"}  # retried by the executor


def test_without_a_maximum_the_range_ends_at_the_original_and_not_at_our_own_cap(cpu_bench):
    bench = cpu_bench("xeon-unknown-maximum")
    for watts in (60, 140, 40, 140):
        bench.handler.execute(cap(watts))
        bench.clock.now += 61  # hardware is looked for again
        assert bench.handler.execute(cap(watts)).enforced_watts == watts
    assert bench.handler.execute(cap(200)).enforced_watts == 150
    assert bench.writer.managed == frozenset()


def test_without_a_maximum_the_range_of_a_predecessors_cap_ends_at_the_original(cpu_bench, writer, clock):
    bench = cpu_bench("xeon-unknown-maximum")
    bench.handler.execute(cap(60))
    reborn = CpuHandler(
        tree=bench.machine.tree(), proc_root=str(bench.machine.proc), writer=writer, min_freq_khz=1_500_000, clock=clock
    )
    assert reborn.execute(cap(140)).enforced_watts == 140
    assert reborn.execute(DescribeCpu()).facts.max_package_watts is None


def test_a_cap_lifts_the_throttle_that_held_the_power_before_it(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(throttle(100))
    assert bench.handler.execute(cap(90)).result is ControlResult.APPLIED
    assert set(bench.policies_khz) == {1_500_000}
    assert bench.handler.execute(cap(90, release_throttle=True)).result is ControlResult.APPLIED
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.limits_watts == [90, 90]
    assert bench.handler.execute(ReadCpu()).throttle_pct == 0


def test_a_throttle_lifts_the_caps_that_held_the_power_before_it(cpu_bench):
    bench = cpu_bench("xeon-switched-off")
    bench.handler.execute(cap(90))
    assert bench.handler.execute(throttle(50)).result is ControlResult.APPLIED
    assert bench.limits_watts == [90]
    assert bench.handler.execute(throttle(50, release_caps=True)).result is ControlResult.APPLIED
    assert bench.limits_watts == [150]
    assert all(key.startswith("cpufreq/") for key in bench.writer.managed)


def test_what_is_not_in_force_lifts_nothing(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(throttle(100))
    for path in bench.machine.limits():
        bench.machine.faults[path] = FileFault(write_errno=errno.EIO)
    assert bench.handler.execute(cap(90, release_throttle=True)).result is ControlResult.ERROR
    assert set(bench.policies_khz) == {1_500_000}


def test_a_throttle_that_cannot_be_lifted_is_reported_with_the_cap_and_unclaimed(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(throttle(100))
    bench.machine.faults[bench.machine.policy_limits()[0]] = FileFault(write_errno=errno.EIO)
    done = bench.handler.execute(cap(90, release_throttle=True))
    assert done.result is ControlResult.APPLIED
    assert "not released yet: cpufreq/cpu0/scaling_max_freq" in done.message
    assert bench.writer.unclaimed == {"cpufreq/cpu0/scaling_max_freq"}


def test_what_the_hardware_rounds_is_reported_as_it_holds(cpu_bench):
    bench = cpu_bench()
    assert bench.handler.execute(cap(100.06)).enforced_watts == 100


@pytest.mark.parametrize(
    ("platform", "reason"),
    [
        ("xeon-locked", Reason.FIRMWARE_LOCKED),
        ("xeon-held", Reason.FIRMWARE_LOCKED),
        ("xeon-read-only", Reason.NOT_PERMITTED),
        ("epyc-2s", Reason.NO_INTERFACE),
        ("epyc-no-constraints", Reason.NO_INTERFACE),
        ("virtual-machine", Reason.NO_INTERFACE),
    ],
)
def test_a_cap_that_this_machine_cannot_hold_is_blocked_with_the_reason(platform, reason, cpu_bench):
    bench = cpu_bench(platform)
    done = bench.handler.execute(cap(90))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, reason)
    assert done.message
    assert bench.writer.managed <= {"rapl/package-0/long_term"}
    assert all(knob.done for knob in bench.handler.restore(bench.writer.managed).knobs)
    assert bench.writer.managed == frozenset()


def test_a_limit_that_is_switched_off_is_switched_on_and_off_again(cpu_bench):
    bench = cpu_bench("xeon-switched-off")
    (zone,) = bench.machine.zones()
    assert bench.handler.execute(cap(90)).result is ControlResult.APPLIED
    assert bench.machine.read(f"{zone}/enabled") == 1
    bench.handler.restore(bench.writer.managed)
    assert bench.machine.read(f"{zone}/enabled") == 0
    assert bench.limits_watts == [150]


def test_a_package_that_fails_is_reported_as_partly_applied_and_the_other_stays_capped(cpu_bench):
    bench = cpu_bench()
    bench.machine.faults[bench.machine.limits()[0]] = FileFault(write_errno=errno.EIO)
    done = bench.handler.execute(cap(90))
    assert (done.result, done.reason, done.enforced_watts) == (ControlResult.ERROR, Reason.PARTLY_APPLIED, None)
    assert done.message.startswith("1 of 2 packages capped")
    assert bench.limits_watts == [150, 90]
    bench.handler.restore(bench.writer.managed)
    assert bench.limits_watts == [150, 150]


def test_a_package_without_a_zone_makes_a_cap_partly_applied(cpu_bench):
    bench = cpu_bench()
    shutil.rmtree(bench.machine.sys / bench.machine.zones()[1])
    bench.clock.now += 61
    done = bench.handler.execute(cap(90))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.PARTLY_APPLIED)
    assert "1 of 2 packages capped" in done.message
    assert bench.limits_watts == [90]


def test_the_power_of_one_of_two_packages_is_not_the_power_of_the_node(cpu_bench):
    bench = cpu_bench()
    shutil.rmtree(bench.machine.sys / bench.machine.zones()[1])
    bench.clock.now += 61
    bench.handler.execute(ReadCpu())
    bench.clock.now += 2
    bench.machine.consume(bench.machine.zones()[0], 160)
    readings = bench.handler.execute(ReadCpu()).zones
    assert readings[0].power_watts == 80
    assert total_watts(readings) is None


def test_a_limit_that_firmware_holds_above_the_cap_is_reported_with_its_watts(cpu_bench, monkeypatch):
    bench = cpu_bench()
    for path in bench.machine.limits():
        bench.machine.write(path, 200_000_000)
    monkeypatch.setattr(FakeTree, "write_int", _at_least(150_000_000))
    for _ in range(2):  # the second time nothing is written
        done = bench.handler.execute(cap(120))
        assert (done.result, done.reason, done.enforced_watts) == (ControlResult.BLOCKED, Reason.HELD_BY_FIRMWARE, 150)
        assert "package-0 holds 150 W where 120 W was written" in done.message
    bench.handler.restore(bench.writer.managed)
    assert bench.limits_watts == [200, 200]


def _at_least(lowest):
    write_int = FakeTree.write_int
    return lambda tree, path, value: write_int(tree, path, max(lowest, value) if "power_limit" in path else value)


def test_an_external_limit_is_overwritten_reported_and_counted(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(cap(90))
    bench.machine.write(bench.machine.limits()[1], 120_000_000)
    done = bench.handler.execute(cap(90))
    assert "overwrote external value 120000000" in done.message
    assert sum(bench.handler.execute(ReadCpu()).overwritten.values()) == 1
    bench.handler.restore(bench.writer.managed)
    assert bench.limits_watts == [150, 120]


def test_zones_that_are_renumbered_get_their_own_originals_back(cpu_bench, writer, clock):
    bench = cpu_bench()
    for path, uw in zip(bench.machine.limits(), (140_000_000, 120_000_000), strict=True):
        bench.machine.write(path, uw)
    bench.handler.execute(cap(90))
    first, second = ((bench.machine.sys / zone / "name") for zone in bench.machine.zones())
    first_name, second_name = first.read_text(), second.read_text()
    for file, name in ((first, second_name), (second, first_name)):
        file.chmod(0o644)
        file.write_text(name)
    reborn = CpuHandler(
        tree=bench.machine.tree(), proc_root=str(bench.machine.proc), writer=writer, min_freq_khz=1_500_000, clock=clock
    )
    assert {knob.key: knob.value for knob in reborn.restore(writer.managed).knobs} == {
        "rapl/package-0/long_term": 140_000_000,
        "rapl/package-1/long_term": 120_000_000,
    }
    assert bench.limits_watts == [120, 140]  # by directory, which now is the other package's


def test_a_policy_whose_directory_is_renumbered_is_the_same_policy(cpu_bench, writer, clock):
    bench = cpu_bench("policy-per-package")
    bench.machine.write(bench.machine.policy_limits()[0], 3_000_000)
    bench.handler.execute(throttle(100))
    root = bench.machine.sys / "devices/system/cpu/cpufreq"
    (root / "policy0").rename(root / "policy2")  # CPU 2 was the first to come online
    assert [knob.value for knob in bench.handler.restore(writer.managed).knobs] == [3_000_000, 3_900_000]


def test_a_throttle_slows_its_share_of_the_policies_and_zero_frees_them(cpu_bench):
    bench = cpu_bench()
    done = bench.handler.execute(throttle(50))
    assert (done.result, done.backend) == (ControlResult.APPLIED, "dvfs")
    assert sorted(bench.policies_khz) == [1_500_000] * 16 + [3_900_000] * 16
    assert bench.handler.execute(ReadCpu()).throttle_pct == 50
    bench.handler.execute(throttle(25))
    assert sorted(bench.policies_khz) == [1_500_000] * 8 + [3_900_000] * 24
    assert bench.handler.execute(throttle(0)).reason is Reason.RESTORED
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.writer.managed == frozenset()


def test_a_throttle_never_raises_a_lower_external_limit(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(throttle(100))
    path = bench.machine.policy_limits()[0]
    bench.machine.write(path, 1_200_000)
    bench.handler.execute(throttle(100))
    assert bench.machine.read(path) == 1_200_000
    bench.handler.execute(throttle(0))
    assert bench.machine.read(path) == 1_200_000


def test_a_policy_that_fails_is_named_and_the_others_are_throttled(cpu_bench):
    bench = cpu_bench()
    bench.machine.faults[bench.machine.policy_limits()[0]] = FileFault(write_errno=errno.EIO)
    done = bench.handler.execute(throttle(100))
    assert done.result is ControlResult.APPLIED
    assert "1 of 32 policies failed" in done.message


def test_without_policies_a_throttle_is_blocked(cpu_bench):
    done = cpu_bench("virtual-machine").handler.execute(throttle(50))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_INTERFACE)


def test_a_throttle_that_cannot_be_lifted_is_an_error(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(throttle(100))
    for path in bench.machine.policy_limits():
        bench.machine.faults[path] = FileFault(write_errno=errno.EIO)
    assert bench.handler.execute(throttle(0)).result is ControlResult.ERROR
    assert len(bench.writer.managed) == 32


def test_a_cpu_that_went_offline_is_restored_when_it_returns(cpu_bench):
    bench = cpu_bench()
    bench.handler.execute(throttle(100))
    bench.machine.set_offline(3)
    left = bench.handler.restore(bench.writer.managed).left
    assert [(knob.key, knob.reason) for knob in left] == [("cpufreq/cpu3/scaling_max_freq", Reason.NO_DEVICE)]
    bench.machine.set_offline()
    bench.machine.write("devices/system/cpu/cpufreq/policy3/scaling_max_freq", 1_500_000)  # as cpufreq remembers it
    assert bench.handler.restore(bench.writer.managed).left == ()
    assert set(bench.policies_khz) == {3_900_000}


def test_without_a_journal_nothing_is_written(cpu_bench):
    bench = cpu_bench()
    bench.handler.writer = HardwareFailure(Reason.NO_JOURNAL, "damaged")
    for request in (cap(90), throttle(50)):
        done = bench.handler.execute(request)
        assert (done.result, done.reason, done.message) == (ControlResult.BLOCKED, Reason.NO_JOURNAL, "damaged")
    assert bench.limits_watts == [150, 150]
    assert set(bench.policies_khz) == {3_900_000}
    assert bench.handler.execute(DescribeCpu()).journal == HardwareFailure(Reason.NO_JOURNAL, "damaged")


def test_power_is_computed_from_two_readings_of_the_counters(cpu_bench):
    bench = cpu_bench()
    assert [zone.power_watts for zone in bench.handler.execute(ReadCpu()).zones] == [None, None]
    bench.clock.now += 2
    for zone in bench.machine.zones():
        bench.machine.consume(zone, 160)
    assert [zone.power_watts for zone in bench.handler.execute(ReadCpu()).zones] == [80, 80]


def test_hardware_that_appears_late_is_found_within_a_minute_with_a_new_revision(cpu_bench):
    bench = cpu_bench()
    bench.machine.unload_rapl()
    bench.clock.now += 61
    assert bench.handler.execute(cap(90)).result is ControlResult.BLOCKED
    gone = bench.handler.execute(DescribeCpu())
    bench.machine.load_rapl()
    bench.clock.now += 61
    assert bench.handler.execute(cap(90)).result is ControlResult.APPLIED
    assert bench.handler.execute(DescribeCpu()).revision == gone.revision + 1


def test_a_description_has_what_works_and_why_not(cpu_bench):
    works = cpu_bench().handler.execute(DescribeCpu())
    assert (works.reading, works.capping, works.throttling, works.journal) == (None, None, None, None)


def test_a_description_of_a_virtual_machine_names_what_it_lacks(cpu_bench):
    lacks = cpu_bench("virtual-machine").handler.execute(DescribeCpu())
    assert {lacks.reading.reason, lacks.capping.reason, lacks.throttling.reason} == {Reason.NO_INTERFACE}
