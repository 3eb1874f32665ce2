"""CPU classes on a /sys with the kernel's semantics: set, combined with the power loop's controls, and restored."""

import errno
from dataclasses import dataclass

import pytest

from joulie_agent.actuator.cpu_class_protocol import ClassAbilities, ClassControl, CpuClassControls, Governor, KhzSpan
from joulie_agent.actuator.cpus import CpuHandler
from joulie_agent.actuator.executor import RETRY_S, SubsystemExecutor
from joulie_agent.actuator.protocol import (
    CpuClassesReport,
    DescribeCpu,
    Epp,
    ReadCpu,
    Restore,
    SetCpuCap,
    SetCpuClasses,
    SetCpuTuning,
    SetThrottle,
    Subsystem,
)
from joulie_agent.hardware.class_knobs import may_disable_idle_states
from joulie_agent.hardware.journal import Journal
from joulie_agent.hardware.journaled_writer import JournaledWriter
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.reasons import Reason
from joulie_agent.testing.kernel import Behaviour, KernelFault, KernelMachine, KernelTree, PolicyReturn
from joulie_agent.testing.machine_spec import PLATFORMS
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_core.control.throttle_plan import ThrottleOrder
from joulie_core.control_result import ControlResult

FREE_KHZ, LOWEST_KHZ, THROTTLED_KHZ = 3_900_000, 1_000_000, 1_500_000
CPUFREQ = "devices/system/cpu/cpufreq"

ECO = CpuClassControls(
    cpus="0-1",
    max_khz=2_000_000,
    epp="power",
    disabled_idle_states=("POLL",),
    throttle_order=ThrottleOrder.ECO,
)
FAST = CpuClassControls(
    cpus="2-3",
    min_khz=FrequencyName.BASE,
    governor=Governor.PERFORMANCE,
    disabled_idle_states=("C6",),
    throttle_order=ThrottleOrder.PERFORMANCE,
)
BOTH = {"eco": ECO, "fast": FAST}


@dataclass
class Bench:
    machine: KernelMachine
    handler: CpuHandler
    writer: JournaledWriter
    executor: SubsystemExecutor
    clock: object

    def apply(self, lease_s=60.0, **classes) -> CpuClassesReport:
        report = self.executor.execute(SetCpuClasses(classes=classes, lease_s=lease_s))
        assert isinstance(report, CpuClassesReport)
        return report

    def throttle(self, pct, lease_s=60.0):
        return self.executor.execute(SetThrottle(throttle_pct=pct, lease_s=lease_s))

    def tune(self, epp=None, uncore_max_khz=None):
        return self.executor.execute(SetCpuTuning(epp=epp, uncore_max_khz=uncore_max_khz, lease_s=60))

    def after(self, seconds):
        self.clock.now += seconds
        return self.executor.check()

    @property
    def limits(self):
        return [self.machine.user_request_khz(name) for name in self.machine.cpufreq.policies]

    def of(self, control):
        """Return what each policy has of `min`, `governor` or `epp`."""
        return [self.machine.class_controls()[f"{name}/{control}"] for name in self.machine.cpufreq.policies]

    @property
    def state(self):
        return self.machine.registers() | self.machine.class_controls()

    def write(self, cpu, file, value):
        self.machine.external_write(f"{CPUFREQ}/policy{cpu}/{file}", value)


@pytest.fixture
def make(tmp_path, writer, clock, events):
    def make(platform="xeon-small", **behaviour):
        machine = KernelMachine(PLATFORMS[platform], Behaviour(**behaviour), clock=clock)
        machine.write_proc(tmp_path)
        handler = CpuHandler(
            tree=KernelTree(machine), proc_root=str(tmp_path), writer=writer, min_freq_khz=THROTTLED_KHZ, clock=clock
        )
        executor = SubsystemExecutor(Subsystem.CPU, handler, events, clock=clock)
        return Bench(machine, handler, writer, executor, clock)

    return make


@pytest.fixture
def bench(make):
    return make()


def controls(**fields):
    return CpuClassControls(**({"cpus": "0-1"} | fields))


def unmet(report, name):
    return {each.control: (each.reason, each.cpus) for each in report.classes[name].unmet}


# --- set ---


