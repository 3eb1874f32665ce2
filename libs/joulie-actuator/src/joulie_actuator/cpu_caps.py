"""Power caps of packages: split into the shares of zones, set zone by zone, and reported as they are in force.

A package of several dies has one zone per die: a cap per package is split evenly over them.

Guarantees that a cap that fails on one package stays in force on the others, and that the outcome shows it: a partial
cap ends by a restore only. A lower external limit stays in force, and a cap at or above the upper end of a zone's range
is lifted.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from joulie_actuator import results
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_actuator.hardware.knob_results import WrittenKnob
from joulie_actuator.hardware.rapl import UW_PER_WATT, RaplZone
from joulie_actuator.hardware.sysfs import SysfsKnob
from joulie_actuator.outcome import ControlOutcome
from joulie_actuator.reasons import Reason
from joulie_core.control_result import ControlResult

RAPL: Final = "rapl"
#: The kernel rounds a limit down to the hardware's power unit, which is a watt where it is coarsest (Intel SDM, volume
#: 3B, MSR_RAPL_POWER_UNIT).
_COARSEST_UNIT_UW: Final = 1_000_000
NO_ZONES: Final = HardwareFailure(Reason.NO_INTERFACE, "no RAPL package zone")


@dataclass(frozen=True, slots=True)
class ZoneCap:
    """The share of a cap that is set on one zone."""

    zone: RaplZone
    knob: SysfsKnob
    limit_uw: int
    #: Whether the zone's range has changed its share of the cap.
    clamped: bool
    #: The share is not below the maximum of the range, so it limits nothing: a factory limit may lie above the maximum,
    #: and writing the maximum would cut it.
    unlimited: bool


Answers: TypeAlias = Sequence[tuple[ZoneCap, WrittenKnob | HardwareFailure]]


def set_caps(
    writer: JournaledWriter, zones: Sequence[RaplZone], cap_watts_per_package: float, missing: Sequence[HardwareFailure]
) -> ControlOutcome:
    """Cap every package; `missing`: a failure for each package without a known zone."""
    caps = split_cap(zones, cap_watts_per_package)
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
    messages += [_no_limit(cap, cap_watts_per_package) for cap in caps if cap.unlimited]
    reason = Reason.CLAMPED if clamped else Reason.CAPPED
    in_force = _package_limits_uw(answers)
    return ControlOutcome(
        result=ControlResult.APPLIED,
        reason=reason if bounded else Reason.RESTORED,
        backend=backend,
        message=results.join_messages(messages),
        enforced_watts=_highest_watts(in_force),
        total_watts=_total_watts(in_force),
    )


def split_cap(zones: Iterable[RaplZone], cap_watts_per_package: float) -> tuple[ZoneCap, ...]:
    """Return what to set on each zone that has a limit: its die's share, clamped to the zone's range."""
    caps = []
    for zone in zones:
        if not isinstance(zone.power_limit, HardwareFailure):
            share_uw = round(cap_watts_per_package * UW_PER_WATT / zone.dies)
            limits = zone.power_limit.limits
            limit_uw = limits.clamp(share_uw)
            clamped, unlimited = limit_uw != share_uw, share_uw >= limits.high
            caps.append(ZoneCap(zone, zone.power_limit, limit_uw, clamped=clamped, unlimited=unlimited))
    return tuple(caps)


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
    return check_cap(cap, answer.value, None if isinstance(original, HardwareFailure) else original)


def check_cap(cap: ZoneCap, found_uw: int, original_uw: int | None) -> HardwareFailure | None:
    """Return why the limit of a cap is not set, from what was read back; None where it is.

    Firmware that has locked a limit may accept a write without an error and keep its own value; firmware that bounds it
    sets another value than the written one. A lower one keeps the cap, and `original_uw`, the limit before the
    first write, shows whether a higher one is the effect of Joulie's.
    """
    if found_uw >= cap.limit_uw + _COARSEST_UNIT_UW or (
        found_uw == original_uw and found_uw <= cap.limit_uw - _COARSEST_UNIT_UW
    ):
        held, written = found_uw / UW_PER_WATT, cap.limit_uw / UW_PER_WATT
        if original_uw is None or found_uw == original_uw:
            return HardwareFailure(
                Reason.FIRMWARE_LOCKED, f"{cap.zone.name} keeps {held:g} W where {written:g} W was written"
            )
        return HardwareFailure(
            Reason.HELD_BY_FIRMWARE, f"{cap.zone.name} holds {held:g} W where {written:g} W was written"
        )
    return None


def _partial_outcome(
    answers: Answers, short: Sequence[tuple[ZoneCap, HardwareFailure]], missing: Sequence[HardwareFailure]
) -> ControlOutcome:
    """Return the outcome where not every package is held at the cap."""
    failures = [failure for _, failure in short]
    backend = answers[0][0].zone.backend
    if len(short) == len(answers) and not any(each.reason is Reason.HELD_BY_FIRMWARE for each in failures):
        return results.failed(backend, failures)
    if not missing and all(failure.reason is Reason.HELD_BY_FIRMWARE for failure in failures):
        in_force = _package_limits_uw(answers)
        return results.partly_applied(
            backend,
            Reason.HELD_BY_FIRMWARE,
            failures,
            enforced_watts=_highest_watts(in_force),
            total_watts=_total_watts(in_force),
        )
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
    return [(cap, failure) for cap in caps if (failure := check_enabled(cap.zone))]


def check_enabled(zone: RaplZone) -> HardwareFailure | None:
    """Return why the limit of a zone is not in force although it is set; None where it is."""
    if not zone.is_off:
        return None
    return HardwareFailure(Reason.FIRMWARE_LOCKED, f"{zone.name} accepts the limit and does not enforce it (enabled=0)")


def zone_knobs(zone: RaplZone) -> list[Knob]:
    """Return the knobs of a zone that a cap may write, in the order of a restore: a limit is switched off first."""
    knobs = (zone.enable, zone.power_limit)
    return [knob for knob in knobs if isinstance(knob, SysfsKnob)]


def _no_limit(cap: ZoneCap, cap_watts_per_package: float) -> str:
    end = _watts(cap.knob.limits.high)
    return (
        f"no limit is set on {cap.zone.name}: {cap_watts_per_package:g} W per package is not below the maximum of its "
        f"range, {end}"
    )


def _package_limits_uw(answers: Answers) -> Counter[int] | None:
    """Return the limit in force by package; None where none is in force on some package."""
    per_package: Counter[int] = Counter()
    for cap, answer in answers:
        if cap.unlimited and cap.zone.is_off:
            return None
        if isinstance(answer, WrittenKnob):
            per_package[cap.zone.package] += answer.value
    return per_package


def _highest_watts(limits_uw: Counter[int] | None) -> float | None:
    return None if limits_uw is None else max(limits_uw.values()) / UW_PER_WATT


def _total_watts(limits_uw: Counter[int] | None) -> float | None:
    return None if limits_uw is None else limits_uw.total() / UW_PER_WATT


def _watts(micro_watts: int) -> str:
    return f"{micro_watts / UW_PER_WATT:g} W"
