"""Comparison of arms over the same inputs: differences from a baseline, seed by seed.

An arm that ends later than the baseline has drawn idle power meanwhile that the other has not. So both energies of a
pair, an arm and its baseline of the same seed, count up to the later of their two ends, with idle power from the own
end on: other arms have no influence on what an arm saves. See docs/decisions/0037-steady-load.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from joulie_sim.engine.results import Manifest
from joulie_sim.engine.summary import GroupSummary, SimulationSummary

#: 97.5 % quantiles of Student's t by degrees of freedom from 1; beyond them its expansion around the normal one.
_T: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
_NORMAL: Final = 1.95996


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
        return Interval(fmean(values), _quantile(degrees) * stdev(values) / len(values) ** 0.5)


@dataclass(frozen=True, slots=True)
class StretchComparison:
    """Stretch of one class in one pool; changes are percent of the baseline's of the same seed."""

    workload_class: str
    pool: str
    mean: Interval
    p50: Interval
    p95: Interval
    p99: Interval
    mean_change_pct: Interval
    p95_change_pct: Interval


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """One arm over all seeds.

    Savings are percent of the baseline's energy, of the same seed and up to the later end of the two, positive where
    less is used; energies are the arm's up to that end.
    """

    arm: str
    seeds: int
    it_kwh: Interval
    facility_kwh: Interval
    it_saving_pct: Interval
    facility_saving_pct: Interval
    peak_kw: Interval
    ramp_p99_kw: Interval
    #: Work received, times the cores and the GPUs of the jobs.
    work_core_hours: Interval
    work_gpu_hours: Interval
    #: IT energy up to the arm's own end per second of work of one hardware thread of the reference model.
    joules_per_core_second: Interval
    #: By class and pool, and by class and hardware family.
    pools: tuple[StretchComparison, ...]
    hardware: tuple[StretchComparison, ...]
    missed: int
    dropped: int


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
    order = sorted(arms, key=lambda arm: arm != baseline)
    return [_compared(arm, arms[arm], arms[baseline]) for arm in order]


def _compared(arm: str, seeds: dict[int, SimulationSummary], baseline: dict[int, SimulationSummary]) -> ArmComparison:
    summaries = list(seeds.values())
    ends = {seed: max(summary.end_s, baseline[seed].end_s) for seed, summary in seeds.items()}
    it_kwh = {seed: summary.it_kwh_until(ends[seed]) for seed, summary in seeds.items()}
    facility_kwh = {seed: summary.facility_kwh_until(ends[seed]) for seed, summary in seeds.items()}
    return ArmComparison(
        arm=arm,
        seeds=len(seeds),
        it_kwh=Interval.of(list(it_kwh.values())),
        facility_kwh=Interval.of(list(facility_kwh.values())),
        it_saving_pct=Interval.of([-_change(it_kwh[seed], baseline[seed].it_kwh_until(ends[seed])) for seed in seeds]),
        facility_saving_pct=Interval.of(
            [-_change(facility_kwh[seed], baseline[seed].facility_kwh_until(ends[seed])) for seed in seeds]
        ),
        peak_kw=Interval.of([summary.peak_kw for summary in summaries]),
        ramp_p99_kw=Interval.of([summary.ramp_p99_kw for summary in summaries]),
        work_core_hours=Interval.of([summary.work_core_hours for summary in summaries]),
        work_gpu_hours=Interval.of([summary.work_gpu_hours for summary in summaries]),
        joules_per_core_second=Interval.of([summary.joules_per_core_second for summary in summaries]),
        pools=_stretches([(seeds[seed].groups, baseline[seed].groups) for seed in seeds]),
        hardware=_stretches([(seeds[seed].hardware, baseline[seed].hardware) for seed in seeds]),
        missed=sum(summary.missed for summary in summaries),
        dropped=sum(summary.dropped for summary in summaries),
    )


def _stretches(
    pairs: Sequence[tuple[Sequence[GroupSummary], Sequence[GroupSummary]]],
) -> tuple[StretchComparison, ...]:
    """Return the stretches of the groups; pairs of an arm's and the baseline's groups of one seed, in equal order."""
    return tuple(
        _stretch([(own[index], base[index]) for own, base in pairs])
        for index in range(len(pairs[0][0]))
        # A group without a finished job has no stretch, which is not a stretch of 0.
        if all(own[index].done and base[index].done for own, base in pairs)
    )


def _stretch(pairs: Sequence[tuple[GroupSummary, GroupSummary]]) -> StretchComparison:
    own = [group for group, _ in pairs]
    return StretchComparison(
        workload_class=own[0].workload_class,
        pool=own[0].pool,
        mean=Interval.of([group.stretch_mean for group in own]),
        p50=Interval.of([group.stretch_p50 for group in own]),
        p95=Interval.of([group.stretch_p95 for group in own]),
        p99=Interval.of([group.stretch_p99 for group in own]),
        mean_change_pct=Interval.of([_change(group.stretch_mean, base.stretch_mean) for group, base in pairs]),
        p95_change_pct=Interval.of([_change(group.stretch_p95, base.stretch_p95) for group, base in pairs]),
    )


def _change(value: float, baseline: float) -> float:
    return 100.0 * (value / baseline - 1.0)


def _quantile(degrees: int) -> float:
    if degrees <= len(_T):
        return _T[degrees - 1]
    normal = _NORMAL
    return (
        normal
        + (normal**3 + normal) / (4 * degrees)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * degrees**2)
    )
