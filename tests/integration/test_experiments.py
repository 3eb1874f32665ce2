"""Experiments can be read, and their summaries are those of their runs."""

from pathlib import Path

import pytest
from experiments.config import ROOT, Experiment
from experiments.report import read, summary
from experiments.run import rows_of

from joulie_sim.engine.arms import ARMS

NAMES = sorted(path.parent.name for path in ROOT.glob("*/config.toml"))


def test_there_are_experiments():
    assert NAMES


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_its_nodes_and_known_arms(name):
    experiment = Experiment.read(name)
    assert len(experiment.machines()) == experiment.node_count
    assert set(experiment.arms) <= set(ARMS)
    assert experiment.arms[0] == "kube_default"


@pytest.mark.parametrize("name", NAMES)
def test_the_runs_are_complete_and_the_summary_is_theirs(name):
    experiment = Experiment.read(name)
    found = read(ROOT / name)
    assert set(found) == {*(("backlog", load) for load in experiment.loads), ("overload", experiment.overload)}
    for arms in found.values():
        assert list(arms) == list(experiment.arms)
        assert all(list(runs) == [str(seed) for seed in range(experiment.seeds)] for runs in arms.values())
    assert (ROOT / name / "summary.md").read_text(encoding="utf-8") == summary(name), f"run `just experiment {name}`"


def test_a_row_has_the_figures_of_every_class_and_pool():
    experiment = Experiment.read(NAMES[0])
    machines = experiment.machines()
    jobs = experiment.workload(machines, load=0.3, seed=0)
    rows = list(rows_of(_short(experiment), machines, jobs, protocol="overload", load=0.3, seed=0))
    assert [row["arm"] for row in rows] == ["kube_default"]
    assert rows[0]["it_kwh"] > 0
    assert rows[0]["missed"] > 0, "the window of a minute ends before most jobs arrive"
    assert {"standard_cpu_mean", "performance_gpu_p95"} <= rows[0].keys()


def _short(experiment: Experiment) -> Experiment:
    values = {name: getattr(experiment, name) for name in experiment.__slots__}
    return Experiment(**values | {"hours": 1 / 60, "arms": ("kube_default",), "directory": Path()})