def test_a_class_controls_its_cpus_and_no_others(bench):
    before = bench.state
    report = bench.apply(**BOTH)
    changed = {key for key, value in bench.state.items() if value != before[key]}
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6
    assert bench.of("min") == [LOWEST_KHZ] * 2 + [2_500_000] * 2 + [LOWEST_KHZ] * 4
    assert bench.of("epp")[:3] == ["power", "power", "balance_performance"]
    assert bench.of("governor") == ["powersave"] * 2 + ["performance"] * 2 + ["powersave"] * 4
    assert changed == {
        *(f"policy{cpu}" for cpu in (0, 1)),
        *(f"policy{cpu}/epp" for cpu in (0, 1)),
        *(f"policy{cpu}/{control}" for cpu in (2, 3) for control in ("min", "governor")),
        *(f"cpu{cpu}/POLL" for cpu in (0, 1)),
        *(f"cpu{cpu}/C6" for cpu in (2, 3)),
    }
    assert report.failure is None
    assert report.not_restored == ()


def test_the_report_has_what_is_in_force_on_each_class(bench):
    report = bench.apply(**BOTH)
    eco, fast = report.classes["eco"], report.classes["fast"]
    assert (eco.cpus, fast.cpus) == ("0-1", "2-3")
    assert eco.ceiling_khz == KhzSpan(lowest=2_000_000, highest=2_000_000)
    assert fast.floor_khz == KhzSpan(lowest=2_500_000, highest=2_500_000)
    assert (eco.throttled_cpus, eco.unmet, fast.unmet) == (0, (), ())


def test_the_same_classes_again_write_nothing(bench):
    bench.apply(**BOTH)
    before = bench.state
    bench.machine.set_fault(f"{CPUFREQ}/policy0/scaling_max_freq", KernelFault(write_errno=5))
    assert bench.apply(**BOTH).classes["eco"].unmet == ()
    assert bench.state == before


@pytest.mark.parametrize(
    ("frequency", "khz"),
    [(FrequencyName.MIN, [LOWEST_KHZ] * 2), (FrequencyName.BASE, [3_200_000] * 2), (3_500_000, [3_500_000] * 2)],
)
def test_frequencies_are_resolved_for_each_kind_of_core(make, frequency, khz):
    bench = make("client-hybrid")
    bench.apply(all=controls(cpus="0,16", max_khz=frequency))
    found = bench.machine.registers()
    low = 800_000 if frequency is FrequencyName.MIN else khz[0]
    assert [found["policy0"], found["policy16"]] == [low, low]


def test_cpus_that_leave_a_class_have_their_originals_and_those_that_join_its_controls(bench):
    before = bench.state
    bench.apply(eco=ECO)
    report = bench.apply(eco=controls(cpus="1-2", max_khz=2_000_000, epp="power", disabled_idle_states=("POLL",)))
    assert report.classes["eco"].cpus == "1-2"
    assert bench.limits[:4] == [FREE_KHZ, 2_000_000, 2_000_000, FREE_KHZ]
    assert {key for key in ("policy0", "policy0/epp", "cpu0/POLL") if bench.state[key] != before[key]} == set()
    assert bench.machine.class_controls()["cpu2/POLL"] == 1


@pytest.mark.parametrize("refuses_crossed_limits", [False, True], ids=["current kernels", "older kernels"])
def test_limits_never_cross_while_a_class_moves_up_and_down(make, refuses_crossed_limits):
    bench = make(refuses_crossed_limits=refuses_crossed_limits)
    before = bench.state
    for low, high in [(1_100_000, 1_200_000), (3_000_000, 3_500_000), (1_300_000, 2_000_000), (2_000_000, 2_000_000)]:
        report = bench.apply(eco=controls(min_khz=low, max_khz=high))
        assert (bench.of("min")[0], bench.limits[0]) == (low, high)
        assert report.classes["eco"].unmet == ()
    bench.apply(eco=controls(max_khz=1_100_000))
    assert (bench.of("min")[0], bench.limits[0]) == (LOWEST_KHZ, 1_100_000)
    bench.apply(eco=controls(min_khz=3_000_000, max_khz=3_000_000))
    bench.apply()
    assert bench.state == before


# --- put back ---


def end_by_no_class(bench):
    bench.apply()


def end_by_lease(bench):
    bench.after(61)


def end_by_sigterm(bench):
    assert bench.executor.stop(bench.clock.now)


def end_by_request(bench):
    assert not bench.executor.execute(Restore(subsystem=Subsystem.CPU)).left


