"""Comparison of arms, and the figures that it is made of."""

from statistics import stdev

import msgspec
import pytest

from joulie_core.demand import WorkloadClass
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.comparison import ComparisonError, Interval, compare
from joulie_sim.engine.results import Manifest, SimulationCost
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import GroupSummary, SimulationSummary, summarize

_COST = SimulationCost(cpu_s=1.0, events=1, events_per_cpu_s=1.0, peak_rss_mib=1.0)


def _group(p95: float, done: int = 5) -> GroupSummary:
    return GroupSummary(
        workload_class="standard",
        pool="gpu",
        jobs=5,
        done=done,
        work_device_hours=1.0,
        stretch_mean=1.0,
        stretch_p50=1.0,
        stretch_p95=p95,
        stretch_p99=9.0,
        wait_p99_s=0.0,
        slowdown_mean=1.0,
    )


def _summary(it_kwh: float, end_s: float = 3600.0, groups: tuple[GroupSummary, ...] = ()) -> SimulationSummary:
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
        dropped=1,
        work_core_hours=1.0,
        work_gpu_hours=0.0,
        cores_held=0.5,
        gpus_held=0.0,
        joules_per_core_second=1.0,
        facility_joules_per_core_second=2.0,
        transitions=0,
        groups=groups,
        hardware=(),
    )


def _manifest(arm: str, seed: int, summary: SimulationSummary, **inputs: object) -> Manifest:
    return Manifest(arm=arm, seed=seed, inputs=inputs, nodes=1, versions={}, summary=summary, cost=_COST)


def test_an_arm_that_ends_early_pays_for_idle_nodes_until_its_baseline_ends() -> None:
    late, early = _summary(100.0, end_s=7200.0), _summary(80.0, end_s=3600.0)
    base, other = compare([_manifest("fast", 0, early), _manifest("base", 0, late)], "base")
    assert (base.arm, base.it_saving_pct.mean) == ("base", 0.0)
    # 80 kWh, and an hour at 10 kW.
    assert other.it_kwh.mean == 90.0
    assert other.it_saving_pct.mean == pytest.approx(10.0)
    assert other.facility_saving_pct.mean == pytest.approx(10.0)
    assert other.missed == 1


def test_an_arm_that_ends_late_changes_no_saving_of_the_others() -> None:
    pair = [_manifest("base", 0, _summary(100.0)), _manifest("less", 0, _summary(80.0))]
    late = _manifest("late", 0, _summary(300.0, end_s=36_000.0))
    assert [arm.it_saving_pct.mean for arm in compare(pair, "base")] == [0.0, pytest.approx(20.0)]
    assert compare([*pair, late], "base")[:2] == compare(pair, "base")
    # 300 kWh against 100 kWh and nine hours at 10 kW.
    assert compare([*pair, late], "base")[2].it_saving_pct.mean == pytest.approx(100.0 * (1.0 - 300.0 / 190.0))


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


def test_the_figures_are_those_of_the_jobs(equal_machines, equal_jobs) -> None:
    machines = equal_machines
    jobs = equal_jobs([0.0, 0.0, 100.0], cores=2, work_s=50.0)
    jobs.performance[0] = True
    result = Simulation(machines, jobs, ARMS["kube_default"], SimulationSettings(horizon_s=120.0)).run()
    summary = summarize(result, jobs, machines)
    assert (summary.jobs, summary.done, summary.missed) == (3, 2, 1)
    groups = {(group.workload_class, group.pool): group for group in summary.groups}
    standard = groups["standard", "cpu"]
    assert (standard.jobs, standard.done, standard.stretch_mean, standard.stretch_p99) == (2, 1, 1.0, 1.0)
    assert groups["performance", "gpu"].jobs == 0
    assert summary.stretch_mean(WorkloadClass.PERFORMANCE) == 1.0
    # Two jobs of two cores for 50 s, and one for 20 s, of all cores for 120 s.
    cores = machines.allocatable[0].sum() / 1000
    assert (summary.cores_held, summary.gpus_held) == (pytest.approx(2 * 120 / (cores * 120)), 0.0)
    # The third job has had 20 of its 50 s when the simulation ends.
    assert summary.work_core_hours == pytest.approx(2 * 120 / 3600)
    assert standard.work_device_hours == pytest.approx(2 * 70 / 3600)
    assert summary.joules_per_core_second == pytest.approx(result.it_joules / 240.0)
    assert result.jobs.left_s.tolist() == [0.0, 0.0, 30.0]
    ran_on = {machines.groups[machines.group[node]].view.family for node in result.jobs.node}
    assert {group.pool for group in summary.hardware if group.jobs} == ran_on
    assert sum(group.jobs for group in summary.hardware) == 3
    assert msgspec.json.decode(msgspec.json.encode(summary), type=SimulationSummary) == summary


