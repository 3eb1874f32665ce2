"""Jobs that are moved to empty their node, by the decision of consolidation."""

import numpy as np
import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_sleep_policy import ConsolidationMode, ConsolidationSpec, MinAwakeSpec
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.sleep import SleepSettings
from joulie_sim.engine.arm import SleepingArm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.movable_jobs import MovableJobs, MovingSettings
from joulie_sim.engine.node_resources import PlacementRequest
from joulie_sim.engine.node_sleep_settings import MovingSleepSettings
from joulie_sim.engine.records import SimulationResult
from joulie_sim.engine.simulation import Simulation, SimulationSettings

_HOUR_S = 3600.0


def _arm(mode=ConsolidationMode.ACT, **moving) -> SleepingArm:
    decision = SleepSettings(
        min_awake=MinAwakeSpec(count=0, spare=0),
        idle_seconds=600,
        min_awake_seconds=0,
        max_asleep_percent=90,
        consolidation=ConsolidationSpec(mode=mode),
    )
    return SleepingArm(
        name="moved", summary="", sleep=MovingSleepSettings(decision=decision, moving=MovingSettings(**moving))
    )


def _run(machines, jobs, arm, **settings) -> SimulationResult:
    return Simulation(machines, jobs, arm, SimulationSettings(**settings)).run()


def test_jobs_of_few_on_many_nodes_are_moved_together_and_their_nodes_sleep(equal_machines, equal_jobs) -> None:
    # kube-scheduler spreads them over the nodes.
    jobs = equal_jobs([0.0] * 12, cores=2, work_s=6 * _HOUR_S)
    stay = _run(equal_machines, jobs, _arm(ConsolidationMode.RECOMMEND))
    move = _run(equal_machines, jobs, _arm())
    before, after = (len(set(result.jobs.node.tolist())) for result in (stay, move))
    assert (stay.moved, before > 9, after < 7) == (0, True, True), (before, after)
    assert move.moved >= before - after
    assert move.it_joules < 0.9 * stay.it_joules


def test_a_moved_job_starts_once_and_ends_later_by_the_work_that_it_lost(equal_machines, equal_jobs) -> None:
    jobs = equal_jobs([0.0] * 12, cores=2, work_s=2 * _HOUR_S)
    result = _run(equal_machines, jobs, _arm(lost_s=500.0))
    assert np.all(result.jobs.started_s == 0.0)
    late_s = result.jobs.ended_s - 2 * _HOUR_S
    assert late_s.sum() == pytest.approx(500.0 * result.moved)
    assert np.all(result.jobs.left_s == 0.0)


def test_a_job_loses_no_more_than_it_has_received(equal_machines, equal_jobs) -> None:
    jobs = equal_jobs([0.0] * 12, cores=2, work_s=2 * _HOUR_S)
    result = _run(equal_machines, jobs, _arm(lost_s=1e9))
    late_s = result.jobs.ended_s - 2 * _HOUR_S
    # All of what it had done by then, ten idle minutes and two decisions after its start at the earliest.
    assert late_s.max() >= 600.0
    assert late_s.max() < result.end_s - 2 * _HOUR_S + 1.0
    assert set(np.round(late_s[late_s > 0.0] % 60.0)) <= {0.0, 60.0}, "decisions are made every minute"


@pytest.mark.parametrize(("performance", "share"), [(True, 1.0), (False, 0.0)])
def test_performance_jobs_and_jobs_without_a_controller_stay(equal_machines, equal_jobs, performance, share) -> None:
    jobs = equal_jobs([0.0] * 12, cores=2, work_s=2 * _HOUR_S, performance=performance)
    result = _run(equal_machines, jobs, _arm(share=share))
    assert result.moved == 0
    assert np.all(result.jobs.ended_s == 2 * _HOUR_S)


def test_a_simulation_that_ends_before_a_moved_job_says_what_is_left_of_it(equal_machines, equal_jobs) -> None:
    jobs = equal_jobs([0.0] * 12, cores=2, work_s=6 * _HOUR_S)
    result = _run(equal_machines, jobs, _arm(lost_s=500.0), horizon_s=3 * _HOUR_S)
    assert result.moved > 0
    assert result.jobs.left_s.sum() == pytest.approx(12 * 3 * _HOUR_S + 500.0 * result.moved)


def test_all_work_is_done_where_jobs_are_moved(machines, busy_jobs) -> None:
    result = _run(machines, busy_jobs, ARMS["packing_score_sleep_shared_moved"])
    assert result.moved > 0
    assert np.all(result.jobs.left_s == 0.0)
    fastest = max(group.hardware.work_per_s(gpus=gpus) for group in machines.groups for gpus in (False, True))
    assert np.all(result.jobs.ended_s - result.jobs.started_s >= busy_jobs.work_s / fastest * (1 - 1e-9))


def test_movable_jobs_are_those_that_run_on_a_node(equal_jobs) -> None:
    request = PlacementRequest(1000.0, 0.0, 0, 0, PodDemand(1.0, 0.0, 0.0, WorkloadClass.STANDARD))
    movable = MovableJobs(equal_jobs([0.0] * 3), MovingSettings())
    for job, node in ((0, 4), (1, 4), (2, 5)):
        movable.started(job, node, request)
    movable.ended(1)
    assert (movable.on(4), movable.on(5), movable.on(6)) == ({0: request}, {2: request}, {})
    movable.ended(0)
    movable.started(0, 5, request)
    assert (movable.on(4), movable.on(5)) == ({}, {2: request, 0: request})


def test_a_share_of_the_standard_jobs_has_a_controller_the_same_ones_each_time(equal_jobs) -> None:
    request = PlacementRequest(1000.0, 0.0, 0, 0, PodDemand(1.0, 0.0, 0.0, WorkloadClass.STANDARD))
    found = []
    for _ in range(2):
        movable = MovableJobs(equal_jobs([0.0] * 1000), MovingSettings(share=0.3))
        for job in range(1000):
            movable.started(job, 0, request)
        found.append(movable.on(0).keys())
    assert found[0] == found[1]
    assert 250 < len(found[0]) < 350
