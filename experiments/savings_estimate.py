"""The estimate of savings against a simulated pair: `python -m experiments.savings_estimate` writes 10-savings/.

Two arms have the same jobs on the same nodes: `packing_score_sleep_shared`, and kube-scheduler's default. The estimate
is made within the first, from what the operator sees (`joulie_sim.engine.savings_probe`), and judged by the difference
of what both draw: within the measured hours, in which the arms may do different work where pods wait, and from the
first job to the end of the last one, in which they do the same. The nodes draw other watts than the models say: of each
kind of hardware the servers, and the GPUs, by a factor within the error that the estimate takes for its model, drawn
anew for each seed. The estimate knows neither these factors nor what jobs use of their requests. Rows that are in
`runs.csv` are not simulated again: delete it after a change of the estimate.
"""

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Final

from experiments.config import ROOT
from experiments.report import write_between
from experiments.rows import Row, append_row, read_table, text_row
from joulie_core.hardware.inventory import Inventory
from joulie_core.power.draw import Draw
from joulie_core.savings import EstimateRange, Lever
from joulie_core.savings.ledger import SavingsSum
from joulie_core.savings.node_loads import load_model
from joulie_core.units import JOULES_PER_KWH
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.machines import Machines, machines_of
from joulie_sim.engine.node_lists import read_node_list
from joulie_sim.engine.power_model import NodePowerModel, ServerDraw, SlowedCores
from joulie_sim.engine.records import MeasuredWindow, SimulationResult
from joulie_sim.engine.running_nodes import calibrated_models
from joulie_sim.engine.savings_probe import SavingsProbe
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.steady import SteadyMix, steady_jobs
from joulie_sim.physics.parts import Controls
from joulie_sim.tables import TextTable

DIRECTORY: Final = ROOT / "10-savings"
ARM: Final = "packing_score_sleep_shared"
BASELINE: Final = "kube_default"
LOADS: Final = (0.3, 0.5)
SEEDS: Final = 10
#: Of GPUs; that of servers is their model's.
_GPU_ERROR: Final = 0.16
_HOUR_S: Final = 3_600.0


@dataclass(frozen=True, slots=True)
class MisjudgedModel:
    """A power model whose nodes draw other watts than the calibrated one says, by two factors."""

    model: NodePowerModel
    server_factor: float
    gpu_factor: float

    def server(self, busy_cores: float, controls: Controls, slowed: SlowedCores | None = None) -> ServerDraw:
        """Return the draw of the server."""
        draw = self.model.server(busy_cores, controls, slowed)
        return ServerDraw(self.server_factor * draw.wall_watts, draw.packages)

    def gpu(self, utilization: float, controls: Controls) -> Draw:
        """Return the draw of one GPU."""
        draw = self.model.gpu(utilization, controls)
        return Draw(self.gpu_factor * draw.watts, draw.speed)

    def wall_watts(self, gpu_watts: float) -> float:
        """Return the watts at the wall that all GPUs of the node add."""
        return self.model.wall_watts(gpu_watts)


class Judged(StrEnum):
    """Time in which a pair is compared; the values begin the names of columns."""

    #: The measured hours of a steady load.
    HOURS = ""
    #: From the first job to the end of the last one in either arm: both have done the same work.
    ALL_WORK = "all_work_"


@dataclass(frozen=True, slots=True)
class PairResult:
    """Joules of one pair in one time: realised, and estimated by lever."""

    baseline: float
    saved: float
    estimates: dict[Lever, EstimateRange]

    @property
    def estimate(self) -> EstimateRange:
        """The sum of the levers."""
        return sum(self.estimates.values(), EstimateRange())

    @property
    def contained(self) -> bool:
        """Whether the realised saving is within the interval."""
        return self.estimate.lower <= self.saved <= self.estimate.upper

    def figures(self, judged: Judged) -> dict[str, float]:
        """Return the columns of `runs.csv`, in kWh."""
        levers = {
            f"{lever.value}_{bound}": getattr(found, bound)
            for lever, found in self.estimates.items()
            for bound in ("lower", "middle", "upper")
        }
        joules = {"baseline": self.baseline, "saved": self.saved, **levers}
        return {f"{judged.value}{name}_kwh": value / JOULES_PER_KWH for name, value in joules.items()}


def mix_of(load: float, *, warm_up_hours: float = 4.0, hours: float = 12.0) -> SteadyMix:
    """Return a load of short jobs, so that some hours have many of them."""
    return SteadyMix(
        load=load,
        warm_up_s=warm_up_hours * _HOUR_S,
        window_s=hours * _HOUR_S,
        mean_work_s=_HOUR_S / 3.0,
        longest_work_s=warm_up_hours * 0.6 * _HOUR_S,
    )


def nodes() -> Machines:
    """Return the nodes of the experiment."""
    return machines_of(read_node_list(DIRECTORY / "nodes.yaml"), Inventory.load())


