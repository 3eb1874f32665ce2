"""Limits of cores by the class of the containers that have them alone: the highest frequency, and the reason.

Frequencies are decided for a group: the threads of a core, and all cores that share a frequency policy with it.
Guarantees that a group is limited only where each of its threads is given to one container alone, and each of these is
of a standard pod whose allowed slowdown is known; and that a limit is not below the highest frequency of the hardware
over 1 + the allowed slowdown. Source: docs/decisions/0067-class-limits-on-cores.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, smallest
from joulie_core.class_caps.pod_consent import PodConsent
from joulie_core.containers.idset import Cpus, union

_PERCENT: Final = 100
#: Limits are multiples of the coarsest step of a clock, Intel's bus clock: drivers round requests down to it.
_STEP_KHZ: Final = 100_000


class CoreLimitReason(StrEnum):
    """Reason for the limit of a group of cores, or for none."""

    #: Its frequency is limited.
    FREQUENCY_LIMITED = "FrequencyLimited"
    #: A thread of it is not given to one container alone.
    SHARED = "Shared"
    #: The class of a pod that has a thread of it is not known.
    HOLDER_UNKNOWN = "HolderUnknown"
    #: A pod that has a thread of it allows no slowdown.
    NO_SLOWDOWN_ALLOWED = "NoSlowdownAllowed"
    #: Its frequencies could not be read.
    FREQUENCY_UNKNOWN = "FrequencyUnknown"
    #: Its ceiling is not above the limit.
    NOTHING_TO_GAIN = "NothingToGain"


@dataclass(frozen=True, slots=True)
class CoreFrequencies:
    """Frequencies of a group in kHz; of several policies the highest of each."""

    lowest_khz: int
    #: Of the hardware.
    highest_khz: int
    #: Upper limit in force now, whatever set it.
    ceiling_khz: int
    #: Those that the driver offers; None where it takes every one.
    offered_khz: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CoreHolder:
    """A container that has CPUs alone."""

    #: `namespace/pod/container`.
    title: str
    cpus: Cpus
    #: Of its pod.
    consent: PodConsent


@dataclass(frozen=True, slots=True)
class CoreLimit:
    """The limit of one group."""

    #: The online threads of the group.
    cpus: Cpus
    #: Physical cores.
    cores: int
    reason: CoreLimitReason
    #: Titles of the containers that have a thread of the group alone.
    holders: tuple[str, ...] = ()
    #: Whether the owners of all of these have consented, without which no limit is set.
    consents: bool = False
    #: Highest frequency; None without a limit.
    limit_khz: int | None = None
    #: None where they were not read.
    frequencies: CoreFrequencies | None = None


def core_groups(cores: Iterable[Cpus], policies: Iterable[Cpus]) -> tuple[Cpus, ...]:
    """Return the CPUs of each group, in the order of their lowest CPUs.

    Args:
        cores: the online threads of each core.
        policies: the CPUs of each frequency policy.
    """
    groups: list[Cpus] = []
    for each in (*cores, *policies):
        joined = [group for group in groups if not group.isdisjoint(each)]
        groups = [group for group in groups if group.isdisjoint(each)]
        groups.append(union([each, *joined]))
    return tuple(sorted(groups, key=Cpus.min))


def holders_of(group: Cpus, holders: Iterable[CoreHolder]) -> tuple[CoreHolder, ...]:
    """Return the containers that have a thread of a group alone."""
    return tuple(each for each in holders if not each.cpus.isdisjoint(group))


def held_slowdown(group: Cpus, holders: Sequence[CoreHolder]) -> AllowedSlowdown | CoreLimitReason:
    """Return what all containers of a group allow, above nothing, or why it has no limit.

    Args:
        group: its CPUs.
        holders: of the group.
    """
    if not group <= union(each.cpus for each in holders):
        return CoreLimitReason.SHARED
    known = [each.consent.slowdown for each in holders if each.consent.slowdown is not None]
    if len(known) < len(holders):
        return CoreLimitReason.HOLDER_UNKNOWN
    allowed = smallest([each.allowed for each in known])
    return CoreLimitReason.NO_SLOWDOWN_ALLOWED if allowed is AllowedSlowdown.NONE else allowed


def all_consent(holders: Sequence[CoreHolder]) -> bool:
    """Return whether the owners of all containers of a group have consented; False for a group without any."""
    return bool(holders) and all(each.consent.consents for each in holders)


def frequency_limit(allowed: AllowedSlowdown, found: CoreFrequencies | None) -> int | CoreLimitReason:
    """Return the highest frequency in kHz that a group may be limited to, or why it has no limit.

    Args:
        allowed: what all of its containers allow.
        found: its frequencies; None where they could not be read.
    """
    if found is None:
        return CoreLimitReason.FREQUENCY_UNKNOWN
    # Whole numbers, rounded up: no error of rounding makes a limit lower.
    within_khz = -(-found.highest_khz * _PERCENT // (_PERCENT + allowed.pct))
    limit_khz = max(-(-within_khz // _STEP_KHZ) * _STEP_KHZ, found.lowest_khz)
    if found.offered_khz is not None:
        limit_khz = min((each for each in found.offered_khz if each >= within_khz), default=found.highest_khz)
    return limit_khz if limit_khz < found.ceiling_khz else CoreLimitReason.NOTHING_TO_GAIN
