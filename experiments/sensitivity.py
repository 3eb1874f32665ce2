"""Moves each constant of the models by its band: `python -m experiments.sensitivity` writes 07-sensitivity/.

Experiment 02 is simulated again at one load with one constant moved, for the same seeds, and the saving of each arm is
compared with that of the constants that ship. Bands: docs/models.md. Settings of sleep and what servers take for a boot
are moved, too, of the arm whose nodes sleep.
"""

import copy
import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final
from unittest.mock import patch

from matplotlib.figure import Figure

from experiments.config import ROOT, Experiment
from experiments.report import write_between
from experiments.rows import Row, text_row, write_rows
from joulie_core.hardware.inventory import Inventory, inventory_data
from joulie_core.kinds.node_sleep_policy import MinAwakeSpec, SpareOf
from joulie_core.power.draw import SENSITIVITY, WorkKind
from joulie_core.power.server import MeasuredServer, ServerModels
from joulie_sim.engine import job_flow
from joulie_sim.engine.arm import Arm, SleepingArm
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.node_sleep_settings import NodeSleepSettings
from joulie_sim.engine.simulation import Simulation, SimulationSettings
from joulie_sim.engine.summary import summarize
from joulie_sim.tables import TextTable

DIRECTORY: Final = ROOT / "07-sensitivity"
BASE: Final = "02-heterogeneous-gpu"
LOAD: Final = 0.5
SEEDS: Final = 1
_SLEEPING: Final = "packing_score_sleep_shared"
ARM_NAMES: Final = ("kube_default", "energy_scoring", "family_energy", "class_caps_gpu_75", _SLEEPING)
SHIPPED: Final = "as shipped"


@dataclass(frozen=True, slots=True)
class MovedConstants:
    """The constants of the models, of which one may be moved."""

    inventory: dict[str, Any]
    servers: ServerModels
    #: Of compute, memory and io work.
    sensitivities: tuple[float, ...]
    #: Of nodes that sleep.
    sleep: NodeSleepSettings


def shipped() -> MovedConstants:
    """Return the constants that ship."""
    sleeping = ARMS[_SLEEPING]
    assert isinstance(sleeping, SleepingArm)
    sensitivities = tuple(SENSITIVITY[kind].value for kind in WorkKind)
    return MovedConstants(inventory_data(), ServerModels.load(), sensitivities, sleeping.sleep)


def _response(name: str, field: str, value: float) -> Callable[[MovedConstants], MovedConstants]:
    def move(constants: MovedConstants) -> MovedConstants:
        inventory = copy.deepcopy(constants.inventory)
        inventory["response"][name][field] = value
        return replace(constants, inventory=inventory)

    return move


def _gpu_idle(factor: float) -> Callable[[MovedConstants], MovedConstants]:
    def move(constants: MovedConstants) -> MovedConstants:
        inventory = copy.deepcopy(constants.inventory)
        for gpu in inventory["gpu"]:
            gpu["idle_watts"] *= factor
        return replace(constants, inventory=inventory)

    return move


def _natural(share: float) -> Callable[[MovedConstants], MovedConstants]:
    def move(constants: MovedConstants) -> MovedConstants:
        inventory = copy.deepcopy(constants.inventory)
        for gpu in inventory["natural_share"]["gpu"]:
            inventory["natural_share"]["gpu"][gpu] = share
        return replace(constants, inventory=inventory)

    return move


def _sensitivities(memory: float, io: float) -> Callable[[MovedConstants], MovedConstants]:
    return lambda constants: replace(constants, sensitivities=(constants.sensitivities[0], memory, io))


def _from_tdp(factor: float) -> Callable[[MovedConstants], MovedConstants]:
    def move(constants: MovedConstants) -> MovedConstants:
        servers = constants.servers
        shares = {name: tuple(factor * share for share in of) for name, of in servers.tdp_shares.items()}
        return replace(constants, servers=replace(servers, tdp_shares=shares))

    return move


def _tilted(points: tuple[float, ...], factor: float) -> tuple[float, ...]:
    """Return a curve whose first point is multiplied and whose last one stays."""
    last = len(points) - 1
    return tuple(each + (factor - 1.0) * points[0] * (1.0 - place / last) for place, each in enumerate(points))


