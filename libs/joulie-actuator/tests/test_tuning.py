"""The optional controls: energy performance preference and uncore frequency, set, restored and left alone."""

import pytest

from joulie_actuator.cpus import CpuHandler
from joulie_actuator.hardware.cpu_tuning import epp_code, epp_text
from joulie_actuator.hardware.journal import Journal
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import SetCpuCap, SetCpuTuning, SetThrottle
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS

CPU = "devices/system/cpu"
UNCORE = "intel_uncore_frequency/package_0{}_die_00"


@pytest.fixture
def machine(tmp_path):
    fake = build(tmp_path / "machine", PLATFORMS["xeon-2s"])
    for policy in (fake.sys / CPU / "cpufreq").iterdir():
        (policy / "energy_performance_preference").write_text("balance_performance\n")
    for package in (0, 1):
        directory = fake.sys / CPU / UNCORE.format(package)
        directory.mkdir(parents=True)
        for name, khz in (("initial_min", 800_000), ("initial_max", 2_400_000), ("max", 2_400_000 - 100_000 * package)):
            (directory / f"{name}_freq_khz").write_text(f"{khz}\n")
    return fake


@pytest.fixture
def handler(machine, tmp_path):
    with Journal.open(tmp_path / "state", boot_id="1") as journal:
        yield CpuHandler(machine.tree(), str(machine.proc), JournaledWriter(journal), 1_500_000, clock=lambda: 0.0)


def preferences(machine):
    files = (machine.sys / CPU / "cpufreq").glob("policy*/energy_performance_preference")
    return {file.read_text().partition("\n")[0] for file in files}


def uncore(machine):
    return [machine.read(f"{CPU}/{UNCORE.format(package)}/max_freq_khz") for package in (0, 1)]


def ask(epp=None, uncore_max_khz=None):
    return SetCpuTuning(epp=epp, uncore_max_khz=uncore_max_khz, lease_s=60)


@pytest.mark.parametrize(
    "text", ["power", "balance_power", "default", "balance_performance", "performance", "0", "128", "255"]
)
def test_every_preference_is_written_back_as_it_was_read(text):
    assert epp_text(epp_code(text)) == text


def test_a_lower_code_never_asks_for_more_performance():
    words = ["power", "balance_power", "balance_performance", "performance"]
    assert [epp_code(word) for word in words] == sorted(epp_code(word) for word in words)
    numbers = [epp_code(str(number)) for number in range(256)]
    assert numbers == sorted(numbers, reverse=True)


@pytest.mark.parametrize("text", ["", "256", "-1", "fast"])
def test_an_unknown_preference_is_refused_and_not_guessed(text):
    assert epp_code(text).reason is Reason.MALFORMED_REPLY


def test_both_are_set_everywhere_and_restored_when_they_are_no_longer_wanted(machine, handler):
    done = handler.execute(ask("power", 1_200_000))
    assert (done.result, done.reason) == (ControlResult.APPLIED, Reason.TUNED)
    assert (preferences(machine), uncore(machine)) == ({"power"}, [1_200_000, 1_200_000])
    assert handler.execute(ask()).reason is Reason.RESTORED
    assert (preferences(machine), uncore(machine)) == ({"balance_performance"}, [2_400_000, 2_300_000])
    assert not handler.writer.managed


def test_what_is_left_out_is_restored_and_the_rest_stays(machine, handler):
    handler.execute(ask("power", 1_200_000))
    handler.execute(ask("power"))
    assert (preferences(machine), uncore(machine)) == ({"power"}, [2_400_000, 2_300_000])


def test_an_uncore_limit_below_what_the_hardware_can_run_at_is_raised(machine, handler):
    handler.execute(ask(uncore_max_khz=100_000))
    assert uncore(machine) == [800_000, 800_000]


def test_caps_and_throttles_that_take_over_from_each_other_leave_them_alone(machine, handler):
    handler.execute(ask("power", 1_200_000))
    handler.execute(SetCpuCap(cap_watts_per_package=80, lease_s=60, release_throttle=True))
    handler.execute(SetThrottle(throttle_pct=50, lease_s=60, release_caps=True))
    assert (preferences(machine), uncore(machine)) == ({"power"}, [1_200_000, 1_200_000])


def test_a_restore_of_everything_restores_them_too(machine, handler):
    handler.execute(ask("power", 1_200_000))
    assert all(knob.done for knob in handler.restore(handler.writer.managed).knobs)
    assert (preferences(machine), uncore(machine)) == ({"balance_performance"}, [2_400_000, 2_300_000])


def test_a_machine_without_the_controls_is_blocked(tmp_path):
    fake = build(tmp_path / "other", PLATFORMS["epyc-2s"])
    with Journal.open(tmp_path / "state", boot_id="1") as journal:
        handler = CpuHandler(fake.tree(), str(fake.proc), JournaledWriter(journal), 1_500_000, clock=lambda: 0.0)
        done = handler.execute(ask("power", 1_200_000))
    assert (done.result, done.reason) == (ControlResult.BLOCKED, Reason.NO_INTERFACE)
    assert "preference" in done.message
    assert "uncore" in done.message


def test_without_a_journal_nothing_is_set(machine):
    failure = HardwareFailure(Reason.NO_JOURNAL, "the disk is full")
    handler = CpuHandler(machine.tree(), str(machine.proc), failure, 1_500_000, clock=lambda: 0.0)
    assert handler.execute(ask("power")).reason is Reason.NO_JOURNAL
    assert preferences(machine) == {"balance_performance"}
