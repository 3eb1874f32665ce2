"""CPU reports: the words for an outcome, and the judgement of the DVFS loop.

`applied` means in force: a loop without a reading, without a throttle above the cap, or at full throttle above the cap
does not hold the cap and is reported so. A control that could not be released is an error of its own.
"""

from dataclasses import dataclass
from typing import Final

from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control.caps_resolve import WattCap
from joulie_core.control.dvfs import DvfsSettings, DvfsState, Holding, blind_for_long, judge
from joulie_core.control_result import ControlResult
from joulie_core.kinds.telemetry_profile import ControlReport

_MOST: Final = 1024


@dataclass(frozen=True, slots=True)
class DvfsOutcome:
    """Outcome of the DVFS loop: how well it holds the cap."""

    result: ControlResult
    reason: Reason
    message: str = ""


def dvfs_outcome(state: DvfsState, *, cap_watts: float, now: float, settings: DvfsSettings) -> DvfsOutcome:
    """Judge a throttle that is in force; watts are of all packages.

    What a retry does not cure is blocked and not an error: nothing has failed, and no error is counted.
    """
    drawn = f"{state.ema_watts:.0f} W drawn, {cap_watts:.0f} W allowed" if state.ema_watts is not None else ""
    match judge(state, cap_watts=cap_watts, now=now, settings=settings):
        case Holding.WITHIN:
            return DvfsOutcome(ControlResult.APPLIED, Reason.THROTTLED)
        case Holding.ABOVE if state.throttle_pct > 0:
            return DvfsOutcome(ControlResult.APPLIED, Reason.ADJUSTING, drawn)
        case Holding.ABOVE:
            return DvfsOutcome(ControlResult.BLOCKED, Reason.ADJUSTING, f"{drawn}, not throttled yet")
        case Holding.SATURATED:
            return DvfsOutcome(ControlResult.BLOCKED, Reason.SATURATED, f"{drawn}, at full throttle")
        case Holding.UNKNOWN if blind_for_long(state, now, settings) and state.throttle_pct > 0:
            message = f"no usable power reading for {now - (state.blind_since or now):.0f} s"
            return DvfsOutcome(ControlResult.BLOCKED, Reason.THROTTLED_WITHOUT_READING, message)
        case Holding.UNKNOWN:
            return DvfsOutcome(ControlResult.BLOCKED, Reason.NO_READING, "no usable power reading")


def report_of(
    outcome: ControlOutcome,
    *,
    cap: WattCap | None = None,
    throttle_pct: float | None = None,
    note: str = "",
    in_force_watts: float | None = None,
) -> ControlReport:
    """Return the report of an outcome.

    Args:
        outcome: result of the action.
        cap: the requested cap.
        throttle_pct: the throttle in force.
        note: text before the outcome's own message.
        in_force_watts: a cap that is in force beside it.
    """
    result, reason = outcome.result, outcome.reason
    parts = [cap.message if cap else "", note, outcome.message]
    if (left := outcome.unreleased) is not None:
        result, reason = left.result, Reason.NOT_RELEASED
        if not left.message or left.message not in outcome.message:
            parts.append(f"{left.backend} not released: {left.reason} {left.message}".strip())
    return ControlReport(
        backend=outcome.backend,
        result=result,
        reason=reason,
        message="; ".join(part for part in parts if part)[:_MOST],
        requested_watts=cap.requested_watts if cap else None,
        enforced_watts=in_force_watts if outcome.enforced_watts is None else outcome.enforced_watts,
        throttle_pct=throttle_pct,
    )