def _idle_share(factor: float) -> Callable[[MovedConstants], MovedConstants]:
    def measured(server: MeasuredServer) -> MeasuredServer:
        return replace(server, wall_watts=_tilted(server.wall_watts, factor))

    def move(constants: MovedConstants) -> MovedConstants:
        servers = constants.servers
        return replace(
            constants,
            servers=replace(
                servers,
                tdp_shares={name: _tilted(of, factor) for name, of in servers.tdp_shares.items()},
                measured={key: measured(server) for key, server in servers.measured.items()},
            ),
        )

    return move


def _rest(factor: float) -> Callable[[MovedConstants], MovedConstants]:
    def move(constants: MovedConstants) -> MovedConstants:
        servers = constants.servers
        rest = {"rest_watts": servers.rest_watts, "rest_watts_per_gib": servers.rest_watts_per_gib}
        return replace(constants, servers=replace(servers, **{name: factor * value for name, value in rest.items()}))

    return move


def _server_sleep(**changes: Any) -> Callable[[MovedConstants], MovedConstants]:
    return lambda constants: replace(constants, sleep=replace(constants.sleep, **changes))


def _policy(**changes: Any) -> Callable[[MovedConstants], MovedConstants]:
    """Return a move of fields of a NodeSleepPolicy, by the names of `SleepSettings`."""

    def move(constants: MovedConstants) -> MovedConstants:
        sleep = constants.sleep
        return replace(constants, sleep=replace(sleep, decision=sleep.decision.model_copy(update=changes)))

    return move


#: By what is moved, and where to.
MOVES: Final[Mapping[tuple[str, str], Callable[[MovedConstants], MovedConstants]]] = {
    (SHIPPED, ""): lambda constants: constants,
    ("exponent of GPUs", "0.15"): _response("gpu", "exponent", 0.15),
    ("exponent of GPUs", "0.31"): _response("gpu", "exponent", 0.31),
    ("static share of GPUs", "0.30"): _response("gpu", "static_share", 0.30),
    ("static share of GPUs", "0.46"): _response("gpu", "static_share", 0.46),
    ("exponent of CPUs", "0.4"): _response("cpu", "exponent", 0.4),
    ("exponent of CPUs", "0.6"): _response("cpu", "exponent", 0.6),
    ("memory, io work: b", "0.2, 0.0"): _sensitivities(0.2, 0.0),
    ("memory, io work: b", "0.6, 0.3"): _sensitivities(0.6, 0.3),
    ("idle power of GPUs", "x 0.7"): _gpu_idle(0.7),
    ("idle power of GPUs", "x 1.3"): _gpu_idle(1.3),
    ("natural power of GPUs", "0.7"): _natural(0.7),
    ("natural power of GPUs", "1.0"): _natural(1.0),
    ("server from its TDP", "x 0.84"): _from_tdp(0.84),
    ("server from its TDP", "x 1.16"): _from_tdp(1.16),
    ("idle power of servers", "x 0.7"): _idle_share(0.7),
    ("idle power of servers", "x 1.5"): _idle_share(1.5),
    ("rest of the server", "x 0.5"): _rest(0.5),
    ("rest of the server", "x 2"): _rest(2.0),
    ("boot of a server", "5 min"): _server_sleep(boot_s=300.0, gpu_boot_s=600.0),
    ("boot of a server", "15 min"): _server_sleep(boot_s=900.0, gpu_boot_s=1200.0),
    ("power of a boot over idle", "x 1"): _server_sleep(boot_over_idle=1.0),
    ("power of a boot over idle", "x 2"): _server_sleep(boot_over_idle=2.0),
    ("power while off", "5 W"): _server_sleep(off_watts=5.0),
    ("power while off", "30 W"): _server_sleep(off_watts=30.0),
    ("idleSeconds", "300"): _policy(idle_seconds=300),
    ("idleSeconds", "1800"): _policy(idle_seconds=1800),
    ("minAwake.spare", "1"): _policy(min_awake=MinAwakeSpec(spare=1, spare_of=SpareOf.RESOURCES)),
    ("minAwake.spare", "4"): _policy(min_awake=MinAwakeSpec(spare=4, spare_of=SpareOf.RESOURCES)),
    ("minAwake.spareOf", "Family"): _policy(min_awake=MinAwakeSpec()),
    ("maxAsleepPercent", "25"): _policy(max_asleep_percent=25),
    ("maxAsleepPercent", "80"): _policy(max_asleep_percent=80),
}


