"""`joulie-sim run`: one arm over one workload."""

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from joulie_sim.commands.inputs import INPUT_ERRORS, add_inputs, jobs_from, machines_from, replay_from, simulate
from joulie_sim.commands.tables import replay_notes, summary_table
from joulie_sim.engine.arms import ARMS

_EPILOG: Final = """\
example:
  joulie-sim run --arm static_partition --node-count 200 --load 0.7 --seed 1 --out results/static-1
"""
_EXIT_USAGE: Final = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "run",
        help="simulate one arm",
        description="Simulate one arm until all work is done; write jobs and minutes as Parquet, and a manifest.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    arms = "; ".join(f"{arm.name}: {arm.summary}" for arm in ARMS.values())
    parser.add_argument("--arm", choices=list(ARMS), required=True, metavar="ARM", help=arms)
    parser.add_argument("--seed", type=int, default=0, help="of the workload and of the choice among equal nodes")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory of the result")
    add_inputs(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for inputs it cannot use."""
    try:
        machines = machines_from(arguments)
        if arguments.recording:
            Console().print(replay_notes(replay_from(arguments)))
        jobs = jobs_from(arguments, machines, seed=arguments.seed, load=arguments.load)
        summary = simulate(
            arguments,
            machines,
            jobs,
            arm=arguments.arm,
            seed=arguments.seed,
            load=arguments.load,
            out=arguments.out,
        )
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim run: {error}\n")
        return _EXIT_USAGE
    Console().print(summary_table(arguments.arm, summary))
    return 0
