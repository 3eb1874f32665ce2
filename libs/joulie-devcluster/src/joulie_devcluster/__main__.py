"""Entry point of `joulie-devcluster` and `python -m joulie_devcluster`."""

import signal
import sys
from types import FrameType
from typing import NoReturn

from joulie_devcluster.cli.main import run


def main() -> None:
    """Run the command line and exit with its status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit_on_signal)
    sys.exit(run(sys.argv[1:]))


def _exit_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    # Raises SystemExit, so that an interrupted build removes its temporary files (several GB). While a cluster is up,
    # `up` has signal handlers of its own.
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
