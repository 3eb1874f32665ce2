"""Comparison of arms over the same inputs: differences from a baseline, seed by seed.

Arms that end later pay for idle nodes until then. So energies are compared up to the end of the last arm of the same
seed; every arm then draws idle power from its own end on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from joulie_core.demand import WorkloadClass
from joulie_sim.engine.results import Manifest
from joulie_sim.engine.summary import SimulationSummary

#: 97.5 % quantiles of Student's t by degrees of freedom from 1; beyond them the normal one.
_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL: Final = 1.960


class ComparisonError(Exception):
    """Results cannot be compared; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and half the width of its 95 % confidence interval; None from a single value."""

    mean: float
    half_width: float | None

    @staticmethod
    def of(values: Sequence[float]) -> "Interval":
        """Return the interval of independent values; at least one is required."""
        if len(values) == 1:
            return Interval(values[0], None)
        degrees = len(values) - 1
        quantile = _T[degrees - 1] if degrees <= len(_T) else _NORMAL
        return Interval(fmean(values), quantile * stdev(values) / len(values) ** 0.5)


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """One arm over all seeds; savings are percent of the baseline's energy, positive where less is used."""

    arm: str
    seeds: int
    it_kwh: Interval
    it_saving_pct: Interval
    facility_saving_pct: Interval
    peak_kw: Interval
    slowdown: dict[WorkloadClass, Interval]
    missed: int


def compare(manifests: Sequence[Manifest], baseline: str) -> list[ArmComparison]:
    """Return every arm against the baseline, which comes first.

    Raises:
        ComparisonError: inputs differ, or an arm lacks a seed that another has.
    """
    arms: dict[str, dict[int, SimulationSummary]] = {}
    for manifest in manifests:
        arms.setdefault(manifest.arm, {})[manifest.seed] = manifest.summary
    if baseline not in arms:
        raise ComparisonError(f"there is no result of the baseline {baseline}")
    if any(manifest.inputs != manifests[0].inputs for manifest in manifests):
        raise ComparisonError("the results have different nodes, jobs or protocols")
    if any(seeds.keys() != arms[baseline].keys() for seeds in arms.values()):
        raise ComparisonError("the arms have different seeds")
    ends = {seed: max(seeds[seed].end_s for seeds in arms.values()) for seed in arms[baseline]}
    order = sorted(arms, key=lambda arm: arm != baseline)
    return [_compared(arm, arms[arm], arms[baseline], ends) for arm in order]


def _compared(
    arm: str, seeds: dict[int, SimulationSummary], baseline: dict[int, SimulationSummary], ends: dict[int, float]
) -> ArmComparison:
    energies = {seed: summary.it_kwh_until(ends[seed]) for seed, summary in seeds.items()}
    savings = [100.0 * (1.0 - energies[seed] / baseline[seed].it_kwh_until(ends[seed])) for seed in seeds]
    facility = [
        100.0 * (1.0 - seeds[seed].facility_kwh_until(ends[seed]) / baseline[seed].facility_kwh_until(ends[seed]))
        for seed in seeds
    ]
    return ArmComparison(
        arm=arm,
        seeds=len(seeds),
        it_kwh=Interval.of(list(energies.values())),
        it_saving_pct=Interval.of(savings),
        facility_saving_pct=Interval.of(facility),
        peak_kw=Interval.of([summary.peak_kw for summary in seeds.values()]),
        slowdown={
            workload_class: Interval.of([summary.slowdown_mean(workload_class) for summary in seeds.values()])
            for workload_class in WorkloadClass
        },
        missed=sum(summary.missed for summary in seeds.values()),
    )
