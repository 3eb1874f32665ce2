"""Runs an experiment: `python -m experiments.run NAME` writes `runs.csv` in its directory, a line for each simulation.

Two protocols. *backlog*: the same offered work for all arms, no job is dropped, all of it is done; energies count up to
the end of the last arm of the seed, with idle power from an arm's own end on. *overload*: more work than fits, a job
without room on arrival is dropped, and everything ends with the window.
"""

import csv
import sys
import time
from collections.abc import Iterator
from typing import Any

from experiments.config import Experiment
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import SimulationSummary, summarize


def rows_of(
    experiment: Experiment, machines: Machines, jobs: Jobs, *, protocol: str, load: float, seed: int
) -> Iterator[dict[str, Any]]:
    """Simulate all arms over the same jobs; yield a row for each."""
    dropping = protocol == "overload"
    settings = SimulationSettings(
        seed=seed,
        report_interval_s=experiment.report_interval_s,
        drop_on_arrival=dropping,
        horizon_s=experiment.window_s if dropping else None,
    )
    summaries = {
        arm: summarize(Simulation(machines, jobs, ARMS[arm], settings).run(), jobs, machines) for arm in experiment.arms
    }
    end_s = max(summary.end_s for summary in summaries.values())
    for arm, summary in summaries.items():
        yield {"protocol": protocol, "load": load, "seed": seed, "arm": arm} | _figures(summary, end_s)


def _figures(summary: SimulationSummary, end_s: float) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "it_kwh": summary.it_kwh_until(end_s),
        "facility_kwh": summary.facility_kwh_until(end_s),
        "peak_kw": summary.peak_kw,
        "ramp_p99_kw": summary.ramp_p99_kw,
        "joules_per_core_second": summary.joules_per_core_second,
        "missed": summary.missed,
        "transitions": summary.transitions,
    }
    for group in summary.groups:
        prefix = f"{group.workload_class}_{group.pool}"
        figures |= {
            f"{prefix}_device_hours": group.work_device_hours,
            f"{prefix}_done": group.done,
            f"{prefix}_mean": group.slowdown_mean,
            f"{prefix}_p50": group.slowdown_p50,
            f"{prefix}_p95": group.slowdown_p95,
            f"{prefix}_p99": group.slowdown_p99,
            f"{prefix}_running": group.running_slowdown_mean,
        }
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in figures.items()}


def run(experiment: Experiment) -> None:
    """Run everything, seed by seed, and write `runs.csv` after each seed: what is there is complete."""
    machines, started_s = experiment.machines(), time.process_time()
    rows: list[dict[str, Any]] = []
    plan = [("backlog", load) for load in experiment.loads] + [("overload", experiment.overload)]
    for seed in range(experiment.seeds):
        for protocol, load in plan:
            jobs = experiment.workload(machines, load=load, seed=seed)
            rows += rows_of(experiment, machines, jobs, protocol=protocol, load=load, seed=seed)
        _write(experiment, rows)
        spent_s = time.process_time() - started_s
        sys.stderr.write(f"{experiment.directory.name}: seed {seed} done, {spent_s:.0f} s of CPU time\n")


def _write(experiment: Experiment, rows: list[dict[str, Any]]) -> None:
    with (experiment.directory / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Experiment.read(name))
