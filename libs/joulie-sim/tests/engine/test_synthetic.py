"""The synthetic workload."""

import numpy as np
import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import default_nodes
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs

_DAY_S = 86_400.0
_MIX = ArrivalMix(jobs=20_000, window_s=_DAY_S, load=0.6)


@pytest.fixture(scope="module")
def jobs(machines):
    return synthetic_jobs(_MIX, machines, seed=7)


def test_the_same_seed_gives_the_same_jobs_and_another_one_others(machines, jobs) -> None:
    again = synthetic_jobs(_MIX, machines, seed=7)
    assert all(np.array_equal(getattr(jobs, name), getattr(again, name)) for name in ("arrives_s", "work_s", "gpus"))
    assert not np.array_equal(jobs.work_s, synthetic_jobs(_MIX, machines, seed=8).work_s)


def test_the_work_offers_the_load_of_gpus_and_of_cores(machines, jobs) -> None:
    gpu_rates = machines.mean_work_per_gpu[jobs.gpu_resource]
    taken_s = jobs.work_s / np.where(jobs.gpus > 0, gpu_rates, machines.mean_work_per_thread)
    gpu_s = float((jobs.gpus * taken_s).sum())
    core_s = float((jobs.cpu_milli / 1000 * taken_s).sum())
    assert gpu_s / (machines.gpus.sum() * _DAY_S) == pytest.approx(0.6, rel=0.01)
    assert core_s / (machines.allocatable[0].sum() / 1000 * _DAY_S) == pytest.approx(0.6, rel=0.01)


def test_more_jobs_arrive_by_day_than_by_night(jobs) -> None:
    hours = np.histogram(jobs.arrives_s, bins=24, range=(0.0, _DAY_S))[0]
    # Around the peak at 15:00 and the minimum at 3:00 the rates are 1.6 and 0.4 of the mean.
    assert 2.5 < hours[13:17].sum() / hours[1:5].sum() < 6.0
    assert np.all(np.diff(jobs.arrives_s) >= 0.0)
    assert jobs.arrives_s.max() <= _DAY_S


def test_the_jobs_of_a_burst_are_alike(machines) -> None:
    bursts = ArrivalMix(jobs=5_000, window_s=_DAY_S, load=0.3, burst_share=1.0)
    jobs = synthetic_jobs(bursts, machines, seed=1)
    alike = np.stack([jobs.work_s, jobs.cpu_milli, jobs.gpus, jobs.performance, jobs.kind, jobs.cpu_utilization])
    kinds, sizes = np.unique(alike, axis=1, return_counts=True)
    assert 50 < kinds.shape[1] < 200
    assert sizes.max() > 50


def test_a_job_with_gpus_has_their_utilization_and_others_have_none(jobs) -> None:
    assert np.all((jobs.gpu_utilization > 0) == (jobs.gpus > 0))
    assert np.all(jobs.cpu_utilization[jobs.gpus > 0] <= 0.6)
    assert np.all(jobs.cpu_utilization[jobs.gpus == 0] >= 0.6)


def test_a_cluster_without_gpus_gets_jobs_without_gpus() -> None:
    nodes = [node for node in default_nodes(40) if not any(key.endswith("/gpu") for key in node.allocatable)]
    machines = machines_of(nodes, Inventory.load())
    jobs = synthetic_jobs(ArrivalMix(jobs=2000, window_s=7200.0, load=0.3), machines, seed=1)
    assert len(machines) == 26
    assert not jobs.gpus.any()
