"""`joulie-sim`: the simulator as a process, or one of the commands."""

import sys
from typing import NoReturn

from joulie_api.entry import main as run_service
from joulie_sim.cli import COMMANDS
from joulie_sim.cli import main as run_command
from joulie_sim.server.service import SERVICE, VERSION, run
from joulie_sim.server.settings import SimSettings


def main() -> NoReturn:
    """Run the command that the first argument names, else the simulator."""
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        sys.exit(run_command(sys.argv[1:]))
    run_service(
        SERVICE,
        SimSettings,
        run,
        version=VERSION,
        summary="Simulates hardware and workload of a cluster's nodes, with telemetry and control over HTTP. "
        f"Commands: {', '.join(COMMANDS)}; each has --help.",
    )


if __name__ == "__main__":
    main()
