"""The optional controls beside the power cap: energy performance preference and uncore frequency.

A control that a request leaves out is restored. A control that the machine does not have is reported as blocked, and
the others are set all the same.
"""

from collections.abc import Sequence
from typing import Final

from joulie_agent.actuator import results
from joulie_agent.actuator.protocol import SetCpuTuning
from joulie_agent.hardware.cpu_tuning import EPP_KEYS, KEYS, UNCORE_KEYS, epp_code
from joulie_agent.hardware.journaled_writer import JournaledWriter, WrittenKnob
from joulie_agent.hardware.knob import HardwareFailure, Knob
from joulie_agent.outcome import ControlOutcome
from joulie_agent.reasons import Reason
from joulie_core.control_result import ControlResult

TUNING: Final = "tuning"
_NO_EPP: Final = HardwareFailure(Reason.NO_INTERFACE, "no frequency policy has an energy performance preference")
_NO_UNCORE: Final = HardwareFailure(Reason.NO_INTERFACE, "no uncore frequency limit")


def tune(writer: JournaledWriter | HardwareFailure, request: SetCpuTuning, knobs: Sequence[Knob]) -> ControlOutcome:
    """Set and restore the controls of this machine."""
    if isinstance(writer, HardwareFailure):
        return results.failed(TUNING, [writer])
    values: list[tuple[Knob, int]] = []
    failures: list[HardwareFailure] = []
    if request.epp is not None:
        code = epp_code(request.epp)
        assert isinstance(code, int)
        found = [knob for knob in knobs if knob.key.startswith(EPP_KEYS)]
        values += [(knob, code) for knob in found]
        failures += [] if found else [_NO_EPP]
    if request.uncore_max_khz is not None:
        found = [knob for knob in knobs if knob.key.startswith(UNCORE_KEYS)]
        values += [(knob, knob.limits.clamp(request.uncore_max_khz)) for knob in found]
        failures += [] if found else [_NO_UNCORE]
    answers = writer.set_all(values)
    failures += [answer for answer in answers if isinstance(answer, HardwareFailure)]
    requested = {knob.key for knob, _ in values}
    left_out = frozenset(key for key in writer.managed if key.startswith(KEYS) and key not in requested)
    restored = results.restore(writer, left_out, {knob.key: knob for knob in knobs})
    failures += [HardwareFailure(knob.reason, knob.message) for knob in restored if knob.reason is not None]
    if failures:
        return results.failed(TUNING, failures, some_applied=any(isinstance(answer, WrittenKnob) for answer in answers))
    messages = results.overwrite_messages((knob.key, answer) for (knob, _), answer in zip(values, answers, strict=True))
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=Reason.TUNED if values else Reason.RESTORED,
        backend=TUNING,
        message=results.join_messages([*messages, *results.restore_messages(restored)]),
    )
