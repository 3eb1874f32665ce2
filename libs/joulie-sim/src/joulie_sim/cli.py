"""The sub-commands of `joulie-sim`; without one it runs the simulator."""

import argparse
from collections.abc import Sequence
from typing import Final

from joulie_sim.calibrate import command as calibrate
from joulie_sim.commands import compare, import_, plot, record, run, sweep, try_

_MODULES: Final = (run, sweep, try_, compare, plot, record, import_, calibrate)
COMMANDS: Final = ("run", "sweep", "try", "compare", "plot", "record", "import", "calibrate")


def main(argv: Sequence[str]) -> int:
    """Run a sub-command; return its exit status."""
    parser = argparse.ArgumentParser(prog="joulie-sim")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _MODULES:
        module.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    status: int = arguments.run(arguments)
    return status
