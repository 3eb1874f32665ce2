"""`joulie-devcluster` and `python -m joulie_devcluster`."""

import signal
import sys
from types import FrameType
from typing import NoReturn

from joulie_devcluster.cli.main import run


def main() -> None:
    """Run the command line and exit with its status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    sys.exit(run(sys.argv[1:]))


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    # An exception, so that a build removes its gigabytes on the way out. While a cluster is up, `up` handles signals.
    sys.exit(128 + number)


if __name__ == "__main__":
    main()
