"""State of one node's CPU enforcement between ticks, and after a restart.

A control that may be in force stays in the state until its release was answered: a request without an answer may have
been carried out.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuHeld, CpuReading
from joulie_core.control.dvfs import DvfsState, with_throttle
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlReport, Held

#: Reasons of an action that is in force in part.
IN_FORCE_IN_PART: Final = frozenset({Reason.HELD_BY_FIRMWARE, Reason.PARTLY_APPLIED})


class CpuMode(StrEnum):
    """Mechanism that holds the power; the `mode` label of `joulie_backend_mode`."""

    NONE = "none"
    RAPL = "rapl"
    DVFS = "dvfs"


@dataclass(frozen=True, slots=True)
class CpuControlState:
    """State of one node's CPU enforcement between two ticks."""

    mode: CpuMode = CpuMode.NONE
    dvfs: DvfsState = field(default_factory=DvfsState)
    #: What may be in force.
    held: CpuHeld = field(default_factory=CpuHeld)
    #: Watts of the cap in force, as read back; None without one, or if it could not be read back.
    cap_watts: float | None = None
    #: False until the throttle in force has been read or taken over from the last report.
    throttle_known: bool = False

    @property
    def in_force(self) -> bool:
        """Whether a cap or throttle of Joulie's may be in force."""
        return self.held.any

    @property
    def throttle_pct(self) -> float | None:
        """The throttle for a report about another control; None without one."""
        return self.dvfs.throttle_pct if self.dvfs.throttle_pct > 0 else None


FREE: Final = CpuControlState(throttle_known=True)


def recalled(report: ControlReport, index: int) -> CpuControlState:
    """Return what a report records of one of its places; figures are of the first, the current one."""
    place = report.places[index]
    held = CpuHeld(place.cap, place.throttle)
    if index:
        return CpuControlState(held=held)
    throttle_pct = report.throttle_pct or 0.0
    return CpuControlState(
        mode=CpuMode.DVFS if throttle_pct > 0 else CpuMode.NONE,
        dvfs=DvfsState(throttle_pct=throttle_pct),
        held=held,
        cap_watts=report.enforced_watts,
        throttle_known=report.throttle_pct is not None,
    )


def seeded(state: CpuControlState, reading: CpuReading | None) -> CpuControlState:
    """Take over the throttle that the backend had before this agent started."""
    if state.throttle_known or reading is None or reading.throttle_pct is None:
        return state
    throttle = Held.YES if reading.throttle_pct > 0 else Held.NO
    return replace(
        state,
        dvfs=with_throttle(state.dvfs, reading.throttle_pct),
        held=replace(state.held, throttle=throttle),
        throttle_known=True,
    )


def cap_noted(state: CpuControlState, outcome: ControlOutcome) -> CpuControlState:
    """Return the state after the outcome of a cap."""
    if outcome.applied and outcome.reason is Reason.RESTORED:
        state = cap_released(state)  # a cap that is no lower than what the hardware does anyway
    elif outcome.applied or outcome.reason in IN_FORCE_IN_PART:
        state = replace(state, held=replace(state.held, cap=Held.YES), cap_watts=outcome.enforced_watts)
    elif _may_have_landed(outcome) and state.held.cap is Held.NO:
        state = replace(state, held=replace(state.held, cap=Held.PERHAPS))
    return state


def throttle_noted(state: CpuControlState, outcome: ControlOutcome, throttle_pct: float) -> CpuControlState:
    """Return the state after the outcome of a throttle."""
    throttle = state.held.throttle
    if outcome.applied:
        throttle = Held.YES if throttle_pct > 0 else Held.NO
    elif _may_have_landed(outcome) and throttle is Held.NO and throttle_pct > 0:
        throttle = Held.PERHAPS
    return replace(state, held=replace(state.held, throttle=throttle))


def _may_have_landed(outcome: ControlOutcome) -> bool:
    """Return whether a failed request may have been carried out; a backend that answers an error did nothing."""
    return outcome.result is ControlResult.ERROR and outcome.reason is not Reason.BACKEND_FAILED


def cap_released(state: CpuControlState) -> CpuControlState:
    """Return the state without a cap in force."""
    return replace(state, held=replace(state.held, cap=Held.NO), cap_watts=None)


def throttle_released(state: CpuControlState) -> CpuControlState:
    """Return the state without a throttle in force."""
    return replace(state, held=replace(state.held, throttle=Held.NO), dvfs=DvfsState(), throttle_known=True)
