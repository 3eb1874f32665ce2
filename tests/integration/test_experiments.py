"""Experiments can be read, continued, and their summaries are those of their runs."""

import re
from dataclasses import replace

import pytest
from experiments.aims import Aim, ArmResult, aims, sleep_aims
from experiments.config import ROOT, STEADY, STEADY_OLDER, Experiment, Steady
from experiments.figures import TITLES
from experiments.report import overview, summary
from experiments.rows import RunKey, append_row, code_digest, planned, read_rows
from experiments.run import Runner, run, usable
from experiments.steady import SteadyReport
from experiments.trace import MissingTraceError

from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.comparison import Interval

NAMES = sorted(path.parent.name for path in ROOT.glob("*/config.toml"))
WITH_RUNS = [name for name in NAMES if (ROOT / name / "runs.csv").exists()]


def test_there_are_experiments():
    assert NAMES
    assert WITH_RUNS


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_its_nodes_and_known_arms(name):
    experiment = Experiment.read(name)
    assert set(experiment.arms) <= set(ARMS)
    assert experiment.arms[0] == "kube_default"
    try:
        machines = experiment.machines()
    except MissingTraceError as error:
        pytest.skip(str(error))
    assert len(machines) == experiment.node_count


@pytest.mark.parametrize("name", WITH_RUNS)
def test_the_runs_are_complete_and_the_summary_is_theirs(name):
    experiment = Experiment.read(name)
    rows = read_rows(ROOT / name / "runs.csv")
    assert list(rows) == planned(experiment), f"run `just experiment {name}`"
    assert len({row["code"] for row in rows.values()}) == 1, "rows of different code"
    assert (ROOT / name / "summary.md").read_text(encoding="utf-8") == summary(name), f"run `just experiment {name}`"


@pytest.mark.parametrize("name", WITH_RUNS)
def test_the_page_about_experiments_has_the_table_of_the_runs(name):
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(f"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", page, re.DOTALL)
    assert found
    assert found[1] == overview(name), f"run `just experiment {name}`"


@pytest.fixture
def experiment(tmp_path):
    """Return a minute of the nodes of the first experiment under overload, in a directory of its own, with one arm."""
    source = Experiment.read(NAMES[0])
    (tmp_path / "nodes.yaml").write_text((source.directory / "nodes.yaml").read_text())
    short = {"hours": 1 / 60, "jobs": 2000, "node_count": 4, "overload": 0.5, "seeds": 2, "arms": ("kube_default",)}
    return replace(source, **short, steady=None, directory=tmp_path)


def test_a_row_has_the_figures_of_every_class_and_pool(experiment):
    row = Runner(experiment).row(RunKey("overload", 0.5, 0, "kube_default"))
    assert float(row["it_kwh"]) > 0
    assert int(row["missed"]) > 0, "the window of a minute ends before most jobs are done"
    assert {"standard_cpu_stretch_mean", "performance_gpu_stretch_p95"} <= row.keys()


def test_what_was_simulated_already_is_not_simulated_again(experiment):
    run(experiment)
    path = experiment.directory / "runs.csv"
    first, *others = read_rows(path).values()
    path.unlink()
    append_row(path, first | {"peak_kw": "7"})
    run(experiment)
    assert list(read_rows(path).values()) == [first | {"peak_kw": "7"}, *others]


def test_rows_of_other_inputs_are_simulated_again(experiment):
    row = Runner(experiment).row(planned(experiment)[0])
    assert usable(experiment, [row | {"inputs": "others"}], Runner(experiment)) == {}


@pytest.mark.parametrize(("change", "kept"), [({}, True), ({"peak_kw": "7"}, False)])
def test_rows_of_other_code_are_kept_if_the_first_one_comes_out_the_same(experiment, change, kept):
    keys = planned(experiment)
    rows = [Runner(experiment).row(key) | change | {"code": "older"} for key in keys]
    found = usable(experiment, rows, Runner(experiment))
    assert list(found) == (keys if kept else [])
    assert all(row["code"] == code_digest() for row in found.values())


@pytest.fixture
def steady(experiment):
    """Return four nodes with a load that lasts, and an older kube-scheduler for one of two arms."""
    protocol = Steady(loads=(0.3,), warm_up_hours=12.0, hours=24.0, older_scheduler=("most_allocated",))
    arms = ("kube_default", "most_allocated")
    return replace(experiment, overload=None, seeds=1, steady=protocol, arms=arms)


def test_a_load_that_lasts_is_simulated_with_both_kube_schedulers_and_a_window_of_it_measured(steady):
    keys = planned(steady)
    assert [(key.protocol, key.arm) for key in keys] == [
        (STEADY, "kube_default"),
        (STEADY, "most_allocated"),
        (STEADY_OLDER, "most_allocated"),
    ]
    runner = Runner(steady)
    rows = [runner.row(key) for key in keys]
    # About as much work in the window whatever the arm: of jobs over its ends, a faster model does another part within.
    work = [float(row["core_hours"]) for row in rows]
    assert max(work) < 1.02 * min(work)
    assert 0.1 < float(rows[0]["cores_held"]) < 0.35
    assert float(rows[0]["end_s"]) > 36 * 3600.0
    # Nothing beats what could be saved at most, which is of the workload and not of the arm.
    oracle = {float(row["oracle_kwh"]) for row in rows}
    assert len(oracle) == 1
    assert 0.0 < oracle.pop() < min(float(row["it_kwh"]) for row in rows)
    assert len({row["it_kwh"] for row in rows}) == 3, "two strategies, and two ways to balance"
    assert list(usable(steady, rows, runner)) == keys


