"""The ways to a limit of a node's CPUs: which comes first, and what follows the outcome of each.

Source: docs/decisions/0006-kernel-semantics.md and 0007-dvfs.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.enforce.cpu_state import IN_FORCE_IN_PART, CpuMode
from joulie_core.control.caps_resolve import PctCap, WattCap
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import CpuControlMode

#: Faults of the backend as a whole: another action would meet the same, so there is nothing to fall back to.
_NO_FALLBACK: Final = frozenset(
    {
        Reason.TIMEOUT,
        Reason.UNREACHABLE,
        Reason.NOT_FOUND,
        Reason.BAD_ENDPOINT,
        Reason.BAD_SECRET,
        Reason.TURNED_OFF,
        Reason.HOST_IN_POOL,
        Reason.SIMULATE_ONLY,
        Reason.NO_HOST_INTERFACE,
    }
)


class CpuPath(Enum):
    """One way to a limit, by what else the intent permits."""

    CAP_ONLY = auto()
    CAP_FIRST = auto()
    #: In place of a cap that failed.
    THROTTLE_AFTER_CAP = auto()
    #: Does what a cap that is in force in part leaves to do.
    THROTTLE_BESIDE_CAP = auto()
    THROTTLE_ONLY = auto()
    #: A percentage of a maximum that is not known, where throttling is turned off.
    NONE = auto()


class OutcomeClass(Enum):
    """Outcomes of an action between which the next step differs."""

    APPLIED = auto()
    IN_PART = auto()
    #: Repeating it does not help.
    BLOCKED = auto()
    #: May pass.
    FAILED = auto()
    #: No request got through: what was in force still is, and the mode stays.
    UNREACHED = auto()


class CpuRelease(Enum):
    """Controls that are released after an action."""

    NOTHING = auto()
    THROTTLE = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class CpuStep:
    """The step after an action: another path, or the end of the tick."""

    #: What holds the power from now on; None: as before.
    mode: CpuMode | None = None
    then: CpuPath | None = None
    release: CpuRelease = CpuRelease.NOTHING


#: Paths on which a cap is set.
CAP_PATHS: Final = frozenset({CpuPath.CAP_ONLY, CpuPath.CAP_FIRST})
FIRST_PATHS: Final[Mapping[tuple[type[WattCap | PctCap], CpuControlMode], CpuPath]] = {
    (WattCap, CpuControlMode.AUTO): CpuPath.CAP_FIRST,
    (WattCap, CpuControlMode.RAPL): CpuPath.CAP_ONLY,
    (WattCap, CpuControlMode.DVFS): CpuPath.THROTTLE_ONLY,
    (PctCap, CpuControlMode.AUTO): CpuPath.THROTTLE_ONLY,
    (PctCap, CpuControlMode.RAPL): CpuPath.NONE,
    (PctCap, CpuControlMode.DVFS): CpuPath.THROTTLE_ONLY,
}
#: What is not here ends the tick and changes nothing. Where nothing can be put in force, a control of an earlier path
#: does not stay in its place, unless the failure may pass or the intent permits that control.
_STEPS: Final[Mapping[tuple[CpuPath, OutcomeClass], CpuStep]] = {
    (CpuPath.CAP_ONLY, OutcomeClass.APPLIED): CpuStep(CpuMode.RAPL),
    (CpuPath.CAP_ONLY, OutcomeClass.IN_PART): CpuStep(CpuMode.RAPL, release=CpuRelease.THROTTLE),
    (CpuPath.CAP_ONLY, OutcomeClass.BLOCKED): CpuStep(CpuMode.NONE, release=CpuRelease.THROTTLE),
    (CpuPath.CAP_ONLY, OutcomeClass.FAILED): CpuStep(CpuMode.NONE),
    (CpuPath.CAP_FIRST, OutcomeClass.APPLIED): CpuStep(CpuMode.RAPL),
    (CpuPath.CAP_FIRST, OutcomeClass.IN_PART): CpuStep(then=CpuPath.THROTTLE_BESIDE_CAP),
    (CpuPath.CAP_FIRST, OutcomeClass.BLOCKED): CpuStep(then=CpuPath.THROTTLE_AFTER_CAP),
    (CpuPath.CAP_FIRST, OutcomeClass.FAILED): CpuStep(then=CpuPath.THROTTLE_AFTER_CAP),
    (CpuPath.THROTTLE_AFTER_CAP, OutcomeClass.APPLIED): CpuStep(CpuMode.DVFS),
    (CpuPath.THROTTLE_AFTER_CAP, OutcomeClass.BLOCKED): CpuStep(CpuMode.NONE),
    (CpuPath.THROTTLE_AFTER_CAP, OutcomeClass.FAILED): CpuStep(CpuMode.NONE),
    (CpuPath.THROTTLE_BESIDE_CAP, OutcomeClass.APPLIED): CpuStep(CpuMode.DVFS),
    (CpuPath.THROTTLE_BESIDE_CAP, OutcomeClass.BLOCKED): CpuStep(CpuMode.NONE),
    (CpuPath.THROTTLE_BESIDE_CAP, OutcomeClass.FAILED): CpuStep(CpuMode.NONE),
    (CpuPath.THROTTLE_ONLY, OutcomeClass.APPLIED): CpuStep(CpuMode.DVFS),
    (CpuPath.THROTTLE_ONLY, OutcomeClass.BLOCKED): CpuStep(CpuMode.NONE, release=CpuRelease.ALL),
    (CpuPath.THROTTLE_ONLY, OutcomeClass.FAILED): CpuStep(CpuMode.NONE),
    (CpuPath.NONE, OutcomeClass.BLOCKED): CpuStep(CpuMode.NONE, release=CpuRelease.ALL),
}


def step_after(path: CpuPath, outcome: ControlOutcome) -> CpuStep:
    """Return the step that follows the outcome of a path."""
    return _STEPS.get((path, outcome_class(path, outcome)), CpuStep())


def outcome_class(path: CpuPath, outcome: ControlOutcome) -> OutcomeClass:
    """Return the class of an outcome; of a throttle, in part is no class of its own."""
    if outcome.applied:
        return OutcomeClass.APPLIED
    if outcome.reason in _NO_FALLBACK:
        return OutcomeClass.UNREACHED
    if path in CAP_PATHS and outcome.reason in IN_FORCE_IN_PART:
        return OutcomeClass.IN_PART
    return OutcomeClass.BLOCKED if outcome.result is ControlResult.BLOCKED else OutcomeClass.FAILED
