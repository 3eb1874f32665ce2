"""Limits by class, lifted while performance pods wait: `python -m experiments.lifting` writes 13-lifted-limits/.

Nodes, jobs and window of 03-homogeneous-h100. Compared with the same arm without limits are limits that are never
lifted, those that are lifted for pods that wait, and those that are lifted as well while few GPUs are free, which is
what the operator does. Rows that are in `runs.csv` are not simulated again.
"""

import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from experiments.config import ROOT, Experiment
from experiments.figures import Runs, change_pct, interval_text, less_pct, mean_of, paired
from experiments.report import write_between
from experiments.rows import Row, append_row, read_table, text_row
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.waiting import DEFAULT_RULE, LiftRule
from joulie_sim.engine.arm import Arm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.device_limits import ClassLimitSettings, LimitedBy
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.records import MeasuredWindow, SimulationResult
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import summarize
from joulie_sim.tables import TextTable

NAME: Final = "13-lifted-limits"
DIRECTORY: Final = ROOT / NAME
LOADS: Final = (0.3, 0.5, 0.7)
SEEDS: Final = 40
_EXPERIMENT: Final = "03-homogeneous-h100"
_NO_LIMITS: Final = "no limits"
_NEVER: Final = "never lifted"
#: By title; None: limits are never lifted.
RULES: Final[Mapping[str, LiftRule | None]] = {
    _NEVER: None,
    "lifted for waiting pods": replace(DEFAULT_RULE, spare_pct=0.0),
    "and below 25 % free": replace(DEFAULT_RULE, spare_pct=25.0),
}


def arms() -> dict[str, Arm]:
    """Return the arms by title, the baseline first."""
    limited = ARMS["class_limits_25"]
    assert limited.joulie is not None
    found: dict[str, Arm] = {_NO_LIMITS: ARMS["energy_scoring"]}
    for title, rule in RULES.items():
        limits = ClassLimitSettings(AllowedSlowdown.QUARTER, LimitedBy.CLOCK, rule)
        found[title] = replace(limited, joulie=replace(limited.joulie, class_limits=limits))
    return found


def simulate(experiment: Experiment, arm: Arm, load: float, seed: int) -> dict[str, Any]:
    """Return the figures of one run; times in seconds, of performance jobs with GPUs that came within the window."""
    machines = experiment.machines()
    jobs, window = experiment.steady_workload(machines, load=load, seed=seed)
    settings = SimulationSettings(seed=seed, report_interval_s=experiment.report_interval_s)
    result = Simulation(machines, jobs, arm, settings).run()
    summary = summarize(result, jobs, machines, window)
    return {
        "gpus_held": summary.gpus_held,
        "joules_per_core_second": summary.joules_per_core_second,
        **_times(result, jobs, window),
    }


def _times(result: SimulationResult, jobs: Jobs, window: MeasuredWindow) -> dict[str, float]:
    chosen = (jobs.arrives_s >= window.begin_s) & (jobs.arrives_s < window.end_s) & jobs.performance & (jobs.gpus > 0)
    waited_s = (result.jobs.started_s - jobs.arrives_s)[chosen]
    total_s = (result.jobs.ended_s - jobs.arrives_s)[chosen]
    figures = {"time": total_s, "stretch": total_s / jobs.work_s[chosen], "wait": waited_s}
    return {f"{name}_p95": float(np.percentile(values, 95)) for name, values in figures.items()}


def table(rows: list[Row]) -> str:
    """Return the table of all loads and rules."""
    runs: dict[tuple[str, str], Runs] = defaultdict(dict)
    for row in rows:
        runs[row["load"], row["rule"]][row["seed"]] = row
    lines = []
    for load in map(str, LOADS):
        base = runs[load, _NO_LIMITS]
        lines.append((load, f"{mean_of(base, 'gpus_held').mean:.2f}", _NO_LIMITS, *[""] * 4, _wait(base)))
        for title in RULES:
            found = runs[load, title]
            saved = paired(found, base, less_pct("joules_per_core_second"))
            most = paired(runs[load, _NEVER], base, less_pct("joules_per_core_second"))
            lines.append(
                (
                    *("", "", title, interval_text(saved), f"{saved.mean / most.mean:.2f}"),
                    *(_change(found, base, name) for name in ("time_p95", "stretch_p95")),
                    _wait(found),
                )
            )
    titles = ("load", "GPUs in use", "rule", "saved, %", "of the limits'", "p95 time", "p95 stretch", "p95 wait, s")
    return TextTable(titles, lines).markdown()


def _change(runs: Runs, baseline: Runs, name: str) -> str:
    found = change_pct(runs, baseline, name)
    assert found is not None, "there are jobs"
    middle, low, high = found
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"


def _wait(runs: Runs) -> str:
    return f"{mean_of(runs, 'wait_p95').mean:.0f}"


def run() -> None:
    """Simulate what is not in `runs.csv`."""
    experiment = Experiment.read(_EXPERIMENT)
    known = {(float(row["load"]), int(row["seed"]), row["rule"]) for row in read_table(DIRECTORY / "runs.csv")}
    for load in LOADS:
        for seed in range(SEEDS):
            for title, arm in arms().items():
                if (load, seed, title) not in known:
                    figures = simulate(experiment, arm, load, seed)
                    append_row(DIRECTORY / "runs.csv", text_row({"load": load, "seed": seed, "rule": title, **figures}))
            sys.stderr.write(f"{NAME}: load {load}, seed {seed} of {SEEDS}\n")


if __name__ == "__main__":
    run()
    write_between(NAME, table(read_table(DIRECTORY / "runs.csv")), ROOT / "README.md")
