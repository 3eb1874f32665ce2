"""Energy of the CPU packages of one node by pod, from their counters and the CPU time of each pod.

The bounds hold if the node's idle power and its watts per CPU second lie within their bands; the point is a rule's.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.attribution.energy import AllocationRule, EnergyKind, HolderEnergy
from joulie_core.power.curves import NodeCurves

#: Equal CPU time differs by 2 to 4 times in power (user guide of Kepler 0.11, "vector code"): half to double.
WORK_SPREAD: Final = 2.0


@dataclass(frozen=True, slots=True)
class WattsBand:
    """Lowest and highest watts; of one busy thread above idle, or of packages without work."""

    lowest: float
    highest: float

    @property
    def middle(self) -> float:
        """Geometric mean: as many times the lowest as the highest is of it."""
        return math.sqrt(self.lowest * self.highest)


@dataclass(frozen=True, slots=True)
class PackagesInterval:
    """Measured values of all packages of a node in one interval."""

    seconds: float
    joules: float
    #: Of all processes, by the node; None if unknown.
    node_cpu_seconds: float | None
    #: By pod; None if unknown.
    pod_cpu_seconds: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class PackagesEnergy:
    """Energy of the packages in joules: pods, idle and unattributed add up to the counters."""

    #: By name; without pods whose CPU time is unknown.
    pods: tuple[HolderEnergy, ...]
    idle_joules: float
    unattributed_joules: float
    #: False if the counters contradict the bands, so that the bounds are zero and all energy over idle.
    band_held: bool = True


def watts_per_cpu_second(curves: NodeCurves) -> WattsBand:
    """Return the band of watts of one busy thread above idle: secants of the packages' curve, halved and doubled."""
    idle, *loads = curves.packages_watts
    secants = [(watts - idle) / (curves.threads * step / len(loads)) for step, watts in enumerate(loads, start=1)]
    return WattsBand(min(secants) / WORK_SPREAD, max(secants) * WORK_SPREAD)


def packages_energy(
    interval: PackagesInterval, busy: WattsBand, idle: WattsBand, fitted_watts: Mapping[str, float] | None = None
) -> PackagesEnergy:
    """Return the energy of the packages by pod.

    Args:
        interval: the measured values.
        busy: watts of one busy thread above idle.
        idle: watts of all packages without work.
        fitted_watts: watts per CPU second by pod (`joulie_core.attribution.fit`); others are at the middle of the band.
    """
    lowest_idle = min(interval.joules, idle.lowest * interval.seconds)
    highest_idle = min(interval.joules, idle.highest * interval.seconds)
    idle_joules = (lowest_idle + highest_idle) / 2.0
    active = interval.joules - idle_joules
    if interval.node_cpu_seconds is None:
        return PackagesEnergy((), idle_joules, active)
    times = {pod: seconds for pod, seconds in interval.pod_cpu_seconds.items() if seconds is not None}
    rest = max(0.0, interval.node_cpu_seconds - math.fsum(times.values()))
    names = sorted(times)
    cpu_seconds = [*(times[pod] for pod in names), rest]
    least, most = interval.joules - highest_idle, interval.joules - lowest_idle
    total = math.fsum(cpu_seconds)
    held = busy.lowest * total <= most and busy.highest * total >= least
    bounds = _bounds(cpu_seconds, busy, least, most) if held else [(0.0, most if s > 0.0 else 0.0) for s in cpu_seconds]
    # The idle energy itself is inside its band, so that the sum of the points may have to move it.
    active = min(max(active, math.fsum(low for low, _ in bounds)), math.fsum(high for _, high in bounds))
    watts = [*((fitted_watts or {}).get(pod, busy.middle) for pod in names), busy.middle]
    points = _points([w * s for w, s in zip(watts, cpu_seconds, strict=True)], bounds, active)
    pods = tuple(
        HolderEnergy(pod, EnergyKind.ALLOCATED, AllocationRule.CPU_TIME_BAND, point, low, high)
        for pod, point, (low, high) in zip(names, points[:-1], bounds[:-1], strict=True)
    )
    idle_joules = min(highest_idle, max(0.0, interval.joules - math.fsum(points)))
    attributed = math.fsum([*points[:-1], idle_joules])
    return PackagesEnergy(pods, idle_joules, max(0.0, interval.joules - attributed), held)


def _bounds(cpu_seconds: list[float], busy: WattsBand, least: float, most: float) -> list[tuple[float, float]]:
    total = math.fsum(cpu_seconds)
    return [
        (
            max(busy.lowest * own, least - busy.highest * (total - own)) if own > 0.0 else 0.0,
            max(0.0, min(busy.highest * own, most - busy.lowest * (total - own))),
        )
        for own in cpu_seconds
    ]


def _points(wanted: list[float], bounds: list[tuple[float, float]], joules: float) -> list[float]:
    """Scale what is wanted by one factor, each within its bounds, so that it adds up to the joules."""

    def scaled(factor: float) -> list[float]:
        return [min(max(w * factor, low), high) for w, (low, high) in zip(wanted, bounds, strict=True)]

    below, above = 0.0, 1.0
    for _ in range(64):
        if math.fsum(scaled(above)) >= joules:
            break
        above *= 2.0
    for _ in range(100):
        middle = (below + above) / 2.0
        below, above = (middle, above) if math.fsum(scaled(middle)) < joules else (below, middle)
    return scaled(above)
