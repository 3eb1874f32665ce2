"""What follows each outcome of each way to a limit, where a tick shows it at its end alone."""

import pytest

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.enforce.cpu_paths import FIRST_PATHS, CpuPath, CpuRelease, CpuStep, OutcomeClass, step_after
from joulie_agent.enforce.cpu_state import CpuMode
from joulie_core.control_result import ControlResult

OUTCOMES = {
    OutcomeClass.APPLIED: (ControlResult.APPLIED, Reason.CAPPED),
    OutcomeClass.IN_PART: (ControlResult.BLOCKED, Reason.HELD_BY_FIRMWARE),
    OutcomeClass.BLOCKED: (ControlResult.BLOCKED, Reason.REFUSED),
    OutcomeClass.FAILED: (ControlResult.ERROR, Reason.BACKEND_FAILED),
    OutcomeClass.UNREACHED: (ControlResult.ERROR, Reason.TIMEOUT),
}
THROTTLES = (CpuPath.THROTTLE_AFTER_CAP, CpuPath.THROTTLE_BESIDE_CAP, CpuPath.THROTTLE_ONLY)


def after(path, kind):
    result, reason = OUTCOMES[kind]
    return step_after(path, ControlOutcome(result, reason, "test"))


@pytest.mark.parametrize("path", CpuPath)
def test_what_was_not_reached_changes_nothing(path):
    assert after(path, OutcomeClass.UNREACHED) == CpuStep()


@pytest.mark.parametrize("path", THROTTLES)
def test_the_loop_holds_the_power_where_a_throttle_is_in_force_and_nothing_does_where_it_failed(path):
    assert after(path, OutcomeClass.APPLIED).mode is CpuMode.DVFS
    assert after(path, OutcomeClass.BLOCKED).mode is CpuMode.NONE
    assert after(path, OutcomeClass.FAILED) == CpuStep(CpuMode.NONE)


@pytest.mark.parametrize("path", THROTTLES)
def test_of_a_throttle_in_part_is_no_outcome_of_its_own(path):
    assert after(path, OutcomeClass.IN_PART) == after(path, OutcomeClass.BLOCKED)


def test_no_path_leads_to_more_than_one_other():
    """A tick makes two attempts at most."""
    for path in set(FIRST_PATHS.values()):
        for kind in OutcomeClass:
            then = after(path, kind).then
            assert then is None or all(after(then, each).then is None for each in OutcomeClass)


@pytest.mark.parametrize("path", [CpuPath.THROTTLE_AFTER_CAP, CpuPath.THROTTLE_BESIDE_CAP])
def test_a_cap_that_the_mode_permits_stays_where_no_throttle_is_possible(path):
    assert after(path, OutcomeClass.BLOCKED).release is CpuRelease.NOTHING
    assert after(CpuPath.THROTTLE_ONLY, OutcomeClass.BLOCKED).release is CpuRelease.ALL