ENDS = [end_by_no_class, end_by_lease, end_by_sigterm, end_by_request]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("governor", ["powersave", "performance"])
def test_everything_has_its_original_at_the_end(bench, end, governor):
    bench.write(0, "scaling_governor", governor)
    bench.write(2, "scaling_min_freq", 1_200_000)
    bench.write(2, "energy_performance_preference", "balance_power")
    before = bench.state
    bench.apply(eco=controls(cpus="0-1", max_khz=2_000_000, governor=Governor.POWERSAVE, epp="power"), fast=FAST)
    assert bench.state != before
    end(bench)
    assert bench.state == before
    assert not bench.writer.managed


def test_what_a_killed_predecessor_has_set_is_restored(bench, make, tmp_path):
    before = bench.state
    bench.apply(**BOTH)
    heir = SubsystemExecutor(
        Subsystem.CPU,
        CpuHandler(KernelTree(bench.machine), str(tmp_path), bench.writer, THROTTLED_KHZ, bench.clock),
        lambda *_args, **_named: None,
        clock=bench.clock,
    )
    bench.writer.unclaim(bench.writer.managed)
    heir.check()
    assert bench.state == before


def test_an_external_value_of_a_class_control_is_overwritten_and_restored(bench):
    bench.apply(**BOTH)
    bench.write(0, "energy_performance_preference", "balance_power")
    bench.write(3, "scaling_min_freq", 3_000_000)
    report = bench.apply(**BOTH)
    assert "external value" in report.message
    assert bench.of("epp")[0] == "power"
    assert bench.of("min")[3] == 2_500_000
    bench.apply()
    assert bench.of("epp")[0] == "balance_power"
    assert bench.of("min")[3] == 3_000_000


def test_a_lower_limit_that_something_limits_is_restored_all_the_same(bench):
    bench.write(3, "scaling_min_freq", 1_200_000)
    bench.apply(**BOTH)
    bench.machine.set_thermal_state(1, 3)
    bench.apply(**BOTH)
    bench.apply()
    bench.machine.set_thermal_state(1, 0)
    assert bench.of("min")[3] == 1_200_000


def test_a_lower_limit_that_was_found_at_the_upper_one_is_restored_to_it(bench):
    for file in ("scaling_min_freq", "scaling_max_freq"):
        bench.write(3, file, 2_000_000)
    before = bench.state
    bench.apply(a=controls(cpus="3", min_khz=1_500_000))
    assert bench.of("min")[3] == 1_500_000
    bench.apply()
    assert bench.state == before


# --- beside the power loop ---


def test_the_throttle_and_a_class_leave_the_lower_limit(bench):
    bench.apply(low=controls(max_khz=1_200_000), high=controls(cpus="2-3", max_khz=3_000_000))
    report = bench.throttle(100)
    assert report.result is ControlResult.APPLIED
    assert bench.limits == [1_200_000] * 2 + [THROTTLED_KHZ] * 6
    bench.throttle(0)
    assert bench.limits == [1_200_000] * 2 + [3_000_000] * 2 + [FREE_KHZ] * 4


def test_eco_cpus_are_throttled_first_and_performance_cpus_last(bench):
    # Each class has whole cores: CPUs 0 and 4 are threads of one.
    bench.apply(
        eco=controls(cpus="1,5", throttle_order=ThrottleOrder.ECO),
        fast=controls(cpus="0,4", throttle_order=ThrottleOrder.PERFORMANCE),
    )
    throttled = []
    for pct in (25, 75, 100):
        bench.throttle(pct)
        throttled.append([cpu for cpu, khz in enumerate(bench.limits) if khz == THROTTLED_KHZ])
    assert throttled == [[1, 5], [1, 2, 3, 5, 6, 7], list(range(8))]
    assert bench.executor.execute(ReadCpu()).throttled_by_class == {"eco": 2, "fast": 2}
    assert bench.apply(eco=controls(cpus="1,5")).classes["eco"].throttled_cpus == 2
    bench.throttle(0)
    assert bench.executor.execute(ReadCpu()).throttled_by_class == {"eco": 0}


def test_a_throttle_replaces_a_floor_that_is_above_it(bench):
    bench.apply(**BOTH)
    bench.throttle(100)
    assert bench.of("min") == [LOWEST_KHZ] * 8
    report = bench.apply(**BOTH)
    assert unmet(report, "fast") == {ClassControl.MIN_KHZ: (Reason.OVERRULED, "2-3")}
    bench.throttle(0)
    assert bench.of("min")[2:4] == [2_500_000] * 2


