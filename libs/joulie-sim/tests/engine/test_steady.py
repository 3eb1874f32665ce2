"""A load that lasts, and what a window of it measures."""

from dataclasses import replace

import numpy as np
import pytest

from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.records import MINUTE_S, MeasuredWindow
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.steady import SteadyMix, steady_jobs
from joulie_sim.engine.summary import summarize
from joulie_sim.engine.synthetic import WorkloadError

_HOUR_S = 3_600.0
_MIX = SteadyMix(load=0.3, warm_up_s=12 * _HOUR_S, window_s=24 * _HOUR_S)


@pytest.fixture(scope="module")
def by_load(machines) -> dict[float, Jobs]:
    return {load: steady_jobs(replace(_MIX, load=load), machines, seed=3) for load in (0.3, 0.6)}


def _mean_s(machines, jobs: Jobs):
    """Return the seconds that each job takes on the mean device of its kind."""
    return jobs.work_s / np.where(
        jobs.gpus > 0, machines.mean_work_per_gpu[jobs.gpu_resource], machines.mean_work_per_thread
    )


def test_the_number_of_jobs_follows_the_load_and_their_lengths_do_not(machines, by_load) -> None:
    low, high = by_load[0.3], by_load[0.6]
    assert len(high) == pytest.approx(2 * len(low), rel=0.01)
    assert (high.gpus > 0).mean() == pytest.approx((low.gpus > 0).mean(), abs=0.02)
    for jobs in by_load.values():
        taken_s = _mean_s(machines, jobs)
        assert taken_s.mean() == pytest.approx(_MIX.mean_work_s, rel=0.1)
        assert 0.9 * _MIX.longest_work_s < taken_s.max() <= _MIX.longest_work_s * (1 + 1e-9)
    medians = [float(np.median(jobs.work_s)) for jobs in by_load.values()]
    assert medians[0] == pytest.approx(medians[1], rel=0.15)


def test_the_window_is_offered_the_load_of_gpus_and_of_cores_in_the_mean_over_seeds(machines) -> None:
    mix = replace(_MIX, load=0.4)
    begin_s, end_s = mix.measured.begin_s, mix.measured.end_s
    cores, gpus = [], []
    for seed in range(8):
        jobs = steady_jobs(mix, machines, seed)
        within = (jobs.arrives_s >= begin_s) & (jobs.arrives_s < end_s)
        taken_s = _mean_s(machines, jobs) * within
        cores.append(float((jobs.cpu_milli / 1000 * taken_s).sum()))
        gpus.append(float((jobs.gpus * taken_s).sum()))
    length_s = end_s - begin_s
    assert np.mean(cores) / (machines.allocatable[0].sum() / 1000 * length_s) == pytest.approx(0.4, abs=0.015)
    assert np.mean(gpus) / (machines.gpus.sum() * length_s) == pytest.approx(0.4, abs=0.03)


def test_jobs_arrive_until_the_end_of_the_window_and_fewer_by_night(by_load) -> None:
    arrives_s = by_load[0.6].arrives_s
    assert _MIX.measured.end_s - 600.0 < arrives_s.max() <= _MIX.measured.end_s
    day = np.histogram(arrives_s, bins=36, range=(0.0, 36 * _HOUR_S))[0]
    # Around 15:00 and 3:00 the rates are 1.3 and 0.7 of the mean.
    assert 1.4 < day[13:17].sum() / day[1:5].sum() < 2.4


def test_a_warm_up_that_is_shorter_than_the_longest_job_is_refused(machines) -> None:
    shortest_s = _MIX.longest_work_s / machines.slowest_share
    with pytest.raises(WorkloadError, match="warm-up is shorter than the longest work"):
        steady_jobs(replace(_MIX, warm_up_s=shortest_s - 1.0), machines, seed=0)
    assert len(steady_jobs(replace(_MIX, warm_up_s=shortest_s + 1.0), machines, seed=0))


def test_gpus_without_cores_for_their_jobs_are_refused(machines) -> None:
    allocatable = machines.allocatable.copy()
    allocatable[0, 1:] = 8_000
    few_cores = replace(machines, allocatable=allocatable)
    with pytest.raises(WorkloadError, match="too few cores per GPU"):
        steady_jobs(_MIX, few_cores, seed=0)


def test_a_window_has_its_own_energy_work_and_jobs(equal_machines, equal_jobs) -> None:
    machines = equal_machines
    # Two cores each: before the window, over its begin, within it, over its end; and one that keeps the simulation on.
    jobs = equal_jobs([0.0, 100.0, 150.0, 280.0, 300.0], cores=2, work_s=100.0)
    result = Simulation(machines, jobs, ARMS["kube_default"], SimulationSettings()).run()
    summary = summarize(result, jobs, machines, MeasuredWindow(2 * MINUTE_S, 5 * MINUTE_S))
    assert (summary.jobs, summary.done) == (2, 2)
    watts = result.minutes.it_watts
    assert summary.it_kwh == pytest.approx(sum(watts[2:5]) * MINUTE_S / 3.6e6)
    assert summary.facility_kwh == pytest.approx(sum(result.minutes.facility_watts[2:5]) * MINUTE_S / 3.6e6)
    assert summary.peak_kw == pytest.approx(max(watts[2:5]) / 1000.0)
    # 80 s of the second job, all of the third, 20 s of the fourth.
    assert summary.work_core_hours == pytest.approx(2 * 200 / 3600)
    assert summary.cores_held == pytest.approx(2 * 200 / (machines.allocatable[0].sum() / 1000 * 180))
    standard = next(group for group in summary.groups if group.workload_class == "standard" and group.pool == "cpu")
    assert (standard.jobs, standard.work_device_hours) == (2, pytest.approx(2 * 200 / 3600))
    assert summary.joules_per_core_second == pytest.approx(summary.it_kwh * 3.6e6 / 400)


def test_power_cycles_and_waits_are_those_of_the_window(equal_machines, equal_jobs) -> None:
    machines = equal_machines
    cores = int(machines.allocatable[0].max()) // 1000
    largest = int((machines.allocatable[0] // 1000 >= cores).sum())
    # One more than there are nodes for: it waits for the others.
    jobs = equal_jobs([60.0] * (largest + 1) + [5_000.0], cores=cores, work_s=50.0)
    result = Simulation(machines, jobs, ARMS["packing_sleep"], SimulationSettings()).run()
    assert result.power_cycles == sum(result.minutes.power_cycles) > 0
    first = next(minute for minute, count in enumerate(result.minutes.power_cycles) if count)
    before = summarize(result, jobs, machines, MeasuredWindow(0.0, first * MINUTE_S))
    assert before.power_cycles == 0
    (standard,) = [group for group in before.groups if group.jobs]
    assert standard.wait_p99_s == pytest.approx(np.percentile([0.0] * largest + [50.0], 99))
    after = summarize(result, jobs, machines, MeasuredWindow(first * MINUTE_S, (first + 1) * MINUTE_S))
    assert after.power_cycles == result.minutes.power_cycles[first]


def test_a_window_that_the_simulation_does_not_reach_is_refused(machines, equal_jobs) -> None:
    jobs = equal_jobs([0.0])
    result = Simulation(machines, jobs, ARMS["kube_default"], SimulationSettings()).run()
    with pytest.raises(ValueError, match="before the window"):
        summarize(result, jobs, machines, MeasuredWindow(0.0, 3_600.0))
