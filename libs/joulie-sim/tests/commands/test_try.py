"""`joulie-sim try`: its table, and the load that it measures."""

import json
from io import StringIO
from itertools import product

import pyarrow.parquet as pq
from rich.console import Console

from joulie_api.presets import PRESETS, PresetName
from joulie_core.demand import WorkloadClass
from joulie_sim.cli import main
from joulie_sim.commands.savings import saving_table
from joulie_sim.engine.arms import PRESET_ARMS
from joulie_sim.engine.results import Manifest, SimulationCost
from joulie_sim.engine.summary import GroupSummary, SimulationSummary


def test_a_first_try_shows_every_preset_beside_both_strategies_of_kube_scheduler(tmp_path, capsys) -> None:
    out = tmp_path / "try"
    assert main(["try", "--seeds", "2", "--workers", "1", "--node-count", "2", "--load", "0.1", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    words = " ".join(shown.split())
    rows = [line.split()[0] for line in shown.splitlines() if " kWh " in line]
    assert rows == ["kube_default", "most_allocated", *PresetName]
    for preset, arm in PRESET_ARMS.items():
        assert f"{preset} (preset, arm {arm.name}): {PRESETS[preset].summary}" in words
    for part in ("on the same 2 nodes", "2 seeds", "at the wall", "range that chance makes", "Not modelled"):
        assert part in words
    assert f"picture: {out / 'power.png'}" in shown
    assert (out / "power.png").read_bytes().startswith(b"\x89PNG")


def test_a_try_measures_a_day_that_begins_with_pods_on_the_nodes(tmp_path, capsys) -> None:
    arguments = ("--arms", "kube_default", "--seeds", "1", "--workers", "1", "--node-count", "2", "--load", "0.1")
    assert main(["try", *arguments, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    result = tmp_path / "seed-0" / "kube_default"
    summary = json.loads((result / "manifest.json").read_text())["summary"]
    jobs = pq.read_table(result / "jobs.parquet").to_pydict()
    arrived = [each for each in jobs["arrives_s"] if summary["endS"] - 86_400 <= each < summary["endS"]]
    assert 0 < summary["jobs"] == len(arrived) < len(jobs["arrives_s"])


def test_a_try_of_a_file_counts_all_of_its_jobs(tmp_path, capsys) -> None:
    log, lines = tmp_path / "log.swf", tmp_path / "jobs.jsonl"
    log.write_text("".join(f"{n} {n} 0 60 4 -1 -1 4 90 -1 1 3 1 -1 1 -1 -1 -1\n" for n in range(1, 6)))
    assert main(["import", "swf", str(log), "--out", str(lines)]) == 0
    arguments = ("--arms", "kube_default", "--seeds", "1", "--workers", "1", "--node-count", "2")
    assert main(["try", *arguments, "--jobs", str(lines), "--out", str(tmp_path)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "the same 5 pods on the same 2 nodes" in words
    assert "until the last pod of the arm ended" in words


def _manifest(arm: str, seed: int, kwh: float, stretches: tuple[float, ...], *, done: int = 40) -> Manifest:
    """Return a result; p95 stretches of performance CPU, performance GPU, standard CPU and standard GPU pods."""
    groups = tuple(
        GroupSummary(
            workload_class=workload_class.value,
            pool=pool,
            jobs=10,
            done=10,
            work_device_hours=1.0,
            stretch_mean=1.0,
            stretch_p50=1.0,
            stretch_p95=stretch,
            stretch_p99=1.0,
            wait_p99_s=20.0 if pool == "cpu" else 240.0 + 60.0 * seed,
            slowdown_mean=1.0,
        )
        for (workload_class, pool), stretch in zip(product(WorkloadClass, ("cpu", "gpu")), stretches, strict=True)
    )
    summary = SimulationSummary(
        end_s=3600.0,
        it_kwh=kwh,
        facility_kwh=kwh,
        peak_kw=1.0,
        ramp_p99_kw=1.0,
        idle_kw=1.0,
        idle_facility_kw=1.0,
        jobs=40,
        done=done,
        dropped=0,
        work_core_hours=1.0,
        work_gpu_hours=1.0,
        cores_held=0.5,
        gpus_held=0.0,
        joules_per_core_second=1.0,
        facility_joules_per_core_second=1.0,
        transitions=0,
        groups=groups,
        hardware=(),
    )
    cost = SimulationCost(cpu_s=1.0, events=1, events_per_cpu_s=1.0, peak_rss_mib=1.0)
    return Manifest(arm=arm, seed=seed, inputs={}, nodes=1, versions={}, summary=summary, cost=cost)


def _rows(arms: dict[str, list[Manifest]]) -> dict[str, str]:
    """Return the cells of each row of the table, one space between them."""
    console = Console(width=200, file=StringIO())
    console.print(saving_table("title", "measured", arms))
    rows = (line.split() for line in console.file.getvalue().splitlines() if " kWh " in line)
    return {name: " ".join(cells) for name, *cells in rows}


_PLAIN = (1.0, 2.0, 1.0, 2.0)


def test_a_saving_stands_beside_the_least_and_the_most_of_the_seeds() -> None:
    rows = _rows(
        {
            "a": [_manifest("a", 0, 100.0, _PLAIN), _manifest("a", 1, 120.0, _PLAIN)],
            "b": [_manifest("b", 0, 90.0, _PLAIN), _manifest("b", 1, 84.0, _PLAIN)],
        }
    )
    assert rows == {"a": "110 kWh - - 20 s 4 min -", "b": "87 kWh 20.0 % 10.0 to 30.0 % 20 s 4 min no one"}


def test_pods_pay_where_their_p95_stretch_is_longer_with_every_seed() -> None:
    slower, faster = (1.0, 2.4, 1.1, 1.9), (1.0, 2.2, 0.9, 1.9)
    rows = _rows(
        {
            "a": [_manifest("a", seed, 100.0, _PLAIN) for seed in (0, 1)],
            "b": [_manifest("b", 0, 100.0, slower), _manifest("b", 1, 100.0, faster)],
            "c": [_manifest("c", seed, 100.0, (1.0, 2.018, 1.0, 2.0), done=39) for seed in (0, 1)],
        }
    )
    assert rows["b"].endswith(" performance GPU pods +15 %")
    assert rows["c"].endswith(" 2 more pods not done")