def test_the_end_of_the_controllers_lease_leaves_classes_in_force(bench, events):
    bench.throttle(100, lease_s=30)
    bench.executor.execute(SetCpuCap(cap_watts_per_package=90, lease_s=30))
    bench.apply(**BOTH)
    assert bench.after(0) == 30
    bench.after(30)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6
    assert bench.of("min")[2:4] == [2_500_000] * 2
    assert bench.machine.registers()["package-0/long_term"] == 150_000_000
    assert bench.executor.execute(ReadCpu()).throttle_pct == 0
    assert events.named("restored")[-1]["cause"] == "lease expired"


def test_the_end_of_the_resource_managers_lease_leaves_the_throttle_in_force(bench):
    before = bench.state
    bench.throttle(100)
    bench.apply(lease_s=30, **BOTH)
    bench.after(30)
    assert bench.limits == [THROTTLED_KHZ] * 8
    others = {key for key, value in bench.state.items() if value != before[key]}
    assert others == {f"policy{cpu}" for cpu in range(8)}
    bench.throttle(0)
    assert bench.state == before


def test_a_lease_that_has_expired_ends_also_where_a_request_of_the_other_client_comes_first(bench):
    bench.throttle(100, lease_s=30)
    bench.clock.now += 31
    bench.apply(eco=ECO)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_an_expired_lease_of_which_nothing_is_managed_ends_too(bench):
    for cpu in range(8):
        bench.write(cpu, "scaling_max_freq", 1_200_000)
    bench.throttle(100, lease_s=30)
    assert not bench.writer.managed
    bench.clock.now += 31
    for cpu in range(8):
        bench.write(cpu, "scaling_max_freq", FREE_KHZ)
    bench.apply(eco=ECO)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_the_controller_restores_its_own_controls_only(bench):
    bench.throttle(100)
    bench.tune(epp=Epp.BALANCE_POWER)
    bench.apply(**BOTH)
    report = bench.executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert report.left == ()
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6
    assert bench.of("epp")[4:] == ["balance_performance"] * 4
    bench.apply()
    assert not bench.writer.managed


def test_without_classes_the_controller_restores_everything(bench):
    bench.throttle(100)
    bench.executor.execute(Restore(subsystem=Subsystem.CPU, keep_classes=True))
    assert not bench.writer.managed


def test_a_cap_that_releases_the_throttle_leaves_classes_in_force(bench):
    bench.apply(**BOTH)
    bench.throttle(100)
    done = bench.executor.execute(SetCpuCap(cap_watts_per_package=90, release_throttle=True, lease_s=60))
    assert done.unreleased is None
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_a_throttle_that_cannot_be_released_below_a_class_is_reported(bench):
    bench.apply(**BOTH)
    bench.throttle(100)
    bench.machine.set_fault(f"{CPUFREQ}/policy0/scaling_max_freq", KernelFault(write_errno=5))
    done = bench.executor.execute(SetCpuCap(cap_watts_per_package=90, release_throttle=True, lease_s=60))
    assert done.unreleased is not None
    bench.machine.clear_faults()
    bench.apply(**BOTH)
    assert bench.limits[0] == 2_000_000


def test_a_failed_restore_of_one_lease_is_retried_while_the_other_goes_on(bench):
    bench.apply(lease_s=3600, **BOTH)
    bench.throttle(100, lease_s=30)
    stuck = f"{CPUFREQ}/policy7/scaling_max_freq"
    bench.machine.set_fault(stuck, KernelFault(write_errno=5))
    bench.after(30)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 5 + [THROTTLED_KHZ]
    bench.machine.set_fault(stuck, None)
    bench.after(RETRY_S)
    assert bench.limits == [2_000_000] * 2 + [FREE_KHZ] * 6


def test_a_preference_of_a_class_comes_before_tuning_which_returns_after_it(bench):
    done = bench.tune(epp=Epp.BALANCE_POWER)
    assert done.reason is Reason.TUNED
    bench.apply(eco=ECO, fast=controls(cpus="2", epp="performance"))
    assert bench.of("epp") == ["power", "power", "performance"] + ["balance_power"] * 5
    assert bench.tune(epp=Epp.BALANCE_POWER).reason is Reason.TUNED
    assert bench.of("epp")[:3] == ["power", "power", "performance"]
    bench.apply()
    assert bench.of("epp") == ["balance_power"] * 8
    bench.tune()
    assert bench.of("epp") == ["balance_performance"] * 8


def test_tuning_that_ends_leaves_the_preferences_of_classes(bench):
    bench.tune(epp=Epp.BALANCE_POWER)
    bench.apply(eco=ECO)
    assert bench.tune().reason is Reason.RESTORED
    assert bench.of("epp") == ["power"] * 2 + ["balance_performance"] * 6


