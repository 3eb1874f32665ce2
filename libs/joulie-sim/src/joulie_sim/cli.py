"""The sub-commands of `joulie-sim`; without one it runs the simulator.

Their modules are imported by `main`, since the simulator needs none of them: with their libraries for plots and fits
they take longer to import than all that it needs.
"""

import argparse
from collections.abc import Sequence
from typing import Final

COMMANDS: Final = ("run", "sweep", "try", "compare", "plot", "record", "import", "calibrate")


def main(argv: Sequence[str]) -> int:
    """Run a sub-command; return its exit status."""
    from joulie_sim.calibrate import command as calibrate  # noqa: PLC0415
    from joulie_sim.commands import compare, import_, plot, record, run, sweep, try_  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="joulie-sim")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (run, sweep, try_, compare, plot, record, import_, calibrate):
        module.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    status: int = arguments.run(arguments)
    return status