def simulate_pair(machines: Machines, mix: SteadyMix, seed: int) -> dict[Judged, PairResult]:
    """Simulate both arms, with the estimate in the first."""
    jobs = steady_jobs(mix, machines, seed)
    models = misjudged(machines, seed)
    settings = SimulationSettings(seed=seed, report_interval_s=60.0)

    def simulated(arm: str, savings: SavingsProbe | None = None, horizon_s: float | None = None) -> SimulationResult:
        timed = replace(settings, horizon_s=horizon_s)
        return Simulation(machines, jobs, ARMS[arm], timed, power_models=models, savings=savings).run()

    probe, horizon_s = SavingsProbe(machines, seed), mix.measured.end_s + 1.0
    baseline = _joules(simulated(BASELINE, horizon_s=horizon_s), mix.measured)
    arm = _joules(simulated(ARM, probe, horizon_s), mix.measured)
    hours = _pair(baseline, arm, probe.ledger.since(mix.measured.begin_s))

    probe = SavingsProbe(machines, seed)
    runs = [simulated(BASELINE), simulated(ARM, probe)]
    end_s = max(each.end_s for each in runs)
    # The arm that is done first idles to the end of the other one.
    joules = [each.it_joules + each.idle_watts * (end_s - each.end_s) for each in runs]
    probe.look(end_s)
    return {Judged.HOURS: hours, Judged.ALL_WORK: _pair(*joules, probe.ledger.total)}


def _pair(baseline: float, arm: float, sums: Mapping[Lever, SavingsSum]) -> PairResult:
    return PairResult(baseline, baseline - arm, {lever: each.joules for lever, each in sums.items()})


def misjudged(machines: Machines, seed: int) -> list[NodePowerModel]:
    """Return the models that the nodes really draw by."""
    # Must be reproducible, not cryptographically secure.
    source = random.Random(seed)  # noqa: S311
    models: list[NodePowerModel] = []
    for group, model in zip(machines.groups, calibrated_models(machines), strict=True):
        known = load_model(group.view)
        assert known is not None, "machines have known CPUs"
        factors = [source.uniform(1.0 - error, 1.0 + error) for error in (known.error, _GPU_ERROR)]
        models.append(MisjudgedModel(model, *factors))
    return models


def _joules(result: SimulationResult, window: MeasuredWindow) -> float:
    minutes = result.minutes
    ends_s = [0.0, *minutes.ends_s]
    return sum(
        watts * (end_s - start_s)
        for watts, (start_s, end_s) in zip(minutes.it_watts, pairwise(ends_s), strict=True)
        if window.begin_s < end_s <= window.end_s
    )


def estimate_of(row: Row, judged: Judged) -> EstimateRange:
    """Return the estimate of all levers in kWh."""
    bounds = (
        sum(float(row[f"{judged.value}{lever.value}_{bound}_kwh"]) for lever in Lever)
        for bound in ("lower", "middle", "upper")
    )
    return EstimateRange(*bounds)


def table(rows: list[Row], judged: Judged) -> str:
    """Return the table of all runs, and below it what they come to."""
    lines = []
    for row in rows:
        found, saved = estimate_of(row, judged), float(row[f"{judged.value}saved_kwh"])
        lines.append(
            (
                row["load"],
                row["seed"],
                f"{float(row[f'{judged.value}baseline_kwh']):.1f}",
                f"{saved:.1f}",
                f"{found.middle:.1f} [{found.lower:.1f}, {found.upper:.1f}]",
                *(f"{float(row[f'{judged.value}{lever}_middle_kwh']):.1f}" for lever in (Lever.SLEEP, Lever.SCORE)),
                f"{100.0 * (found.middle / saved - 1.0):+.1f}",
                "yes" if found.lower <= saved <= found.upper else "no",
            )
        )
    titles = ("load", "seed", "baseline, kWh", "saved, kWh", "estimated, kWh", "by sleep", "by score", "error, %")
    results = (_result(rows, load, judged) for load in LOADS)
    return "\n\n".join((TextTable((*titles, "contained"), lines).markdown(), *results))


def _result(rows: list[Row], load: float, judged: Judged) -> str:
    at_load = [row for row in rows if float(row["load"]) == load]
    pairs = [(estimate_of(row, judged), float(row[f"{judged.value}saved_kwh"])) for row in at_load]
    contained = sum(found.lower <= saved <= found.upper for found, saved in pairs)
    worst = max((abs(found.middle / saved - 1.0) for found, saved in pairs), default=0.0)
    return (
        f"At {load} the interval contains {contained} of {len(pairs)}; its middle is off by up to {100 * worst:.1f} %."
    )


def run() -> None:
    """Simulate the pairs that are not in `runs.csv`."""
    machines = nodes()
    known = {(float(row["load"]), int(row["seed"])) for row in read_table(DIRECTORY / "runs.csv")}
    for load in LOADS:
        for seed in range(SEEDS):
            if (load, seed) not in known:
                found = simulate_pair(machines, mix_of(load), seed)
                figures = {
                    name: value for judged, each in found.items() for name, value in each.figures(judged).items()
                }
                append_row(DIRECTORY / "runs.csv", text_row({"load": load, "seed": seed, **figures}))
                sys.stderr.write(f"10-savings: load {load}, seed {seed} of {SEEDS}\n")


if __name__ == "__main__":
    run()
    for each in Judged:
        section = "10-savings" if each is Judged.HOURS else "10-savings-all-work"
        write_between(section, table(read_table(DIRECTORY / "runs.csv"), each), ROOT / "README.md")
