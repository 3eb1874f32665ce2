"""`joulie-agent`: the controller, and the commands that need neither a cluster nor its libraries.

Modules are imported by the command that uses them, which keeps the actuator's memory small.
"""

import sys
from typing import Final, NoReturn

from joulie_actuator import commands

HOLDERS: Final = "holders"
COMMANDS: Final = {**commands.COMMANDS, HOLDERS: "ask the kubelet which container has which device, for the controller"}


def main() -> NoReturn:
    """Run the agent, or one of its commands."""
    match sys.argv[1:]:
        case [command, *arguments] if command in commands.COMMANDS:
            sys.exit(commands.run(command, arguments))
        case [command, *arguments] if command == HOLDERS:
            from joulie_agent.holders import process  # noqa: PLC0415

            process.main(arguments)
        case _:
            _control()


def _control() -> NoReturn:
    from joulie_agent.app import SERVICE, VERSION, run  # noqa: PLC0415
    from joulie_agent.settings import AgentSettings  # noqa: PLC0415
    from joulie_api import entry  # noqa: PLC0415

    others = " ".join(f"`{SERVICE} {name}`: {what}." for name, what in COMMANDS.items())
    entry.main(
        SERVICE,
        AgentSettings,
        run,
        version=VERSION,
        summary="Discovers the hardware of its nodes, enforces their published power targets and reports the outcome. "
        f"Other commands, each with a --help of its own: {others}",
    )


if __name__ == "__main__":
    main()
