"""`joulie-sim run`: one arm over one workload."""

import argparse
import sys
from pathlib import Path
from typing import Final

from joulie_sim.commands.execution import simulate
from joulie_sim.commands.inputs import INPUT_ERRORS, add_inputs, arms_help, jobs_from, machines_from, replay_from
from joulie_sim.commands.protocol import PROTOCOLS
from joulie_sim.commands.tables import replay_notes, summary_table, table_console
from joulie_sim.engine.arms import ARMS

_EPILOG: Final = f"""\
{PROTOCOLS}
results in DIR:
  manifest.json    inputs with the digests of their files, versions, seed, figures, cost, digests of the other two
  jobs.parquet     one row a job: arrival, start, end, work, work left, class, requests, node
  minutes.parquet  one row a minute: IT and facility watts, running and waiting jobs, performance and draining nodes

examples:
  joulie-sim run --arm static_partition --node-count 200 --load 0.7 --seed 1 --out results/static-1
  joulie-sim run --arm kube_default --facility economizer --outdoor-c 22 --outdoor-swing-c 8 --out results/warm
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
    parser.add_argument("--arm", choices=list(ARMS), required=True, metavar="ARM", help=arms_help())
    parser.add_argument("--seed", type=int, default=0, help="of the workload and of the choice among equal nodes")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="directory of the result")
    add_inputs(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for inputs it cannot use."""
    try:
        machines = machines_from(arguments)
        if arguments.recording:
            table_console().print(replay_notes(replay_from(arguments)))
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
    table_console().print(summary_table(arguments.arm, summary))
    return 0
