"""Power caps of packages: set zone by zone, and reported as they are in force.

Guarantees that a cap that fails on one package stays in force on the others, and that the outcome shows it: a partial
cap ends by a restore only. A lower external limit stays in force, and a cap at or above the upper end of a zone's range
is lifted.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeAlias

from joulie_actuator import results
from joulie_actuator.hardware import rapl
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import WrittenKnob
from joulie_actuator.hardware.rapl import UW_PER_WATT, RaplZone, ZoneCap
from joulie_actuator.hardware.sysfs import SysfsKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult

RAPL: Final = "rapl"
NO_ZONES: Final = HardwareFailure(Reason.NO_INTERFACE, "no RAPL package zone")

Answers: TypeAlias = Sequence[tuple[ZoneCap, WrittenKnob | HardwareFailure]]


def set_caps(
    writer: JournaledWriter, zones: Sequence[RaplZone], cap_watts: float, missing: Sequence[HardwareFailure]
) -> ControlOutcome:
    """Cap every package; `missing`: a failure for each package without a known zone."""
    caps = rapl.split_cap(zones, cap_watts)
    backend = next((cap.zone.backend for cap in caps), RAPL)
    without = [zone.power_limit for zone in zones if isinstance(zone.power_limit, HardwareFailure)]
    if without or not caps:
        return results.failed(RAPL, without or [NO_ZONES])
    bounded = [cap for cap in caps if not cap.unlimited]
    answers = list(zip(bounded, writer.set_all([(cap.knob, cap.limit_uw) for cap in bounded]), strict=True))
    short = [(cap, failure) for cap, answer in answers if (failure := _check(writer, cap, answer))]
    short += _enable_limits(writer, [cap for cap in bounded if cap not in {each for each, _ in short}])
    lifted = _unlimit(writer, [cap for cap in caps if cap.unlimited])
    short += [(cap, answer) for cap, answer in lifted if isinstance(answer, HardwareFailure)]
    answers += lifted
    if short or missing:
        return _partial_outcome(answers, short, missing)
    messages = results.overwrite_messages((cap.knob.key, answer) for cap, answer in answers if not cap.unlimited)
    clamped = [cap for cap in bounded if cap.clamped]
    messages += [f"{cap.zone.name} is limited to {_watts(cap.limit_uw)} by its range" for cap in clamped]
    messages += [_no_limit(cap, cap_watts) for cap in caps if cap.unlimited]
    reason = Reason.CLAMPED if clamped else Reason.CAPPED
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=reason if bounded else Reason.RESTORED,
        backend=backend,
        message=results.join_messages(messages),
        enforced_watts=_highest_package_watts(answers),
    )


def _unlimit(writer: JournaledWriter, caps: Sequence[ZoneCap]) -> list[tuple[ZoneCap, WrittenKnob | HardwareFailure]]:
    """Restore the zones that the cap does not limit."""
    restored = {knob.key: knob for knob in writer.restore(knob for cap in caps for knob in zone_knobs(cap.zone))}
    answers: list[tuple[ZoneCap, WrittenKnob | HardwareFailure]] = []
    for cap in caps:
        of_zone = [restored[knob.key] for knob in zone_knobs(cap.zone) if knob.key in restored]
        stuck = results.failures(of_zone)
        value = stuck[0] if stuck else cap.knob.read()
        changed = bool(of_zone)
        answers.append(
            (cap, value if isinstance(value, HardwareFailure) else WrittenKnob(value, changed, external=True))
        )
    return answers


def _check(writer: JournaledWriter, cap: ZoneCap, answer: WrittenKnob | HardwareFailure) -> HardwareFailure | None:
    if isinstance(answer, HardwareFailure):
        return answer
    if answer.external:
        return None
    original = writer.original(cap.knob) if answer.value != cap.limit_uw else None
    return rapl.check_cap(cap, answer.value, None if isinstance(original, HardwareFailure) else original)


def _partial_outcome(
    answers: Answers, short: Sequence[tuple[ZoneCap, HardwareFailure]], missing: Sequence[HardwareFailure]
) -> ControlOutcome:
    """Return the outcome where not every package is held at the cap."""
    failures = [failure for _, failure in short]
    backend = answers[0][0].zone.backend
    if len(short) == len(answers) and not any(each.reason is Reason.HELD_BY_FIRMWARE for each in failures):
        return results.failed(backend, failures)
    if not missing and all(failure.reason is Reason.HELD_BY_FIRMWARE for failure in failures):
        held_watts = _highest_package_watts(answers)
        return results.partly_applied(backend, Reason.HELD_BY_FIRMWARE, failures, enforced_watts=held_watts)
    packages = {cap.zone.package for cap, _ in answers}
    capped = len(packages - {cap.zone.package for cap, _ in short})
    messages = f"{capped} of {len(packages) + len(missing)} packages capped"
    return results.partly_applied(backend, Reason.PARTLY_APPLIED, [*failures, *missing], messages)


def _enable_limits(writer: JournaledWriter, caps: Sequence[ZoneCap]) -> list[tuple[ZoneCap, HardwareFailure]]:
    """Enable limits that are switched off, and return those that stay off.

    Only of caps whose limit is set: what a limit reads while it is off may be 0 W, and enabling would put that in
    force.
    """
    off = [cap.zone.enable for cap in caps if cap.zone.enable is not None and cap.zone.is_off]
    writer.set_all([(switch, 1) for switch in off])
    return [(cap, failure) for cap in caps if (failure := rapl.check_enabled(cap.zone))]


def zone_knobs(zone: RaplZone) -> list[Knob]:
    """Return the knobs of a zone that a cap may write, in the order of a restore: a limit is switched off first."""
    knobs = (zone.enable, zone.power_limit)
    return [knob for knob in knobs if isinstance(knob, SysfsKnob)]


def _no_limit(cap: ZoneCap, cap_watts: float) -> str:
    end = _watts(cap.knob.limits.high)
    return (
        f"no limit is set on {cap.zone.name}: {cap_watts:g} W per package is not below the maximum of its range, {end}"
    )


def _highest_package_watts(answers: Answers) -> float | None:
    """Return the highest limit in force; None where none is in force on some package."""
    per_package: Counter[int] = Counter()
    for cap, answer in answers:
        if cap.unlimited and cap.zone.is_off:
            return None
        if isinstance(answer, WrittenKnob):
            per_package[cap.zone.package] += answer.value
    return max(per_package.values()) / UW_PER_WATT


def _watts(micro_watts: int) -> str:
    return f"{micro_watts / UW_PER_WATT:g} W"
