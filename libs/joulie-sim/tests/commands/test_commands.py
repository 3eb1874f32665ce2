"""The commands that simulate, as they are called."""

import hashlib
import json
import multiprocessing
from io import StringIO

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from joulie_sim.cli import COMMANDS, main
from joulie_sim.commands import execution

_INPUTS = ("--node-count", "12", "--job-count", "300", "--hours", "2", "--load", "0.25")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys) -> None:
    with pytest.raises(SystemExit) as exit_of:
        main([command, "--help"])
    assert exit_of.value.code == 0
    assert f"joulie-sim {command} " in capsys.readouterr().out.partition("example")[2]


def test_a_run_writes_the_jobs_the_minutes_and_what_made_them(tmp_path, capsys) -> None:
    out = tmp_path / "result"
    assert main(["run", "--arm", "static_partition", "--seed", "4", "--out", str(out), *_INPUTS]) == 0
    assert "static_partition" in capsys.readouterr().out
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["arm"], manifest["seed"], manifest["nodes"], manifest["inputs"]["load"]) == (
        *("static_partition", 4),
        *(12, 0.25),
    )
    assert {"numpy", "joulie-sim"} <= manifest["versions"].keys()
    jobs, minutes = pq.read_table(out / "jobs.parquet"), pq.read_table(out / "minutes.parquet")
    assert jobs.num_rows == 300
    assert set(jobs.column("workload_class").to_pylist()) == {"performance", "standard"}
    energy_kwh = sum(minutes.column("it_watts").to_pylist()[:-1]) / 60_000
    assert energy_kwh == pytest.approx(manifest["summary"]["itKwh"], rel=0.01)


def test_the_same_arguments_write_the_same_bytes(tmp_path) -> None:
    outs = [tmp_path / name for name in ("one", "two")]
    for out in outs:
        assert main(["run", "--arm", "queue_aware_v1", "--seed", "7", "--out", str(out), *_INPUTS]) == 0
    manifests = [json.loads((out / "manifest.json").read_text()) for out in outs]
    for name in ("jobs.parquet", "minutes.parquet"):
        assert outs[0].joinpath(name).read_bytes() == outs[1].joinpath(name).read_bytes()
        assert manifests[0]["digests"][name] == hashlib.sha256(outs[0].joinpath(name).read_bytes()).hexdigest()
    costs = [manifest.pop("cost") for manifest in manifests]
    assert manifests[0] == manifests[1]
    assert costs[0]["events"] == costs[1]["events"] > 600
    assert all(cost["peakRssMib"] > 10 and cost["eventsPerCpuS"] > 0 for cost in costs)


def test_overload_drops_jobs_on_arrival_and_ends_at_the_horizon(tmp_path) -> None:
    out = tmp_path / "result"
    load = ("--node-count", "12", "--job-count", "3000", "--hours", "4", "--load", "1.6")
    protocol = ("--drop-on-arrival", "--horizon-hours", "3")
    assert main(["run", "--arm", "kube_default", "--out", str(out), *load, *protocol]) == 0
    summary = json.loads((out / "manifest.json").read_text())["summary"]
    assert summary["endS"] == 3 * 3600
    assert 0 < summary["dropped"] < summary["jobs"] - summary["done"]
    assert summary["workCoreHours"] > 0


def test_a_warmer_outdoors_costs_the_facility_and_not_the_machines(tmp_path) -> None:
    outdoor = tmp_path / "outdoor.csv"
    outdoor.write_text("hour,celsius\n0,34\n1,36\n")
    summaries = []
    for number, temperature in enumerate((("--outdoor-c", "5"), ("--outdoor", str(outdoor)))):
        out = tmp_path / str(number)
        arguments = ("--arm", "kube_default", "--facility", "economizer", *temperature, "--out", str(out))
        assert main(["run", *arguments, *_INPUTS]) == 0
        summaries.append(json.loads((out / "manifest.json").read_text()))
    cold, warm = (manifest["summary"] for manifest in summaries)
    assert cold["itKwh"] == warm["itKwh"]
    assert cold["facilityKwh"] * 1.1 < warm["facilityKwh"]
    digest = hashlib.sha256(outdoor.read_bytes()).hexdigest()
    assert summaries[1]["inputs"]["outdoor_sha256"] == digest


def test_a_bar_with_the_time_that_is_left_is_on_a_terminal_only(monkeypatch) -> None:
    shown = {}
    for terminal in (True, False):
        file = StringIO()
        console = Console(file=file, force_terminal=terminal, width=120)
        monkeypatch.setattr(execution, "Console", lambda console=console, **_: console)
        with execution.progress_bar("arm", 2000, "jobs") as update:
            update(1000)
        shown[terminal] = file.getvalue()
    assert "1,000 of 2,000 jobs" in shown[True]
    assert "left" in shown[True]
    assert not shown[False]


