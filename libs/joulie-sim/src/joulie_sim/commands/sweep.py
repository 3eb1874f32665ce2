"""`joulie-sim sweep`: several arms over several loads and seeds, and their comparison."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Final

from joulie_sim.commands.execution import in_processes, simulate
from joulie_sim.commands.inputs import (
    INPUT_ERRORS,
    add_arms,
    add_inputs,
    jobs_from,
    machines_from,
    positive,
    replay_from,
)
from joulie_sim.commands.plot import write_power_plot
from joulie_sim.commands.protocol import PROTOCOLS
from joulie_sim.commands.tables import comparison_table, replay_notes, stretch_table, table_console
from joulie_sim.engine.comparison import compare
from joulie_sim.engine.machines import Machines
from joulie_sim.engine.results import read_manifest

_EPILOG: Final = f"""\
{PROTOCOLS}
Results are DIR/load-LOAD/seed-SEED/ARM; each load has a comparison, and a plot of its first seed, DIR/load-LOAD.png.

example:
  joulie-sim sweep --arms kube_default static_partition --loads 0.3 0.7 --seeds 10 --workers 4 --out results
"""
_EXIT_USAGE: Final = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "sweep",
        help="simulate several arms, loads and seeds",
        description="Simulate every arm over every load and seed, with the same jobs for all arms, and compare them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arms(parser)
    parser.add_argument("--loads", nargs="+", type=float, metavar="LOAD", help="(default: that of --load)")
    parser.add_argument("--seeds", type=positive, default=10, metavar="N", help="seeds 0 to N-1 (default 10)")
    parser.add_argument(
        "--workers", type=positive, default=1, metavar="N", help="processes, each with seeds of its own (default 1)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory of the results")
    add_inputs(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for inputs it cannot use."""
    console = table_console()
    try:
        machines = machines_from(arguments)
        if arguments.recording:
            console.print(replay_notes(replay_from(arguments)))
        for load in arguments.loads or [arguments.load]:
            directory = arguments.out / f"load-{load:g}"
            results = _simulate_load(arguments, machines, load, directory)
            compared = compare([read_manifest(result) for result in results], arguments.arms[0])
            console.print(comparison_table(f"{len(machines)} nodes, load {load:g}", compared))
            console.print(stretch_table(compared))
            picture = directory.with_name(f"{directory.name}.png")
            write_power_plot(picture, [directory / "seed-0" / arm for arm in arguments.arms])
            console.print(f"plot: {picture}", highlight=False)
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim sweep: {error}\n")
        return _EXIT_USAGE
    return 0


def _simulate_load(arguments: argparse.Namespace, machines: Machines, load: float, directory: Path) -> list[Path]:
    results = in_processes(
        partial(_simulate_seed, arguments, machines, load, directory),
        range(arguments.seeds),
        workers=arguments.workers,
        title=f"load {load:g}",
        unit="seeds",
    )
    return [result for seed in results for result in seed]


def _simulate_seed(
    arguments: argparse.Namespace, machines: Machines, load: float, directory: Path, seed: int
) -> list[Path]:
    jobs = jobs_from(arguments, machines, seed=seed, load=load)
    results = []
    for arm in arguments.arms:
        out = directory / f"seed-{seed}" / arm
        simulate(arguments, machines, jobs, arm=arm, seed=seed, load=load, out=out)
        results.append(out)
    return results
