"""`joulie-outofband`: the process that reaches BMCs."""

from typing import NoReturn

from joulie_api.entry import main as run_service
from joulie_outofband import VERSION
from joulie_outofband.app import SERVICE, run
from joulie_outofband.settings import OutOfBandSettings


def main() -> NoReturn:
    """Run the out-of-band service."""
    run_service(
        SERVICE,
        OutOfBandSettings,
        run,
        version=VERSION,
        summary="Powers servers on and off, caps and measures them through their management controllers.",
    )


if __name__ == "__main__":
    main()