def test_rows_of_a_load_that_lasts_depend_on_its_window(steady):
    row = Runner(steady).row(planned(steady)[0])
    longer = replace(steady, steady=replace(steady.steady, warm_up_hours=13.0))
    assert usable(longer, [row], Runner(longer)) == {}
    assert list(usable(replace(steady, jobs=7, hours=1.0), [row], Runner(steady))) == planned(steady)[:1]


def _steady_rows(load, kwh_of_arms):
    figures = {"end_s": "1", "oracle_kwh": "20", "off_kwh": "3", "empty_kwh": "7", "working_idle_kwh": "11"}
    figures |= {"facility_kwh": "20", "core_hours": "10", "peak_kw": "1"}
    figures |= {"power_cycles": "120", "cores_held": str(load), "gpus_held": "0.25", "joules_per_core_second": "5"}
    for group in TITLES:
        figures |= {f"{group}_done": "0", f"{group}_wait_p99_s": "0", f"{group}_slowdown": "1"}
        figures |= {f"{group}_device_hours": "4"}
    figures |= {"standard_cpu_done": "3", "standard_cpu_wait_p99_s": "71", "standard_cpu_stretch_p95": "1.5"}
    return {arm: {"0": figures | {"protocol": STEADY, "it_kwh": kwh}} for arm, kwh in kwh_of_arms.items()}


def test_savings_of_a_load_that_lasts_stand_beside_the_better_strategy_of_kube_scheduler():
    runs = {
        (STEADY, 0.3): _steady_rows(0.31, {"kube_default": "100", "most_allocated": "80", "packing_sleep": "60"}),
        (STEADY, 0.5): _steady_rows(0.52, {"kube_default": "100", "most_allocated": "125", "packing_sleep": "90"}),
    }
    report = SteadyReport(runs, nodes=40, hours=48.0)
    page = report.overview()
    assert "| `packing_sleep` | 40.0 | 25.0 | 10.0 | 10.0 |" in page
    assert "| 0.3 | 31.0 | 25.0 | 80.0 |" in page
    assert "| `packing_sleep` | 3 | 7 | 11 | 69 | 90 |\n\nThe bound is 20 kWh." in page
    # 40 and 10 of 80 kWh that could be saved.
    assert "| `packing_sleep` | 50 | 12 |" in page
    # 120 power cycles of 40 nodes in two days, and a wait of the one group that has jobs.
    assert "| `packing_sleep` | 1.5 | 71 | 0.0 |" in page
    assert "| `packing_sleep` | 1.5 | 71 | +0.0 [+0.0, +0.0] | 0.0 |" in "\n".join(report.summary())
    assert "Kubernetes 1.35" not in page


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_says_what_it_asks(name):
    assert "**Question.**" in (ROOT / name / "README.md").read_text(encoding="utf-8")


def test_the_table_of_what_was_aimed_for_is_that_of_the_runs():
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, table in (("aims", aims()), ("sleep-aims", sleep_aims())):
        found = re.search(rf"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", page, re.DOTALL)
        assert found
        assert found[1] == table, "run `python -m experiments.report` with the names of all experiments"


@pytest.mark.parametrize(
    ("mean_pct", "saved_pct", "reached"), [(4.9, 8.5, "yes"), (5.1, 8.5, "without waits"), (4.9, 8.4, "no")]
)
def test_an_aim_is_reached_by_all_three_savings_and_within_its_slowdown(mean_pct, saved_pct, reached):
    aim = Aim("", (6.5, 8.0, 8.5), 5.0)
    kept = (0.0, 0.0, 0.0)
    saved = tuple(Interval(each, 1.0) for each in (7.0, 8.0, saved_pct))
    slowdown = {"cpu": [kept, (mean_pct, 0.0, 9.0), kept], "gpu": [kept]}
    result = ArmResult("", saved, {"cpu": [kept]}, slowdown, {})
    assert result.within(aim)
    assert not replace(result, standard_slowdown={"gpu": [kept, (5.1, 5.0, 5.2)]}).within(aim)
    assert result.reached(aim) == reached


@pytest.mark.parametrize(
    ("p95", "kept"), [((1.0, -9.0, 3.0), "yes"), ((9.0, 2.9, 16.0), "not shown"), ((9.0, 3.1, 16.0), "no")]
)
def test_performance_jobs_are_kept_or_not_only_where_the_whole_interval_says_so(p95, kept):
    others = [(0.0, 0.0, 0.0), (10.0, 0.0, 20.0)] if kept == "no" else [(0.0, 0.0, 0.0)]
    assert ArmResult("", (), {}, {}, {"cpu": others, "gpu": [p95]}).performance_kept == kept