def test_devices_that_jobs_held_are_those_of_their_work_where_nothing_slows_it_down(equal_machines, busy_jobs) -> None:
    machines = equal_machines
    result = Simulation(machines, busy_jobs, ARMS["kube_default"], SimulationSettings()).run()
    summary = summarize(result, busy_jobs, machines)
    assert summary.missed == 0
    hours = summary.end_s / 3600.0
    assert summary.cores_held == pytest.approx(summary.work_core_hours / (machines.allocatable[0].sum() / 1000 * hours))
    assert summary.gpus_held == pytest.approx(summary.work_gpu_hours / (machines.gpus.sum() * hours))
    # The load is that of the two hours of arrivals, and the run takes longer.
    assert 0.05 < summary.gpus_held < 0.3


def test_a_job_that_waits_is_stretched_and_not_slowed_down(equal_machines, equal_jobs) -> None:
    machines = equal_machines
    cores = int(machines.allocatable[0].max()) // 1000
    largest = int((machines.allocatable[0] // 1000 >= cores).sum())
    jobs = equal_jobs([0.0] * (largest + 1), cores=cores, work_s=50.0)
    summary = summarize(Simulation(machines, jobs, ARMS["kube_default"], SimulationSettings()).run(), jobs, machines)
    assert summary.slowdown_mean(WorkloadClass.STANDARD) == pytest.approx(1.0)
    # All but one have a node at once, and that one when they are done.
    assert summary.stretch_mean(WorkloadClass.STANDARD) == pytest.approx((largest + 2.0) / (largest + 1))
    assert summary.stretch_mean(WorkloadClass.PERFORMANCE) is None


def test_a_change_of_stretch_is_that_of_the_same_seed() -> None:
    results = [_manifest("base", seed, _summary(1.0, groups=(_group(2.0 + seed),))) for seed in range(3)]
    results += [_manifest("slow", seed, _summary(1.0, groups=(_group(1.5 * (2.0 + seed)),))) for seed in range(3)]
    (pool,) = compare(results, "base")[1].pools
    assert (pool.pool, pool.p95.mean) == ("gpu", pytest.approx(4.5))
    assert (pool.p95_change_pct.mean, pool.p95_change_pct.half_width) == (
        pytest.approx(50.0),
        pytest.approx(0.0, abs=1e-9),
    )


def test_a_pool_without_a_finished_job_in_a_seed_has_no_stretch() -> None:
    results = [_manifest("base", 0, _summary(1.0, groups=(_group(2.0),)))]
    results += [_manifest("other", 0, _summary(1.0, groups=(_group(0.0, done=0),)))]
    assert [len(arm.pools) for arm in compare(results, "base")] == [1, 0]


@pytest.mark.parametrize(("count", "quantile"), [(2, 12.706), (21, 2.086), (25, 2.0639), (41, 2.0211), (1001, 1.9623)])
def test_intervals_have_the_quantile_of_their_number_of_seeds(count, quantile) -> None:
    values = [float(index % 2) for index in range(count)]
    expected = quantile * stdev(values) / count**0.5
    assert Interval.of(values).half_width == pytest.approx(expected, rel=1e-4)
