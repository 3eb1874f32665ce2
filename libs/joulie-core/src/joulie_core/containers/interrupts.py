"""CPUs that handle an interrupt, as a container policy wants it.

A zone claims interrupts, takes all that no zone claims (a sink), or wants none (isolated). What an administrator has
set is narrowed by isolation and replaced by claims and sinks only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from joulie_core.containers.idset import EMPTY, Cpus, union


@dataclass(frozen=True, slots=True)
class InterruptClaim:
    """CPUs that want the interrupts of some patterns, see `matches`."""

    patterns: tuple[str, ...]
    cpus: Cpus


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptPlacement:
    """Claims, sinks and isolated CPUs by which the zones of a node want its interrupts placed."""

    #: Several claims of one interrupt add up.
    claims: tuple[InterruptClaim, ...] = ()
    #: CPUs for interrupts that no claim names.
    sinks: Cpus = EMPTY
    #: CPUs that want none; a CPU that is a sink as well is one.
    isolated: Cpus = EMPTY

    def __bool__(self) -> bool:
        return bool(self.claims or self.sinks or self.isolated)


NO_INTERRUPTS: Final = InterruptPlacement()


def matches(patterns: Iterable[str], number: int | None, names: Iterable[str]) -> bool:
    """Return whether one of some patterns, each a number or a glob of a name, means an interrupt.

    Args:
        patterns: Such as `24`, `eth0-*` or `*`.
        number: Of the interrupt; None of those that do not exist yet, which `*` alone means.
        names: Of its devices and of its chip.
    """
    return any(
        pattern == "*"
        or (number is not None and (pattern == str(number) or any(fnmatchcase(name, pattern) for name in names)))
        for pattern in patterns
    )


def affinity(
    wanted: InterruptPlacement, number: int | None, names: tuple[str, ...], original: Cpus, online: Cpus
) -> Cpus:
    """Return the CPUs that an interrupt is to have.

    Args:
        wanted: What the zones want.
        number: As for `matches`.
        names: As for `matches`.
        original: The CPUs that it has without Joulie.
        online: CPUs that are online; others handle no interrupt.

    Returns:
        `original` where nothing is wanted, or where nothing that is wanted has an online CPU.
    """
    claimed = union(claim.cpus for claim in wanted.claims if matches(claim.patterns, number, names)) & online
    if claimed:
        return claimed
    if sinks := wanted.sinks & online:
        return sinks
    if original.isdisjoint(wanted.isolated):
        return original
    return (original & online) - wanted.isolated or online - wanted.isolated or original
