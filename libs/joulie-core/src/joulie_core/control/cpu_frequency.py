"""The frequency arbiter: which frequency limits CPU classes, a throttle and an administrator leave to each CPU.

The ceiling of a frequency policy is the lowest of class, throttle, limit by class of its containers and administrator;
its floor is the highest minimum of a class that is not above the ceiling. A throttle takes policies in the order of
their classes.

Hardware has one limit per frequency policy. Where the CPUs of one policy have several classes, the highest ceiling
counts, CPUs without a class having none, and the class that a throttle takes last decides on all else; what the others
do not get is in the result. Policies that share a physical core are throttled together, with the one that comes last.

Guarantees: without classes the choice is that of `plan_throttle`; a higher throttle never raises a ceiling; a class
that is throttled last is throttled only where all policies of earlier ones are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from joulie_core.control.throttle_plan import (
    FreqPolicy,
    ThrottleOrder,
    plan_throttle,
    throttle_rank,
    throttled_khz,
)


class FrequencyName(StrEnum):
    """A named frequency, whose value differs between CPUs."""

    #: The lowest frequency of the hardware.
    MIN = "min"
    #: The frequency that all cores sustain at once.
    BASE = "base"
    #: The highest frequency of the hardware.
    TURBO = "turbo"


#: In kHz, or by name.
ClassFrequency: TypeAlias = int | FrequencyName


class FrequencyBound(StrEnum):
    """An end of a frequency range."""

    FLOOR = "floor"
    CEILING = "ceiling"


class ShortfallCause(StrEnum):
    """Reason why a class does not get its frequency."""

    #: CPUs of another class share the policy.
    SHARED_POLICY = "shared_policy"
    #: The floor is above the ceiling, of whatever origin.
    ABOVE_CEILING = "above_ceiling"
    #: No driver reports the base frequency.
    UNKNOWN_BASE = "unknown_base"


@dataclass(frozen=True, slots=True)
class FrequencyClass:
    """A CPU class, as far as it concerns frequencies."""

    name: str
    minimum: ClassFrequency | None = None
    maximum: ClassFrequency | None = None
    turbo_priority: int = 0
    throttle_order: ThrottleOrder = ThrottleOrder.STANDARD


#: The class of CPUs without one.
NO_CLASS: Final = FrequencyClass("")


@dataclass(frozen=True, slots=True)
class ClassifiedPolicy:
    """A frequency policy, the classes of its CPUs, and the range of its hardware in kHz."""

    policy: FreqPolicy
    lowest_khz: int
    highest_khz: int
    base_khz: int | None = None
    #: Each once, with NO_CLASS where a CPU has none.
    classes: tuple[FrequencyClass, ...] = (NO_CLASS,)
    #: The upper limit that was found; None where there is none or it is not known.
    administrator_khz: int | None = None
    #: The limit of all its CPUs by the class of the containers that have them alone; None where one of them has none.
    core_limit_khz: int | None = None


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A frequency that a class does not get on one policy."""

    class_name: str
    bound: FrequencyBound
    cause: ShortfallCause


@dataclass(frozen=True, slots=True)
class FrequencyDecision:
    """Frequency limits to put in force on one policy, in kHz."""

    #: The lowest of classes, throttle, limit by class, administrator and hardware.
    ceiling_khz: int
    #: The upper limit to write, of classes, throttle and limit by class; None where none limits.
    limit_khz: int | None
    #: The lower limit to write; None where no class has one.
    floor_khz: int | None
    throttled: bool
    #: The class that decides on what a policy has once.
    leading: FrequencyClass
    shortfalls: tuple[Shortfall, ...] = ()


def arbitrate(
    policies: Iterable[ClassifiedPolicy], throttle_pct: float, *, min_freq_khz: int
) -> Mapping[str, FrequencyDecision]:
    """Return what is put in force, by the key of the policy.

    Args:
        policies: all of a machine, with distinct keys.
        throttle_pct: 0 (none) to 100 (all).
        min_freq_khz: what a throttled policy is limited to, within its range.
    """
    policies = list(policies)
    leading = {each.policy.key: _leading(each) for each in policies}
    ordered = [replace(each.policy, order=leading[each.policy.key].throttle_order) for each in policies]
    throttled = plan_throttle(ordered, throttle_pct)
    may_turbo = _turbo_priorities(policies)
    return {
        each.policy.key: _decide(
            each,
            leading[each.policy.key],
            may_turbo,
            throttled_khz(each.highest_khz, lowest_khz=each.lowest_khz, min_freq_khz=min_freq_khz)
            if each.policy.key in throttled
            else None,
        )
        for each in policies
    }


