"""`joulie-extender`: the process that kube-scheduler calls."""

from typing import NoReturn

from joulie_api.entry import main as run_service
from joulie_extender import VERSION
from joulie_extender.app import SERVICE, run
from joulie_extender.settings import ExtenderSettings


def main() -> NoReturn:
    """Run the extender."""
    run_service(
        SERVICE,
        ExtenderSettings,
        run,
        version=VERSION,
        summary="Filters and scores nodes for kube-scheduler by what is known of their power.",
    )


if __name__ == "__main__":
    main()
