"""Scores of `energy_v2` as arrays: the same rows as joulie_core computes node by node, and nodes that fill."""

import numpy as np
import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.scoring.energy_v2 import PackingScore
from joulie_core.scoring.state import NodeSituation
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.packing_scores import PackingScores
from joulie_sim.engine.simulation import Simulation, SimulationSettings

_POLICY = PackingScore()


def _rows(scores: PackingScores, machines, watts) -> set[tuple[float, ...]]:
    """Compare every row with joulie_core's for what is known of the node now, and return the rows."""
    seen = set()
    for node in range(len(machines)):
        twin = scores.snapshot(node, scores._published[node])
        assert twin.measured_watts == pytest.approx(watts[node], abs=0.05)
        for workload_class in WorkloadClass:
            situation = NodeSituation(twin, machines.groups[machines.group[node]].power)
            expected = _POLICY.row(situation, workload_class, 6.0)
            assert scores.row(node, workload_class, 6.0) == expected
            seen.add(tuple(expected))
    return seen


def test_every_row_of_a_running_simulation_is_that_of_joulie_core(machines, busy_jobs, monkeypatch) -> None:
    seen: set[tuple[float, ...]] = set()
    report = PackingScores.report

    def checked(scores: PackingScores, watts, now_s: float) -> None:
        report(scores, watts, now_s)
        seen.update(_rows(scores, machines, watts))

    monkeypatch.setattr(PackingScores, "report", checked)
    Simulation(machines, busy_jobs, ARMS["packing_score"], SimulationSettings(horizon_s=600.0)).run()
    assert len(seen) > 20


def test_what_jobs_hold_is_the_sum_of_those_that_run(machines, busy_jobs) -> None:
    simulation = Simulation(machines, busy_jobs, ARMS["packing_score"], SimulationSettings(horizon_s=3_600.0))
    result = simulation.run()
    started = result.jobs.started_s <= 3_600.0
    runs = started & np.isnan(result.jobs.ended_s)
    scores = simulation.scores
    assert isinstance(scores, PackingScores)
    for node in range(len(machines)):
        on_node = runs & (result.jobs.node == node)
        twin = scores.snapshot(node, scores._published[node])
        assert twin.held_cores == pytest.approx(busy_jobs.cpu_milli[on_node].sum() / 1000.0)
        assert twin.held_gpus == busy_jobs.gpus[on_node].sum()
    assert runs.any()


def test_jobs_go_to_fewer_nodes_than_by_the_default(machines, busy_jobs) -> None:
    used = {}
    for arm in ("kube_default", "packing_score"):
        result = Simulation(machines, busy_jobs, ARMS[arm], SimulationSettings(horizon_s=3_600.0)).run()
        cpu_jobs = (busy_jobs.gpus == 0) & (result.jobs.node >= 0)
        used[arm] = len(set(result.jobs.node[cpu_jobs].tolist()))
    assert used["packing_score"] < 0.7 * used["kube_default"]
