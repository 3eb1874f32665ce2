"""Twins and scores as arrays: the same numbers as joulie_core computes node by node."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import MeasurementQuality, MeasurementSource
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.rounding import round_half_away
from joulie_core.scoring.prepared import ClusterSums, prepare_row
from joulie_core.scoring.state import BURST_TREND_SCALE, STEADY_TREND_SCALE, NodeSituation, node_state
from joulie_core.timestamps import rfc3339
from joulie_core.twin import Measurement, PowerWindow, TwinInputs, build_twin
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.node_scores import NodeScores
from joulie_sim.engine.simulation import Simulation, SimulationSettings


class _Reference:
    """Computes every node's twin and row with joulie_core at every report, and compares."""

    def __init__(self, machines) -> None:
        self.machines = machines
        self.windows = [PowerWindow() for _ in machines.names]
        self.compared = 0
        self.bursts = 0
        self.in_flight = 0

    def after_report(self, scores: NodeScores, watts, now_s: float) -> None:
        sums = ClusterSums()
        for node, name in enumerate(self.machines.names):
            self.windows[node] = self.windows[node].add("agent", now_s, float(watts[node]))
            sums.add(self._snapshot(scores, node, name, float(watts[node]), now_s))
            self._compare_rows(scores, node, self._snapshot(scores, node, name, float(watts[node]), now_s))
        expected = sums.terms
        assert scores.terms.trend_w_per_min == pytest.approx(expected.trend_w_per_min, abs=0.5)
        assert scores.terms.perf_pressure == pytest.approx(expected.perf_pressure, abs=0.11)
        self.bursts += expected.trend_scale == BURST_TREND_SCALE

    def _snapshot(self, scores, node, name, watts, now_s):
        published = scores._published[node]
        status = build_twin(
            TwinInputs(
                schedulable_class=published.schedulable_class,
                budget=published.budget,
                measurement=Measurement(MeasurementSource.AGENT, MeasurementQuality.MEASURED, watts),
                trend_w_per_min=self.windows[node].slope_w_per_min(now_s),
            )
        )
        state = node_state(status.model_copy(update={"last_updated": rfc3339(now_s)}))
        assumed = scores._assumed.demands(name)
        self.in_flight += len(assumed)
        power = self.machines.groups[self.machines.group[node]].power
        assumed_watts = sum(
            0.8 * pod.cpu_cores * power.watts_per_thread
            + (0.9 if pod.workload_class is WorkloadClass.PERFORMANCE else 0.6) * pod.gpus * power.watts_per_gpu
            for pod in assumed
        )
        return type(state)(
            **{field: getattr(state, field) for field in state.__slots__} | {"assumed_watts": assumed_watts}
        )

    def _compare_rows(self, scores, node, snapshot) -> None:
        power = self.machines.groups[self.machines.group[node]].power
        for workload_class in WorkloadClass:
            for scale in (STEADY_TREND_SCALE, BURST_TREND_SCALE):
                expected = prepare_row(NodeSituation(snapshot, power), workload_class, scale)
                # Half a tenth of a watt, or of one a minute, may be rounded the other way.
                assert tuple(scores.row(node, workload_class, scale)) == pytest.approx(tuple(expected), abs=0.06)
                self.compared += 1


@pytest.mark.parametrize("arm", ["static_partition", "queue_aware_v1"])
def test_every_row_of_a_running_simulation_is_that_of_joulie_core(machines, busy_jobs, monkeypatch, arm) -> None:
    reference = _Reference(machines)
    report = NodeScores.report

    def checked(scores: NodeScores, watts, now_s: float) -> None:
        report(scores, watts, now_s)
        reference.after_report(scores, watts, now_s)

    monkeypatch.setattr(NodeScores, "report", checked)
    Simulation(machines, busy_jobs, ARMS[arm], SimulationSettings(horizon_s=600.0)).run()
    assert reference.compared == 4 * 40 * 30
    assert reference.bursts > 0, "no report had the trend scale of a burst"
    assert reference.in_flight > 0, "no pod was in flight"


def test_an_answer_is_the_rounded_score_of_each_row(machines, busy_jobs) -> None:
    simulation = Simulation(machines, busy_jobs, ARMS["static_partition"], SimulationSettings(horizon_s=2000.0))
    simulation.run()
    scores = simulation.scores
    nodes = simulation._scheduler._sample.take(simulation._scheduler.powered)
    for workload_class in WorkloadClass:
        for demand in (PodDemand(2.0, 0.0, 0.0, workload_class), PodDemand(8.0, 2.0, 0.0, workload_class)):
            rows = [scores.row(int(node), workload_class, scores.terms.trend_scale) for node in nodes]
            expected = [
                round_half_away(row.score((demand.cpu_cores, demand.gpus), scores.terms.perf_pressure)) for row in rows
            ]
            assert scores.scores(nodes, demand).tolist() == expected
            assert len(set(expected)) > 3
