"""`joulie-ven`: the process that follows a VTN."""

from typing import NoReturn

from joulie_api.entry import main as run_service
from joulie_ven import VERSION
from joulie_ven.app import SERVICE, run
from joulie_ven.settings import VenSettings


def main() -> NoReturn:
    """Run the VEN."""
    run_service(
        SERVICE,
        VenSettings,
        run,
        version=VERSION,
        summary="Follows the events of an OpenADR 3.1 VTN, and writes PowerEvents.",
    )


if __name__ == "__main__":
    main()
