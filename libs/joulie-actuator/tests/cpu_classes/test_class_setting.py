"""What a class sets on its CPUs, and what is reported of it."""

from joulie_actuator.cpu_class_protocol import ClassAbilities, ClassControl, Governor, KhzSpan
from joulie_actuator.hardware.class_knobs import may_disable_idle_states
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import DescribeCpu
from joulie_actuator.reasons import Reason
from joulie_core.control.cpu_frequency import FrequencyName
from joulie_testing.agent.class_bench import BOTH, CPUFREQ, FREE_KHZ, LOWEST_KHZ, controls, unmet
from joulie_testing.agent.kernel import KernelFault


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
