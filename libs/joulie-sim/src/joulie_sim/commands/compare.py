"""`joulie-sim compare`: arms beside each other."""

import argparse
import sys
from pathlib import Path
from typing import Final

from joulie_sim.commands.inputs import INPUT_ERRORS
from joulie_sim.commands.tables import comparison_table, stretch_table, table_console
from joulie_sim.engine.comparison import compare
from joulie_sim.engine.results import read_manifest

_EPILOG: Final = """\
example:
  joulie-sim compare results/load-0.6/seed-*/* --baseline kube_default
"""
_EXIT_USAGE: Final = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "compare",
        help="compare results",
        description="Compare the results of several arms and seeds over the same nodes, jobs and protocol.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="DIR", help="directories of results")
    parser.add_argument("--baseline", default="kube_default", metavar="ARM", help="(default kube_default)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for results it cannot compare."""
    try:
        manifests = [read_manifest(directory) for directory in arguments.results]
        arms = compare(manifests, arguments.baseline)
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim compare: {error}\n")
        return _EXIT_USAGE
    console = table_console()
    console.print(comparison_table(f"{manifests[0].nodes} nodes", arms))
    console.print(stretch_table(arms))
    return 0