def _decide(
    policy: ClassifiedPolicy, leading: FrequencyClass, turbo: Mapping[int, int], throttle_khz: int | None
) -> FrequencyDecision:
    ceilings = {each.name: _ceiling(policy, each, turbo) for each in policy.classes}
    class_khz = max((khz for khz, _ in ceilings.values()), default=policy.highest_khz)
    wanted = (class_khz if class_khz < policy.highest_khz else None, throttle_khz, _core_limit(policy))
    limits = [khz for khz in wanted if khz is not None]
    limit_khz = min(limits, default=None)
    administrator = policy.highest_khz if policy.administrator_khz is None else policy.administrator_khz
    ceiling_khz = min([administrator, policy.highest_khz, *limits])
    floors = {each.name: _floor(policy, each, turbo) for each in policy.classes}
    reached = [khz for khz, _ in floors.values() if khz is not None and khz <= ceiling_khz]
    shortfalls = [
        *_unknown(FrequencyBound.CEILING, ceilings),
        *_unknown(FrequencyBound.FLOOR, floors),
        *(
            Shortfall(name, FrequencyBound.CEILING, ShortfallCause.SHARED_POLICY)
            for name, (khz, known) in ceilings.items()
            if known and khz < class_khz
        ),
        *(
            Shortfall(name, FrequencyBound.FLOOR, ShortfallCause.ABOVE_CEILING)
            for name, (khz, _) in floors.items()
            if khz is not None and khz > ceiling_khz
        ),
    ]
    return FrequencyDecision(
        ceiling_khz=ceiling_khz,
        limit_khz=limit_khz,
        floor_khz=max(reached, default=None),
        throttled=throttle_khz is not None,
        leading=leading,
        shortfalls=tuple(shortfalls),
    )


def _core_limit(policy: ClassifiedPolicy) -> int | None:
    khz = policy.core_limit_khz
    return None if khz is None or khz >= policy.highest_khz else max(khz, policy.lowest_khz)


def _unknown(bound: FrequencyBound, found: Mapping[str, tuple[int | None, bool]]) -> list[Shortfall]:
    return [Shortfall(name, bound, ShortfallCause.UNKNOWN_BASE) for name, (_, known) in found.items() if not known]


def _ceiling(policy: ClassifiedPolicy, wanted: FrequencyClass, turbo: Mapping[int, int]) -> tuple[int, bool]:
    """Return the ceiling of a class on a policy, and whether all that it depends on is known."""
    if wanted.maximum is None:
        return policy.highest_khz, True
    khz = _resolve(policy, wanted, wanted.maximum, turbo)
    return (policy.highest_khz, False) if khz is None else (khz, True)


def _floor(policy: ClassifiedPolicy, wanted: FrequencyClass, turbo: Mapping[int, int]) -> tuple[int | None, bool]:
    if wanted.minimum is None:
        return None, True
    khz = _resolve(policy, wanted, wanted.minimum, turbo)
    return khz, khz is not None


def _resolve(
    policy: ClassifiedPolicy, wanted: FrequencyClass, frequency: ClassFrequency, turbo: Mapping[int, int]
) -> int | None:
    """Return kHz within the range of the hardware; None where the base frequency is not known."""
    match frequency:
        case FrequencyName.MIN:
            return policy.lowest_khz
        case FrequencyName.TURBO if wanted.turbo_priority >= max((turbo[p] for p in _packages(policy)), default=0):
            return policy.highest_khz
        case FrequencyName.BASE | FrequencyName.TURBO:
            khz = policy.base_khz
        case _:
            khz = frequency
    return None if khz is None else min(policy.highest_khz, max(policy.lowest_khz, khz))


def _turbo_priorities(policies: Sequence[ClassifiedPolicy]) -> Mapping[int, int]:
    """Return the highest turbo priority on each package."""
    highest: dict[int, int] = {}
    for each in policies:
        priority = max((wanted.turbo_priority for wanted in each.classes), default=0)
        for package in _packages(each):
            highest[package] = max(highest.get(package, 0), priority)
    return highest


def _packages(policy: ClassifiedPolicy) -> frozenset[int]:
    return frozenset(core.package for core in policy.policy.cores)


def _leading(policy: ClassifiedPolicy) -> FrequencyClass:
    """Return the class that a throttle takes last; of several the last one by name, so that a class precedes none."""
    return max(policy.classes, key=lambda each: (throttle_rank(each.throttle_order), each.name), default=NO_CLASS)
