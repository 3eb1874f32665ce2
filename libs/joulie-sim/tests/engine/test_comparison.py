"""Comparison of arms, and the figures that it is made of."""

import msgspec
import pytest

from joulie_core.demand import WorkloadClass
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.comparison import ComparisonError, Interval, compare
from joulie_sim.engine.results import Manifest
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize


def _summary(it_kwh: float, end_s: float = 3600.0) -> SimulationSummary:
    return SimulationSummary(
        end_s=end_s,
        it_kwh=it_kwh,
        facility_kwh=2 * it_kwh,
        peak_kw=1.0,
        ramp_p99_kw=1.0,
        idle_kw=10.0,
        idle_facility_kw=20.0,
        jobs=3,
        done=2,
        joules_per_core_second=1.0,
        transitions=0,
        groups=(),
    )


def _manifest(arm: str, seed: int, summary: SimulationSummary, **inputs: object) -> Manifest:
    return Manifest(arm=arm, seed=seed, inputs=inputs, nodes=1, versions={}, summary=summary)


def test_an_arm_that_ends_early_pays_for_idle_nodes_until_the_last_one_ends() -> None:
    late, early = _summary(100.0, end_s=7200.0), _summary(80.0, end_s=3600.0)
    base, other = compare([_manifest("fast", 0, early), _manifest("base", 0, late)], "base")
    assert (base.arm, base.it_saving_pct.mean) == ("base", 0.0)
    # 80 kWh, and an hour at 10 kW.
    assert other.it_kwh.mean == 90.0
    assert other.it_saving_pct.mean == pytest.approx(10.0)
    assert other.facility_saving_pct.mean == pytest.approx(10.0)
    assert other.missed == 1


def test_the_interval_of_savings_is_that_of_the_differences_seed_by_seed() -> None:
    results = [_manifest("base", seed, _summary(100.0 * (seed + 1))) for seed in range(3)]
    results += [_manifest("less", seed, _summary(90.0 * (seed + 1))) for seed in range(3)]
    less = compare(results, "base")[1]
    assert (less.seeds, less.it_saving_pct.mean) == (3, pytest.approx(10.0))
    assert less.it_saving_pct.half_width == pytest.approx(0.0, abs=1e-9)
    # Three values 90, 180, 270: 4.303 * 90 / sqrt(3).
    assert less.it_kwh.half_width == pytest.approx(223.6, abs=0.1)


def test_a_single_seed_has_no_interval() -> None:
    assert Interval.of([5.0]) == Interval(5.0, None)


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ([_manifest("other", 0, _summary(1.0))], "baseline"),
        ([_manifest("base", 0, _summary(1.0), load=0.5), _manifest("other", 0, _summary(1.0), load=0.6)], "different"),
        ([_manifest("base", 0, _summary(1.0)), _manifest("other", 1, _summary(1.0))], "different seeds"),
    ],
)
def test_what_cannot_be_compared_is_refused(results, reason) -> None:
    with pytest.raises(ComparisonError, match=reason):
        compare(results, "base")


def test_the_figures_are_those_of_the_jobs(machines, equal_jobs) -> None:
    jobs = equal_jobs([0.0, 0.0, 100.0], cores=2, work_s=50.0)
    jobs.performance[0] = True
    result = Simulation(machines, jobs, ARMS["kube_default"], SimulationSettings(horizon_s=120.0)).run()
    summary = summarize(result, jobs)
    assert (summary.jobs, summary.done, summary.missed) == (3, 2, 1)
    groups = {(group.workload_class, group.pool): group for group in summary.groups}
    standard = groups["standard", "cpu"]
    assert (standard.jobs, standard.done, standard.slowdown_mean, standard.slowdown_p99) == (2, 1, 1.0, 1.0)
    assert standard.work_device_hours == pytest.approx(2 * 50 / 3600)
    assert groups["performance", "gpu"].jobs == 0
    assert summary.slowdown_mean(WorkloadClass.PERFORMANCE) == 1.0
    assert summary.joules_per_core_second == pytest.approx(result.it_joules / 200.0)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=SimulationSummary) == summary
