"""The command `joulie-operator`."""

from typing import NoReturn

from joulie_api import app
from joulie_operator import __doc__ as summary
from joulie_operator.app import SERVICE, VERSION, run
from joulie_operator.settings import settings_model


def main() -> NoReturn:
    """Run the operator until SIGTERM or SIGINT."""
    app.main(SERVICE, settings_model(), run, version=VERSION, summary=summary or "")


if __name__ == "__main__":
    main()
