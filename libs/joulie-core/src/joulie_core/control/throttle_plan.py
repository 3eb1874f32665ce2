"""Frequency policies that a throttle percentage slows down, and their frequencies.

Guarantees, for any set of policies: the choice depends on nothing but the set and the percentage; more percent throttle
the same policies and others (never different ones); policies are throttled in their throttle order; those of one order
are spread evenly over packages, within a package over its dies, and within a die over the kinds of its cores, so that
any percentage takes the same share of performance and of efficiency cores; policies that share a physical core, as
those of its hyper-threads, are throttled together, in the latest order among them. A throttle above zero is never
without effect: at least one core is slowed down.

Source: docs/decisions/0013-conventions.md (throttle). Where it is silent: the share is of policies, rounded half away
from zero, and filled up to whole cores.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core.rounding import round_half_away


class ThrottleOrder(StrEnum):
    """Order of CPUs under a throttle: all of one order before any of the next one, in the order of members here."""

    ECO = "eco"
    STANDARD = "standard"
    PERFORMANCE = "performance"


_RANKS: Final = {order: rank for rank, order in enumerate(ThrottleOrder)}


@dataclass(frozen=True, slots=True)
class CpuCore:
    """A physical core. `core` identifies and orders the cores of one package."""

    package: int
    die: int
    core: int
    #: Cores of one kind are as fast as each other; empty where the machine has one kind only.
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FreqPolicy:
    """CPUs whose frequency is limited together."""

    key: str
    cores: frozenset[CpuCore]
    order: ThrottleOrder = ThrottleOrder.STANDARD


@dataclass(frozen=True, slots=True, order=True)
class _Unit:
    """Policies that are throttled together, placed by the lowest of their cores."""

    package: int
    die: int
    core: int
    kind: str
    keys: tuple[str, ...]
    rank: int


def throttle_rank(order: ThrottleOrder) -> int:
    """Return the place of an order among all: a lower one is throttled first."""
    return _RANKS[order]


def plan_throttle(policies: Iterable[FreqPolicy], throttle_pct: float) -> frozenset[str]:
    """Return the keys of the policies to throttle, for 0 (none) to 100 percent (all)."""
    policies = list(policies)
    share = min(100.0, max(0.0, throttle_pct)) / 100.0
    if share == 0 or not policies:
        return frozenset()
    wanted = max(1, round_half_away(share * len(policies)))
    chosen: list[str] = []
    for unit in _in_order(_units(policies)):
        if len(chosen) >= wanted:
            break
        chosen += unit.keys
    return frozenset(chosen)


def _in_order(units: Sequence[_Unit]) -> list[_Unit]:
    """Return the order in which units are throttled."""
    ranks = sorted({unit.rank for unit in units})
    return [unit for rank in ranks for unit in _spread(each for each in units if each.rank == rank)]


def throttled_khz(original_khz: int, *, lowest_khz: int, min_freq_khz: int) -> int:
    """Return the limit of a throttled policy: the lowest frequency wanted that it can run at, never above its own."""
    return min(original_khz, max(lowest_khz, min_freq_khz))


def _units(policies: Sequence[FreqPolicy]) -> list[_Unit]:
    """Join policies that share a core, directly or through others."""
    joined = {policy.key: policy.key for policy in policies}

    def leader(key: str) -> str:
        while joined[key] != key:
            key = joined[key]
        return key

    first: dict[CpuCore, str] = {}
    for policy in policies:
        for core in policy.cores:
            joined[leader(policy.key)] = leader(first.setdefault(core, policy.key))
    groups: dict[str, list[FreqPolicy]] = defaultdict(list)
    for policy in policies:
        groups[leader(policy.key)].append(policy)
    return [_unit(group) for group in groups.values()]


def _unit(group: Sequence[FreqPolicy]) -> _Unit:
    places = ((core.package, core.die, core.core, core.kind) for policy in group for core in policy.cores)
    package, die, core, kind = min(places, default=(0, 0, 0, ""))
    rank = max(throttle_rank(policy.order) for policy in group)
    return _Unit(package, die, core, kind, tuple(sorted(policy.key for policy in group)), rank)


def _spread(units: Iterable[_Unit]) -> list[_Unit]:
    """Return units of one rank in order: any beginning of it is spread over packages, dies and kinds."""
    tree: dict[int, dict[int, dict[str, list[_Unit]]]] = {}
    for unit in sorted(units):
        kinds = tree.setdefault(unit.package, {}).setdefault(unit.die, {})
        kinds.setdefault(unit.kind, []).append(unit)
    packages = [[_interleave(list(kinds.values())) for kinds in dies.values()] for dies in tree.values()]
    return _interleave([_interleave(dies) for dies in packages])


def _interleave(groups: Sequence[Sequence[_Unit]]) -> list[_Unit]:
    """Merge groups so that each has given the same share of its units at any time."""
    placed = [
        ((index + 0.5) / len(group), place, unit)
        for place, group in enumerate(groups)
        for index, unit in enumerate(group)
    ]
    return [unit for _, _, unit in sorted(placed)]
