"""Limits on the power of GPUs: set, each within its own range, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_actuator import results
from joulie_actuator.hardware.gpu.driver import MW_PER_WATT, GpuDriver
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import WrittenKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult

#: Backend of an outcome that no driver has.
NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class _GpuCap:
    uuid: str
    driver: GpuDriver
    knob: Knob
    requested_mw: int

    @property
    def limit_mw(self) -> int:
        return self.knob.limits.clamp(self.requested_mw)

    @property
    def unlimited(self) -> bool:
        """Whether the cap is at or above the maximum of the range, and so limits nothing."""
        return self.requested_mw >= self.knob.limits.high


def set_caps(
    writer: JournaledWriter,
    drivers: Mapping[str, GpuDriver],
    knobs: Mapping[str, Knob | HardwareFailure],
    caps_mw: Mapping[str, int],
) -> ControlOutcome:
    """Cap GPUs, by UUID; one whose cap is at or above the maximum of its range is restored.

    Args:
        writer: writes the knobs.
        drivers: of the GPUs.
        knobs: of the power limits, or why there is none.
        caps_mw: the caps.
    """
    failures = [knob for knob in knobs.values() if isinstance(knob, HardwareFailure)]
    caps = [
        _GpuCap(uuid, drivers[uuid], knob, caps_mw[uuid])
        for uuid, knob in knobs.items()
        if not isinstance(knob, HardwareFailure)
    ]
    bounded = [cap for cap in caps if not cap.unlimited]
    answers = list(zip(bounded, writer.set_all([(cap.knob, cap.limit_mw) for cap in bounded]), strict=True))
    answers += _unlimit(writer, [cap for cap in caps if cap.unlimited])
    return _outcome(caps, answers, failures)


def _unlimit(writer: JournaledWriter, caps: Sequence[_GpuCap]) -> list[tuple[_GpuCap, WrittenKnob | HardwareFailure]]:
    """Restore the GPUs that the cap does not limit: their originals may be lower than the maximum of the range."""
    restored = {knob.key: knob for knob in writer.restore(cap.knob for cap in caps)}
    answers: list[tuple[_GpuCap, WrittenKnob | HardwareFailure]] = []
    for cap in caps:
        knob = restored.get(cap.knob.key)
        if knob is not None and knob.failure is not None:
            answers.append((cap, knob.failure))
            continue
        value = cap.knob.read()
        changed = knob is not None
        answers.append(
            (cap, value if isinstance(value, HardwareFailure) else WrittenKnob(value, changed, external=True))
        )
    return answers


def _outcome(
    caps: Sequence[_GpuCap],
    answers: Sequence[tuple[_GpuCap, WrittenKnob | HardwareFailure]],
    failures: Sequence[HardwareFailure],
) -> ControlOutcome:
    """Return the outcome of caps that were set one by one."""
    backend = next((cap.driver.name for cap in caps), NONE)
    written = [(cap, answer) for cap, answer in answers if isinstance(answer, WrittenKnob)]
    failures = [*failures, *(answer for _, answer in answers if isinstance(answer, HardwareFailure))]
    if failures:
        return results.failed(backend, failures, some_applied=bool(written))
    enforced_watts = max(_in_force_mw(cap, answer) for cap, answer in written) / MW_PER_WATT
    held = [(cap, answer) for cap, answer in written if _is_kept_higher(cap, answer)]
    if held:
        kept = [HardwareFailure(Reason.HELD_BY_FIRMWARE, _kept_higher_message(cap, answer)) for cap, answer in held]
        return results.partly_applied(backend, Reason.HELD_BY_FIRMWARE, kept, enforced_watts=enforced_watts)
    messages = results.overwrite_messages((cap.knob.key, answer) for cap, answer in answers if not cap.unlimited)
    bounded = [cap for cap in caps if not cap.unlimited]
    clamped = [cap for cap in bounded if cap.limit_mw != cap.requested_mw]
    messages += [f"{cap.knob.key} is limited to {cap.limit_mw / MW_PER_WATT:g} W by its range" for cap in clamped]
    messages += [f"no limit is set on {cap.knob.key}: {_cap_of(cap)}" for cap in caps if cap.unlimited]
    reason = Reason.CLAMPED if clamped else Reason.CAPPED
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=reason if bounded else Reason.RESTORED,
        backend=backend,
        message=results.join_messages(messages),
        enforced_watts=enforced_watts,
    )


def _is_kept_higher(cap: _GpuCap, answer: WrittenKnob) -> bool:
    """Return whether the driver accepted the limit and keeps a higher one; AMD's keeps whole watts."""
    return not answer.external and _in_force_mw(cap, answer) >= cap.limit_mw + MW_PER_WATT


def _kept_higher_message(cap: _GpuCap, answer: WrittenKnob) -> str:
    kept, written = answer.value / MW_PER_WATT, cap.limit_mw / MW_PER_WATT
    return f"{cap.knob.key} reads {kept:g} W where {written:g} W was written"


def _cap_of(cap: _GpuCap) -> str:
    requested, maximum = cap.requested_mw / MW_PER_WATT, cap.knob.limits.high / MW_PER_WATT
    return f"{requested:g} W is not below the maximum of its range, {maximum:g} W"


def _in_force_mw(cap: _GpuCap, written: WrittenKnob) -> int:
    """Return the limit in force, which the hardware itself may have lowered below the one that was set."""
    enforced_mw = cap.driver.enforced_mw(cap.uuid)
    return written.value if isinstance(enforced_mw, HardwareFailure) else enforced_mw
