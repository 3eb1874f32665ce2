"""`joulie-sim try`: Joulie's presets beside kube-scheduler alone, as a first answer to what Joulie saves.

The synthetic pods are a load that lasts (`joulie_sim.engine.steady`), low enough that pods seldom wait. A day of it is
measured.
"""

import argparse
import math
import os
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from rich.console import Console

from joulie_api.presets import PRESETS
from joulie_sim.commands.execution import in_processes, simulate
from joulie_sim.commands.inputs import (
    INPUT_ERRORS,
    add_arms,
    add_nodes,
    machines_from,
    positive,
    replay_from,
    stored_jobs,
)
from joulie_sim.commands.plot import write_power_plot
from joulie_sim.commands.savings import saving_table
from joulie_sim.commands.tables import replay_notes, table_console
from joulie_sim.engine.arms import ARMS, PRESET_ARMS
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.records import MeasuredWindow
from joulie_sim.engine.results import Manifest, read_manifest
from joulie_sim.engine.steady import SteadyMix, steady_jobs

_EPILOG: Final = """\
Without other arguments, a synthetic day of 20 nodes. The first arm is what the others are compared with.

examples:
  joulie-sim try
  joulie-sim try --recording tuesday
"""
_EXIT_USAGE: Final = 2
_ARMS: Final = ("kube_default", "most_allocated", *(arm.name for arm in PRESET_ARMS.values()))
_PRESET_OF: Final = {arm.name: preset for preset, arm in PRESET_ARMS.items()}
_MEAN_WORK_S: Final = 1_800.0
_LONGEST_WORK_S: Final = 2 * 3_600.0
_SECONDS_PER_HOUR: Final = 3_600.0
_DAY_S: Final = 86_400.0
_LIMITS: Final = (
    "Modelled power: a difference within the ranges is chance. Not modelled: API server, agents, network, affinity."
)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "try",
        help="kube-scheduler alone and Joulie's presets, in a table",
        description="Simulate the same pods on the same nodes with kube-scheduler's two strategies and each preset of "
        "Joulie, for several seeds; show energy, what of it may be chance, and which pods paid for it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arms(parser)
    parser.add_argument(
        "--seeds",
        type=positive,
        default=3,
        metavar="N",
        help="seeds 0 to N-1 of the synthetic pods and of the choice among equal nodes (default 3)",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="processes (default: one for each CPU)",
    )
    parser.add_argument("--out", type=Path, default=Path("out/try"), metavar="DIR", help="(default out/try)")
    parser.add_argument(
        "--load", type=float, default=0.3, help="share of cores and GPUs that synthetic pods occupy (default 0.3)"
    )
    add_nodes(parser)
    parser.set_defaults(run=run, arms=list(_ARMS), node_count=20)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for inputs it cannot use."""
    console = table_console()
    try:
        machines = machines_from(arguments)
        if arguments.recording:
            console.print(replay_notes(replay_from(arguments)))
        found = in_processes(
            partial(_simulated, arguments, machines),
            list(product(arguments.arms, range(arguments.seeds))),
            workers=arguments.workers,
            title="simulations",
            unit="simulations",
        )
        picture = arguments.out / "power.png"
        write_power_plot(picture, [_directory(arguments, arm, seed=0) for arm in arguments.arms])
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim try: {error}\n")
        return _EXIT_USAGE
    _show(console, arguments, found)
    console.print(f"picture: {picture}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _show(console: Console, arguments: argparse.Namespace, found: list[Manifest]) -> None:
    by_arm = {
        _PRESET_OF.get(arm, arm): [manifest for manifest in found if manifest.arm == arm] for arm in arguments.arms
    }
    stored = arguments.recording or arguments.jobs
    measured = "until the last pod of the arm ended" if stored else "in the day that is measured"
    console.print(saving_table(_title(arguments, found[0]), measured, by_arm))
    for arm in arguments.arms:
        preset = _PRESET_OF.get(arm)
        if preset is None:
            line = f"{arm}: {ARMS[arm].summary}"
        else:
            needs = "; needs BMCs" if PRESETS[preset].sleeps else ""
            line = f"{preset} (preset, arm {arm}): {PRESETS[preset].summary}{needs}"
        console.print(line, markup=False, highlight=False)
    console.print(_LIMITS, highlight=False)


def _simulated(arguments: argparse.Namespace, machines: Machines, task: tuple[str, int]) -> Manifest:
    arm, seed = task
    jobs, window = _workload(arguments, machines, seed)
    out = _directory(arguments, arm, seed)
    simulate(arguments, machines, jobs, arm=arm, seed=seed, load=arguments.load, out=out, window=window)
    return read_manifest(out)


def _workload(arguments: argparse.Namespace, machines: Machines, seed: int) -> tuple[Jobs, MeasuredWindow | None]:
    """Return the jobs, and the window that is measured; None for all of recorded jobs and those of a file."""
    stored = stored_jobs(arguments)
    if stored is not None:
        return stored, None
    warm_up_hours = math.ceil(_LONGEST_WORK_S / machines.slowest_share / _SECONDS_PER_HOUR)
    mix = SteadyMix(
        load=arguments.load,
        warm_up_s=warm_up_hours * _SECONDS_PER_HOUR,
        window_s=_DAY_S,
        mean_work_s=_MEAN_WORK_S,
        longest_work_s=_LONGEST_WORK_S,
        performance_share=arguments.performance_share,
    )
    return steady_jobs(mix, machines, seed), mix.measured


def _directory(arguments: argparse.Namespace, arm: str, seed: int) -> Path:
    directory: Path = arguments.out / f"seed-{seed}" / arm
    return directory


def _title(arguments: argparse.Namespace, manifest: Manifest) -> str:
    pods = f"the same {manifest.summary.jobs:,} pods on the same {manifest.nodes} nodes"
    if arguments.recording:
        return f"{arguments.recording}: {pods}"
    if arguments.jobs:
        return f"{arguments.jobs}: {pods}"
    return f"{pods}, a day at {arguments.load:.0%} load, {arguments.seeds} seeds"
