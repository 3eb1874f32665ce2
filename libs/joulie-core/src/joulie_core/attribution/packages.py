"""Energy of the CPU packages of one node between two readings of their counters.

A zone whose counter does not tell leaves that of the others unattributed: a part is never stated as the whole.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.attribution.counters import CounterReading, joules_between
from joulie_core.attribution.cpu_times import CpuTimes, cpu_seconds_between
from joulie_core.attribution.cpus import (
    PackagesInterval,
    WattsBand,
    packages_energy,
    watts_per_cpu_second,
)
from joulie_core.attribution.energy import StatedEnergy
from joulie_core.control.energy_meter import PACKAGE_BOUND_WATTS, EnergyCounter
from joulie_core.plausible import limit_watts
from joulie_core.power.curves import NodeCurves

#: Share of the model's idle power by which the true one may differ, before it is bounded by what was seen.
IDLE_SPREAD: Final = 0.5
_UJ_PER_JOULE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ZoneCounter:
    """Energy counter of one package at one moment."""

    energy_uj: int
    counter: EnergyCounter


@dataclass(frozen=True, slots=True)
class PackagesReading:
    """Energy counters of the packages, and CPU times, at one moment."""

    #: Monotonic.
    at_seconds: float
    #: By zone; None for one whose counter could not be read.
    zones: Mapping[str, ZoneCounter | None]
    #: None if unknown.
    cpu_times: CpuTimes | None


@dataclass(frozen=True, slots=True)
class PackagesModel:
    """Bands of a node's packages."""

    busy: WattsBand
    idle: WattsBand

    @classmethod
    def of(cls, curves: NodeCurves, lowest_seen_watts: float | None = None) -> "PackagesModel":
        """Return the bands of a power model; packages that were seen at so few watts draw no more without work."""
        modelled = curves.packages_watts[0]
        highest = min(modelled * (1.0 + IDLE_SPREAD), math.inf if lowest_seen_watts is None else lowest_seen_watts)
        idle = WattsBand(min(modelled * (1.0 - IDLE_SPREAD), highest), highest)
        return cls(watts_per_cpu_second(curves), idle)


def counted_joules(before: PackagesReading, after: PackagesReading) -> Mapping[str, float | None]:
    """Return the joules of each zone; None for one whose counter does not tell."""
    return {
        zone: _joules(before.at_seconds, before.zones.get(zone), after.at_seconds, after.zones.get(zone))
        for zone in sorted({*before.zones, *after.zones})
    }


def packages_interval(
    before: PackagesReading, after: PackagesReading, *, longest_seconds: float
) -> PackagesInterval | None:
    """Return the values of an interval whose energy all counters tell; None for others and for gaps.

    Args:
        before: the earlier reading.
        after: the later one.
        longest_seconds: longer intervals are gaps.
    """
    seconds = after.at_seconds - before.at_seconds
    known = [joules for joules in counted_joules(before, after).values() if joules is not None]
    if seconds > longest_seconds or not known or len(known) < len({*before.zones, *after.zones}):
        return None
    cpu = cpu_seconds_between(before.cpu_times, after.cpu_times)
    return PackagesInterval(seconds, math.fsum(known), cpu.node, cpu.pods)


def stated_packages(
    before: PackagesReading,
    after: PackagesReading,
    model: PackagesModel | None,
    *,
    longest_seconds: float,
    fitted_watts: Mapping[str, float] | None = None,
) -> StatedEnergy:
    """Return the energy of the packages by pod; unattributed where `packages_interval` is None.

    Args:
        before: the earlier reading.
        after: the later one.
        model: the bands; None without a power model, which leaves all energy unattributed.
        longest_seconds: longer intervals are gaps.
        fitted_watts: as of `packages_energy`.
    """
    interval = packages_interval(before, after, longest_seconds=longest_seconds)
    if interval is None or model is None:
        by_zone = counted_joules(before, after).values()
        told = by_zone and None not in by_zone
        joules = math.fsum(each for each in by_zone if each is not None)
        return StatedEnergy((), 0.0, joules, 0.0 if told else max(0.0, after.at_seconds - before.at_seconds))
    energy = packages_energy(interval, model.busy, model.idle, fitted_watts)
    return StatedEnergy(energy.pods, energy.idle_joules, energy.unattributed_joules)


def _joules(start: float, before: ZoneCounter | None, end: float, after: ZoneCounter | None) -> float | None:
    if before is None or after is None:
        return None
    range_uj = after.counter.range_uj
    joules = joules_between(
        CounterReading(start, before.energy_uj / _UJ_PER_JOULE),
        CounterReading(end, after.energy_uj / _UJ_PER_JOULE),
        most_watts=limit_watts(after.counter.max_watts, PACKAGE_BOUND_WATTS),
        wraps_at_joules=range_uj / _UJ_PER_JOULE if range_uj else None,
    )
    # A package always draws something: a counter that stands still measures nothing.
    return joules or None