# --- what cannot be had ---


def test_a_lower_limit_of_an_administrator_stays_in_force_and_shows(bench):
    bench.write(0, "scaling_max_freq", 1_200_000)
    report = bench.apply(**BOTH)
    assert report.classes["eco"].ceiling_khz == KhzSpan(lowest=1_200_000, highest=2_000_000)
    assert report.classes["eco"].unmet == ()
    assert bench.limits[0] == 1_200_000


def test_classes_that_share_a_policy_get_the_higher_limit_which_is_reported(make):
    bench = make("policy-per-package")
    report = bench.apply(eco=controls(cpus="0", max_khz=2_000_000), fast=controls(cpus="1-3,8-11", max_khz=3_000_000))
    assert bench.limits == [3_000_000, FREE_KHZ]
    assert unmet(report, "eco") == {ClassControl.MAX_KHZ: (Reason.OVERRULED, "0")}
    assert unmet(report, "fast") == {}


def test_a_shared_policy_has_the_governor_of_the_class_that_is_throttled_last(make):
    bench = make("policy-per-package")
    report = bench.apply(
        eco=controls(cpus="0", governor=Governor.POWERSAVE, throttle_order=ThrottleOrder.ECO),
        fast=controls(cpus="1", governor=Governor.PERFORMANCE, throttle_order=ThrottleOrder.PERFORMANCE),
    )
    assert bench.of("governor") == ["performance", "powersave"]
    assert unmet(report, "eco") == {ClassControl.GOVERNOR: (Reason.OVERRULED, "0")}


def test_a_preference_that_a_governor_forbids_is_reported_and_the_rest_is_set(bench):
    bench.write(1, "scaling_governor", "performance")
    report = bench.apply(eco=ECO)
    assert unmet(report, "eco") == {ClassControl.EPP: (Reason.IO_ERROR, "1")}
    assert bench.limits[:2] == [2_000_000] * 2
    assert bench.of("epp")[:2] == ["power", "balance_performance"]


def test_a_class_with_governor_performance_has_no_other_preference(bench):
    before = bench.state
    report = bench.apply(a=controls(governor=Governor.PERFORMANCE, epp="power"))
    assert unmet(report, "a") == {ClassControl.EPP: (Reason.OVERRULED, "0-1")}
    report = bench.apply(a=controls(governor=Governor.PERFORMANCE, epp="performance"))
    assert unmet(report, "a") == {}
    bench.apply(a=controls(epp="power"))
    assert (bench.of("governor")[0], bench.of("epp")[0]) == ("powersave", "power")
    bench.apply(a=controls(governor=Governor.PERFORMANCE))
    bench.apply(a=controls(governor=Governor.POWERSAVE))
    assert bench.of("epp")[0] == "balance_performance"
    bench.apply()
    assert bench.state == before


def test_a_governor_that_is_not_managed_is_left_alone(make):
    bench = make("epyc-2s")
    bench.write(0, "scaling_governor", "userspace")
    report = bench.apply(a=controls(governor=Governor.POWERSAVE))
    assert unmet(report, "a") == {ClassControl.GOVERNOR: (Reason.MALFORMED_REPLY, "0")}
    assert bench.of("governor")[:2] == ["userspace", "powersave"]


def test_a_governor_that_a_driver_lacks_is_reported(bench):
    report = bench.apply(a=controls(governor=Governor.SCHEDUTIL))
    assert unmet(report, "a") == {ClassControl.GOVERNOR: (Reason.OUT_OF_RANGE, "0-1")}


def test_a_machine_without_the_interfaces_reports_each_control(make):
    bench = make("virtual-machine")
    wanted = controls(
        min_khz=FrequencyName.MIN,
        max_khz=2_000_000,
        epp="power",
        governor=Governor.POWERSAVE,
        disabled_idle_states=("C6",),
        uncore_max_khz=1_200_000,
    )
    report = bench.apply(a=wanted)
    assert {control for control, (reason, _) in unmet(report, "a").items() if reason is Reason.NO_INTERFACE} == {
        ClassControl.MIN_KHZ,
        ClassControl.MAX_KHZ,
        ClassControl.EPP,
        ClassControl.GOVERNOR,
        ClassControl.IDLE_STATES,
        ClassControl.UNCORE_MAX_KHZ,
    }
    assert report.classes["a"].ceiling_khz is None


