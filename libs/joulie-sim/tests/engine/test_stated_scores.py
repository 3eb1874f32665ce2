"""Scores for jobs that state their run time: the rows of joulie_core, and nodes whose jobs end together."""

from dataclasses import replace

import numpy as np
import pytest

from joulie_core.scoring.energy_v2 import PackingScore
from joulie_core.scoring.formula import within_range
from joulie_core.scoring.state import ClusterTerms
from joulie_core.stated_time import covered_ninths
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.joulie_settings import StatingJoulieSettings
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.stated_scores import ScoresOfJob, StatedScores, StatedTimeSettings, stated_seconds

_STATED = ARMS["packing_score_sleep_shared_stated"]
_POLICY = PackingScore()


def _arm(**settings):
    assert isinstance(_STATED.joulie, StatingJoulieSettings)
    return replace(_STATED, joulie=replace(_STATED.joulie, stated=StatedTimeSettings(**settings)))


def test_jobs_state_the_time_on_the_mean_device_with_an_error_or_nothing(machines, busy_jobs) -> None:
    exact = stated_seconds(busy_jobs, machines, StatedTimeSettings(), 1)
    cpu = busy_jobs.gpus == 0
    assert exact[cpu] == pytest.approx(busy_jobs.work_s[cpu] / machines.mean_work_per_thread)
    for index in np.unique(busy_jobs.gpu_resource[~cpu]):
        of_kind = ~cpu & (busy_jobs.gpu_resource == index)
        row = machines.gpu_resources.index(busy_jobs.gpu_resources[index])
        assert exact[of_kind] == pytest.approx(busy_jobs.work_s[of_kind] / machines.mean_work_per_gpu[row])
    wrong = np.log(stated_seconds(busy_jobs, machines, StatedTimeSettings(error_sigma=0.5), 1) / exact)
    assert (float(wrong.std()), float(wrong.mean())) == pytest.approx((0.5, 0.0), abs=0.05)
    some = stated_seconds(busy_jobs, machines, StatedTimeSettings(share=0.25), 1)
    assert np.isnan(some).mean() == pytest.approx(0.75, abs=0.05)


def test_jobs_that_state_nothing_are_placed_as_without(machines, busy_jobs) -> None:
    settings = SimulationSettings(horizon_s=7_200.0)
    without = Simulation(machines, busy_jobs, ARMS["packing_score_sleep_shared"], settings).run()
    silent = Simulation(machines, busy_jobs, _arm(share=0.0), settings).run()
    stated = Simulation(machines, busy_jobs, _arm(), settings).run()
    assert (silent.jobs.node == without.jobs.node).all()
    assert silent.it_joules == without.it_joules
    assert (stated.jobs.node != without.jobs.node).any()


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_every_score_of_a_running_simulation_is_that_of_joulie_core(machines, busy_jobs, monkeypatch, share) -> None:
    simulation = Simulation(machines, busy_jobs, _arm(share=share), SimulationSettings(horizon_s=1_200.0))
    stated_s = stated_seconds(busy_jobs, machines, StatedTimeSettings(share=share), 0)
    ends_s: dict[int, tuple[int, float]] = {}
    seen: set[int] = set()
    bound, ended, scores = StatedScores.bound, StatedScores.ended, ScoresOfJob.scores
    placed: list[tuple[int, float]] = []
    for_job = StatedScores.for_job

    def noting_job(self, job, now_s):
        placed[:] = [(job, now_s)]
        return for_job(self, job, now_s)

    def noting_bound(self, job, node, demand, now_s):
        if not np.isnan(stated_s[job]):
            ends_s[job] = node, now_s + stated_s[job]
        bound(self, job, node, demand, now_s)

    def noting_end(self, job):
        ends_s.pop(job, None)
        ended(self, job)

    def checked(self, nodes, demand):
        answer = scores(self, nodes, demand)
        ((job, now_s),) = placed
        of_all = simulation.scores
        assert isinstance(of_all, StatedScores)
        for node, score in zip(nodes.tolist(), answer.tolist(), strict=True):
            left_s = max([end_s - now_s for on, end_s in ends_s.values() if on == node], default=0.0)
            covered = covered_ninths(stated_s[job], left_s)
            situation = of_all.situation(node)
            assert situation is not None
            plain = _POLICY.explain(situation._replace(covered=covered), demand, ClusterTerms()).score
            assert score == int(within_range(plain) + 0.5)
            seen.add(covered)
        return answer

    monkeypatch.setattr(StatedScores, "for_job", noting_job)
    monkeypatch.setattr(StatedScores, "bound", noting_bound)
    monkeypatch.setattr(StatedScores, "ended", noting_end)
    monkeypatch.setattr(ScoresOfJob, "scores", checked)
    simulation.run()
    assert {0, 9} < seen
    assert len(seen) > 5


def test_a_longer_job_finds_less_of_its_time_covered_and_nothing_on_an_empty_node(machines, busy_jobs) -> None:
    simulation = Simulation(machines, busy_jobs, _STATED, SimulationSettings(horizon_s=600.0))
    result = simulation.run()
    scores = simulation.scores
    assert isinstance(scores, StatedScores)
    covered = scores.covered(60.0, 600.0)
    longer = scores.covered(36_000.0, 600.0)
    assert (longer <= covered).all()
    assert (longer < covered).any()
    runs = (result.jobs.node >= 0) & np.isnan(result.jobs.ended_s)
    empty = np.setdiff1d(np.arange(len(machines)), result.jobs.node[runs])
    assert len(empty)
    assert not covered[empty].any()
