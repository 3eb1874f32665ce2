"""`joulie-sim`: the simulator as a process."""

from typing import NoReturn

from joulie_api.entry import main as run_service
from joulie_sim.server.service import SERVICE, VERSION, run
from joulie_sim.server.settings import SimSettings


def main() -> NoReturn:
    """Run the simulator."""
    run_service(
        SERVICE,
        SimSettings,
        run,
        version=VERSION,
        summary="Simulates hardware and workload of a cluster's nodes, with telemetry and control over HTTP.",
    )


if __name__ == "__main__":
    main()