def test_a_process_of_several_shows_no_bar(monkeypatch) -> None:
    file = StringIO()
    monkeypatch.setattr(execution, "Console", lambda **_: Console(file=file, force_terminal=True, width=120))
    monkeypatch.setattr(multiprocessing, "parent_process", object)
    with execution.progress_bar("arm", 2000, "jobs") as update:
        update(1000)
    assert not file.getvalue()


def test_workers_write_what_one_process_writes(tmp_path, capsys) -> None:
    written = {}
    for workers in ("1", "2"):
        out = tmp_path / workers
        arms = ("--arms", "kube_default", "static_partition")
        assert main(["sweep", *arms, "--seeds", "2", "--workers", workers, "--out", str(out), *_INPUTS]) == 0
        written[workers] = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.parquet")}
    assert len(written["1"]) == 8
    assert written["1"] == written["2"]
    assert "p95 change %" in capsys.readouterr().out


def test_an_error_of_a_worker_is_that_of_the_sweep(tmp_path, capsys) -> None:
    arguments = ("--seeds", "2", "--workers", "2", "--job-count", "5", "--node-count", "12", "--out", str(tmp_path))
    assert main(["sweep", "--arms", "kube_default", *arguments]) == 2
    assert "so few jobs" in capsys.readouterr().err


def test_a_sweep_compares_and_plots_what_compare_and_plot_do_again(tmp_path, capsys) -> None:
    out = tmp_path / "sweep"
    arms = ("kube_default", "queue_aware_v1")
    assert main(["sweep", "--arms", *arms, "--seeds", "2", "--out", str(out), *_INPUTS]) == 0
    swept = capsys.readouterr().out
    assert "load 0.25" in swept
    assert (out / "load-0.25.png").read_bytes().startswith(b"\x89PNG")
    results = [str(out / "load-0.25" / f"seed-{seed}" / arm) for seed in (0, 1) for arm in arms]
    assert main(["compare", *results]) == 0
    assert "queue_aware_v1" in capsys.readouterr().out
    assert main(["plot", *results[:2], "--out", str(tmp_path / "power.svg")]) == 0
    assert "<svg" in (tmp_path / "power.svg").read_text()


def test_an_imported_log_can_be_run(tmp_path, capsys) -> None:
    log, jobs, out = tmp_path / "log.swf", tmp_path / "jobs.jsonl", tmp_path / "result"
    log.write_text("".join(f"{n} {n} 0 60 4 -1 -1 4 90 -1 1 3 1 -1 1 -1 -1 -1\n" for n in range(1, 6)))
    assert main(["import", "swf", str(log), "--out", str(jobs)]) == 0
    assert main(["run", "--arm", "kube_default", "--jobs", str(jobs), "--node-count", "12", "--out", str(out)]) == 0
    assert json.loads((out / "manifest.json").read_text())["summary"]["done"] == 5


def test_an_openb_list_can_be_imported_with_its_nodes_and_run(tmp_path, capsys) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,T4\nn1,96000,524288,0,\n")
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    pods.write_text(f"{header}\np0,4000,8192,1,1000,,LS,Running,0,600,10\np1,8000,8192,0,0,,BE,Running,5,900,6\n")
    converted = ("--out", str(tmp_path / "jobs.jsonl"), "--nodes-out", str(tmp_path / "nodes.jsonl"))
    assert main(["import", "openb", str(pods), "--nodes", str(nodes), "--hours", "1", *converted]) == 0
    inputs = ("--jobs", str(tmp_path / "jobs.jsonl"), "--nodes", str(tmp_path / "nodes.jsonl"))
    assert main(["run", "--arm", "static_partition", *inputs, "--out", str(tmp_path / "result")]) == 0
    assert json.loads((tmp_path / "result" / "manifest.json").read_text())["summary"]["done"] == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("run", "--arm", "kube_default", "--nodes", "nodes.txt", "--out", "x"), "suffix"),
        (("run", "--arm", "kube_default", "--job-count", "5", "--out", "x"), "so few jobs"),
        (("compare", "nowhere"), "no result"),
        (("import", "swf", "nowhere.swf", "--out", "x"), "nowhere.swf"),
    ],
)
def test_inputs_that_cannot_be_used_are_named(tmp_path, monkeypatch, capsys, arguments, reason) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err
