"""The lower bound of the energy: exact where it can be computed by hand, and below every schedule."""

import numpy as np
import pytest

from joulie_core.hardware.inventory import Inventory
from joulie_core.node import Node
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.oracle import least_joules
from joulie_sim.engine.power_model import CalibratedPowerModel
from joulie_sim.engine.records import MeasuredWindow
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.synthetic import ArrivalMix, synthetic_jobs
from joulie_sim.physics.parts import Controls

_HOUR = MeasuredWindow(0.0, 3_600.0)
_OFF_WATTS = 15.0


def _machines(nodes: int) -> Machines:
    return _mixed(*["AMD EPYC 7763"] * nodes)


def _mixed(*models: str) -> Machines:
    """Return nodes of 128 threads with two CPUs of these models."""
    allocatable = {"cpu": "128", "memory": "512Gi", "pods": "110"}
    nodes = [
        Node(
            f"n{number}",
            labels={"joulie.io/hw.cpu-model": model, "joulie.io/hw.cpu-sockets": "2"},
            allocatable=allocatable,
        )
        for number, model in enumerate(models)
    ]
    return machines_of(nodes, Inventory.load())


def _full_watts(machines: Machines, load: float = 1.0) -> float:
    return CalibratedPowerModel(machines.groups[0]).server(load * 128.0, Controls()).wall_watts


def _bound_watts(machines: Machines, jobs: Jobs, window: MeasuredWindow = _HOUR) -> float:
    joules = least_joules(machines, jobs, window, off_watts=_OFF_WATTS)
    return joules / (window.end_s - window.begin_s)


def test_without_jobs_all_nodes_are_off(equal_jobs):
    assert _bound_watts(_machines(3), equal_jobs([7_200.0])) == pytest.approx(3 * _OFF_WATTS)


def test_work_for_whole_nodes_costs_whole_nodes(equal_jobs):
    machines = _machines(2)
    jobs = equal_jobs([0.0] * 4, cores=64, work_s=3_600.0)
    expected = 2 * _full_watts(machines)
    assert _bound_watts(machines, jobs) == pytest.approx(expected, rel=0.002)


def test_a_node_is_on_for_as_long_as_its_job_runs(equal_jobs):
    machines = _machines(1)
    jobs = equal_jobs([600.0], cores=128, work_s=900.0)
    expected = 0.25 * _full_watts(machines) + 0.75 * _OFF_WATTS
    assert _bound_watts(machines, jobs) == pytest.approx(expected, rel=0.002)


def test_where_there_are_more_nodes_each_runs_at_the_load_that_is_cheapest_for_the_work(equal_jobs):
    machines = _machines(4)
    jobs = equal_jobs([0.0] * 4, cores=64, work_s=3_600.0)
    # Watts above those of a node that is off, for a node's whole work, at loads from a tenth to all.
    costs = [(_full_watts(machines, load / 20) - _OFF_WATTS) / (load / 20) for load in range(10, 21)]
    assert min(costs) < costs[-1]
    assert _bound_watts(machines, jobs) == pytest.approx(4 * _OFF_WATTS + 2 * min(costs), rel=0.002)


def test_only_the_window_counts_and_what_found_no_room_before_is_done_within_it(equal_jobs):
    machines = _machines(1)
    # Two hours of work for one node: the second hour is after the first.
    jobs = equal_jobs([0.0, 0.0], cores=128, work_s=3_600.0)
    for begin_s in (0.0, 3_600.0):
        window = MeasuredWindow(begin_s, begin_s + 3_600.0)
        assert _bound_watts(machines, jobs, window) == pytest.approx(_full_watts(machines), rel=0.002)
    assert _bound_watts(machines, jobs, MeasuredWindow(7_200.0, 10_800.0)) == pytest.approx(_OFF_WATTS, rel=0.01)


def test_the_model_that_does_most_work_for_its_joules_is_taken(equal_jobs):
    old, new = "Intel Xeon Platinum 8180", "AMD EPYC 9654"
    jobs, long = equal_jobs([0.0], cores=32, work_s=3_600.0), MeasuredWindow(0.0, 7_200.0)
    mixed = _bound_watts(_mixed(old, new), jobs, long)
    assert mixed - 2 * _OFF_WATTS < 0.95 * (_bound_watts(_mixed(old, old), jobs, long) - 2 * _OFF_WATTS)
    assert mixed == pytest.approx(_bound_watts(_mixed(new, new), jobs, long), rel=0.01)


@pytest.mark.parametrize("arm", ["kube_default", "most_allocated", "packing_score_sleep"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_schedule_of_all_the_work_draws_less(machines, arm, seed):
    jobs = synthetic_jobs(ArrivalMix(jobs=1_000, window_s=7_200.0, load=0.2), machines, seed=seed)
    result = Simulation(machines, jobs, ARMS[arm], SimulationSettings(seed=seed)).run()
    assert not np.isnan(result.jobs.ended_s).any()
    end_s = np.ceil(result.end_s / 60.0) * 60.0
    bound = least_joules(machines, jobs, MeasuredWindow(0.0, float(end_s)), off_watts=_OFF_WATTS)
    assert 0.2 * result.it_joules < bound < result.it_joules + result.idle_watts * (end_s - result.end_s)
