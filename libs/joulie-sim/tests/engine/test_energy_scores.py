"""Scores of `energy_v1` as arrays: the same rows as joulie_core computes node by node."""

from dataclasses import replace

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import MeasurementQuality, MeasurementSource
from joulie_core.scoring.energy_v1 import EnergyScore
from joulie_core.scoring.state import NodeSituation, node_state
from joulie_core.twin import Measurement, TwinInputs, build_twin
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.energy_scores import EnergyScores
from joulie_sim.engine.simulation import Simulation, SimulationSettings

_POLICY = EnergyScore()


def _compare(scores: EnergyScores, machines, watts) -> set[tuple[float, ...]]:
    """Compare every row with joulie_core's, and return the rows."""
    seen = set()
    for node in range(len(machines)):
        published = scores._published[node]
        status = build_twin(
            TwinInputs(
                schedulable_class=published.schedulable_class,
                budget=published.budget,
                measurement=Measurement(MeasurementSource.AGENT, MeasurementQuality.MEASURED, float(watts[node])),
            )
        )
        state = replace(node_state(status), assumed_watts=float(scores._assumed_watts[node]))
        for workload_class in WorkloadClass:
            situation = NodeSituation(state, machines.groups[machines.group[node]].power)
            expected = _POLICY.row(situation, workload_class, 6.0)
            assert scores.row(node, workload_class, 6.0) == expected
            seen.add(tuple(expected))
    return seen


@pytest.mark.parametrize("arm", ["static_energy", "queue_lead_energy"])
def test_every_row_of_a_running_simulation_is_that_of_joulie_core(machines, busy_jobs, monkeypatch, arm) -> None:
    seen: set[tuple[float, ...]] = set()
    report = EnergyScores.report

    def checked(scores: EnergyScores, watts, now_s: float) -> None:
        report(scores, watts, now_s)
        seen.update(_compare(scores, machines, watts))

    monkeypatch.setattr(EnergyScores, "report", checked)
    Simulation(machines, busy_jobs, ARMS[arm], SimulationSettings(horizon_s=600.0)).run()
    # Rows depend on hardware, class, caps and load.
    assert len(seen) > 20