@contextmanager
def constants_in_force(constants: MovedConstants) -> Iterator[Inventory]:
    """Let the models use these constants; returns the inventory for the machines.

    Constants are part of the code and no parameter of it, which only this study wants otherwise.
    """
    inventory = Inventory(constants.inventory)
    with (
        patch.object(ServerModels, "load", staticmethod(lambda: constants.servers)),
        patch.object(job_flow, "_SENSITIVITIES", constants.sensitivities),
    ):
        yield inventory


def savings(experiment: Experiment, constants: MovedConstants, seed: int) -> dict[str, float]:
    """Return by arm the percent of energy below kube_default, for the jobs of a seed."""
    with constants_in_force(constants) as inventory:
        machines = experiment.machines(inventory)
        jobs, window = experiment.steady_workload(machines, load=LOAD, seed=seed)
        settings = SimulationSettings(seed=seed, report_interval_s=experiment.report_interval_s)
        energies = {
            name: summarize(
                Simulation(machines, jobs, arm_of(name, constants), settings).run(), jobs, machines, window
            ).it_kwh
            for name in ARM_NAMES
        }
    return {name: 100.0 * (1.0 - energy / energies["kube_default"]) for name, energy in energies.items()}


def arm_of(name: str, constants: MovedConstants) -> Arm:
    """Return an arm with what was moved of sleep, if its nodes sleep."""
    arm = ARMS[name]
    return replace(arm, sleep=constants.sleep) if isinstance(arm, SleepingArm) else arm


def run() -> None:
    """Simulate all moves, seed by seed, and write them."""
    experiment, rows = Experiment.read(BASE), []
    for seed in range(SEEDS):
        for (constant, value), move in MOVES.items():
            found = savings(experiment, move(shipped()), seed)
            row = {"constant": constant, "value": value, "seed": seed}
            rows.append(text_row(row | {arm: found[arm] for arm in ARM_NAMES[1:]}))
            sys.stderr.write(f"\r07-sensitivity: {len(rows)} of {SEEDS * len(MOVES)} sets of arms ")
    sys.stderr.write("\n")
    write_rows(DIRECTORY / "runs.csv", rows)


def _read() -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    with (DIRECTORY / "runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["constant"], row["value"]].append(row)
    return found


def _mean(rows: Sequence[Row], arm: str) -> float:
    return fmean(float(row[arm]) for row in rows)


def table() -> str:
    """Return the savings of each arm with each constant moved, means over the seeds."""
    arms = ARM_NAMES[1:]
    lines = [
        (constant, value, *(f"{_mean(rows, arm):.1f}" for arm in arms)) for (constant, value), rows in _read().items()
    ]
    return TextTable(("constant", "moved to", *(f"`{arm}`, %" for arm in arms)), lines).markdown()


def plot() -> None:
    """Draw what each move changes, arm by arm, in percentage points."""
    found = _read()
    base = found.pop((SHIPPED, ""))
    figure = Figure(figsize=(11, 5))
    axes = figure.subplots(1, len(ARM_NAMES) - 1, sharey=True)
    names = [f"{constant} {value}" for constant, value in found]
    for each, arm in zip(axes, ARM_NAMES[1:], strict=True):
        changes = [_mean(rows, arm) - _mean(base, arm) for rows in found.values()]
        each.barh(names, changes)
        each.axvline(0.0, color="black", linewidth=0.8)
        each.set(title=f"{arm}: {_mean(base, arm):.1f} %", xlabel="change, percentage points")
        each.grid(visible=True, alpha=0.3)
    axes[0].invert_yaxis()
    figure.savefig(DIRECTORY / "sensitivity.png", dpi=100, bbox_inches="tight", metadata={"Software": None})


if __name__ == "__main__":
    run()
    write_between("07-sensitivity", table(), ROOT / "README.md")
    plot()
