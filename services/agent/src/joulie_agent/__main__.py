"""`joulie-agent`."""

from typing import NoReturn

from joulie_agent.app import SERVICE, VERSION, run
from joulie_agent.settings import AgentSettings
from joulie_api import entry


def main() -> NoReturn:
    """Run the agent."""
    entry.main(
        SERVICE,
        AgentSettings,
        run,
        version=VERSION,
        summary="Discovers the hardware of its nodes, enforces their published power targets and reports the outcome.",
    )


if __name__ == "__main__":
    main()
