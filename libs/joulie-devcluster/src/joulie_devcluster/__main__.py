"""`joulie-devcluster` and `python -m joulie_devcluster`."""

import sys

from joulie_devcluster.cli import run


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