def test_idle_states_that_the_kernel_does_not_let_this_process_disable_are_reported(bench):
    before = bench.state
    bench.machine.set_fault("devices/system/cpu/cpu0/cpuidle/state0/disable", KernelFault(write_errno=errno.EPERM))
    report = bench.apply(eco=ECO)
    assert unmet(report, "eco") == {ClassControl.IDLE_STATES: (Reason.NOT_PERMITTED, "0")}
    bench.apply()
    assert bench.state == before
    assert not bench.writer.managed


def test_a_knob_that_fails_does_not_keep_the_others_from_being_set(bench):
    bench.machine.set_fault(f"{CPUFREQ}/policy0/scaling_max_freq", KernelFault(write_errno=5))
    report = bench.apply(**BOTH)
    assert unmet(report, "eco") == {ClassControl.MAX_KHZ: (Reason.IO_ERROR, "0")}
    assert bench.limits[1] == 2_000_000
    assert bench.of("epp")[0] == "power"


def test_without_a_journal_nothing_is_set(bench):
    before = bench.state
    bench.handler.writer = HardwareFailure(Reason.NO_JOURNAL, "the disk is full")
    assert bench.apply(**BOTH).failure == HardwareFailure(Reason.NO_JOURNAL, "the disk is full")
    assert bench.state == before


# --- what can be had ---


def test_a_machine_describes_the_controls_that_it_has(make):
    assert make("xeon-tpmi").executor.execute(DescribeCpu()).class_controls == ClassAbilities(
        frequencies=True,
        base_frequency=True,
        preferences=("default", "performance", "balance_performance", "balance_power", "power"),
        governors=(Governor.PERFORMANCE, Governor.POWERSAVE),
        idle_states=("POLL", "C1", "C1E", "C6"),
        idle_states_permitted=may_disable_idle_states(),
        uncore=True,
    )


def test_a_machine_without_frequency_policies_has_no_controls(make):
    assert make("virtual-machine").executor.execute(DescribeCpu()).class_controls == ClassAbilities()


def test_a_governor_that_no_class_may_select_is_not_described(make):
    found = make("arm-cppc").executor.execute(DescribeCpu()).class_controls
    assert set(found.governors) == set(Governor)
    assert (found.preferences, found.idle_states, found.uncore) == ((), (), False)


# --- hotplug ---


@pytest.mark.parametrize("policy_return", PolicyReturn)
def test_an_offline_cpu_is_left_out_and_has_its_class_again_when_it_returns(make, policy_return):
    bench = make(policy_return=policy_return)
    before = bench.state
    bench.apply(**BOTH)
    bench.machine.set_online(1, online=False)
    report = bench.apply(**BOTH)
    assert (report.classes["eco"].cpus, report.classes["eco"].unmet) == ("0", ())
    bench.machine.set_online(1)
    assert bench.apply(**BOTH).classes["eco"].cpus == "0-1"
    assert bench.limits[:2] == [2_000_000] * 2
    assert bench.of("epp")[1] == "power"
    bench.apply()
    assert bench.state == before


def test_a_cpu_that_returns_after_its_class_has_ended_is_restored(bench):
    before = bench.state
    bench.apply(**BOTH)
    bench.machine.set_online(1, online=False)
    bench.apply()
    assert bench.writer.managed
    bench.machine.set_online(1)
    bench.after(RETRY_S)
    assert bench.state == before


# --- uncore ---


def test_a_die_has_the_highest_uncore_limit_of_its_classes(make):
    bench = make("xeon-tpmi")
    bench.tune(uncore_max_khz=1_800_000)
    # CPUs 0-7 are on package 0.
    report = bench.apply(
        eco=controls(cpus="0-3", uncore_max_khz=1_200_000, uncore_min_khz=900_000),
        fast=controls(cpus="4-7", uncore_max_khz=2_000_000),
    )
    uncore = {key: value for key, value in bench.state.items() if key.startswith("uncore")}
    assert uncore == {
        "uncore/0-0": 2_000_000,
        "uncore/1-0": 1_800_000,
        "uncore/0-0/min": 900_000,
        "uncore/1-0/min": 800_000,
    }
    assert unmet(report, "eco") == {ClassControl.UNCORE_MAX_KHZ: (Reason.OVERRULED, "0-3")}
    bench.apply()
    assert bench.machine.registers()["uncore/0-0"] == 1_800_000
    bench.tune()
    assert not bench.writer.managed


@pytest.fixture
def writer(tmp_path):
    with Journal.open(tmp_path / "state") as journal:
        yield JournaledWriter(journal)
