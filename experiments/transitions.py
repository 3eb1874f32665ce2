"""Transitions of the policies that follow demand: `python -m experiments.transitions` prints the table of README.md."""

import sys
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any, Final

import numpy as np

from experiments.config import Experiment
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.tables import TextTable

_EXPERIMENT: Final = "02-heterogeneous-gpu"
_LOAD: Final = 0.5
_SEEDS: Final = 10
#: By title: arm, and settings of its policy.
_POLICIES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "`queue_aware_v1`": ("queue_aware_energy", {}),
    "`queue_lead_v1`": ("queue_lead_energy", {}),
    "`queue_lead_v1`, `LEAD_MIN=12`": ("queue_lead_energy", {"lead_min": 12}),
    "`queue_lead_v1`, `LEAD_MIN=12`, `LEAD_SLACK_FRAC=1`": (
        "queue_lead_energy",
        {"lead_min": 12, "lead_slack_frac": 1.0},
    ),
}


def reversals(counts: list[int]) -> int:
    """Return how often the number of performance nodes turns from rising to falling or back."""
    steps = [sign for sign in np.sign(np.diff(counts)).tolist() if sign]
    return sum(before != after for before, after in pairwise(steps))


def _row(arm_name: str, values: dict[str, Any], seed: int) -> tuple[int, int]:
    """Return transitions and reversals of one seed."""
    experiment, arm = Experiment.read(_EXPERIMENT), ARMS[arm_name]
    assert arm.joulie is not None
    arm = replace(arm, joulie=replace(arm.joulie, policy_values=values))
    machines = experiment.machines()
    jobs, _ = experiment.steady_workload(machines, load=_LOAD, seed=seed)
    settings = SimulationSettings(seed=seed, report_interval_s=experiment.report_interval_s)
    result = Simulation(machines, jobs, arm, settings).run()
    return result.transitions, reversals(result.minutes.performance_nodes)


def _text(counts: tuple[int, ...]) -> str:
    """Return the median over the seeds, and the fewest and the most."""
    return f"{median(counts):g} ({min(counts)} to {max(counts)})"


if __name__ == "__main__":
    lines = []
    for title, (name, settings) in _POLICIES.items():
        made, turned = zip(*(_row(name, settings, seed) for seed in range(_SEEDS)), strict=True)
        lines.append((title, _text(made), _text(turned)))
    sys.stdout.write(TextTable(("policy", "transitions", "reversals"), lines).markdown() + "\n")
