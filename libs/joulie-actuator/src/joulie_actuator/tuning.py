"""The outcome of the optional controls beside the power cap: energy performance preference and uncore frequency.

A control that a request leaves out is restored. A control that the machine does not have is reported as blocked, and
the others are set all the same. What a CPU class sets instead is neither.
"""

from typing import Final

from joulie_actuator import results
from joulie_actuator.cpu_class_protocol import ClassControl
from joulie_actuator.frequency_arbiter import Applied, Tuning
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.knob_results import WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control.cpu_frequency import NO_CLASS
from joulie_core.control_result import ControlResult

TUNING: Final = "tuning"
_NO_EPP: Final = HardwareFailure(Reason.NO_INTERFACE, "no frequency policy has an energy performance preference")
_NO_UNCORE: Final = HardwareFailure(Reason.NO_INTERFACE, "no uncore frequency limit")


def tuning_outcome(wanted: Tuning, applied: Applied) -> ControlOutcome:
    """Return the outcome of a request for tuning."""
    found = {each.control for each in applied.class_knobs}
    failures = [_NO_EPP] if wanted.epp is not None and ClassControl.EPP not in found else []
    failures += [_NO_UNCORE] if wanted.uncore_max_khz is not None and ClassControl.UNCORE_MAX_KHZ not in found else []
    own = [each.knob.key for each in applied.class_knobs if each.class_name == NO_CLASS.name]
    answers = {key: applied.answers[key] for key in own}
    failures += [answer for answer in answers.values() if isinstance(answer, HardwareFailure)]
    failures += results.failures(applied.restored)
    if failures:
        some = any(isinstance(answer, WrittenKnob) for answer in answers.values())
        return results.failed(TUNING, failures, some_applied=some)
    messages = [*results.overwrite_messages(answers.items()), *results.restore_messages(applied.restored)]
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=Reason.TUNED if answers else Reason.RESTORED,
        backend=TUNING,
        message=results.join_messages(messages),
    )
