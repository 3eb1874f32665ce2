"""`joulie-agent`: the controller, and the commands that need neither a cluster nor its libraries.

Modules are imported by the command that uses them, which keeps the actuator's memory small.
"""

import sys
from typing import Final, NoReturn

COMMANDS: Final = {
    "actuator": "apply power limits on this machine on behalf of the unprivileged controller",
    "resources": "place the containers of this node on CPUs and memory nodes, as an NRI plugin",
    "restore": "restore every limit that was set on this machine; with --if-unowned, for a timer of the host, only "
    "while no actuator runs",
    "probe": "say whether the actuator is alive, for a liveness probe",
    "doctor": "say what of this machine can be measured and controlled, and what cannot",
}


def main() -> NoReturn:
    """Run the agent, or one of its commands."""
    match sys.argv[1:]:
        case ["actuator", *arguments]:
            from joulie_agent.actuator import process  # noqa: PLC0415 - see the module's docstring

            sys.exit(process.main(arguments))
        case ["resources", *arguments]:
            from joulie_agent.resources import process as resources  # noqa: PLC0415

            resources.main(arguments)
        case ["restore", *arguments]:
            from joulie_agent.commands import restore  # noqa: PLC0415

            sys.exit(restore.main(arguments))
        case ["probe", *arguments]:
            from joulie_agent.commands import probe  # noqa: PLC0415

            sys.exit(probe.main(arguments))
        case ["doctor", *arguments]:
            from joulie_agent.commands import doctor  # noqa: PLC0415

            sys.exit(doctor.main(arguments))
        case _:
            _control()


def _control() -> NoReturn:
    from joulie_agent.app import SERVICE, VERSION, run  # noqa: PLC0415
    from joulie_agent.settings import AgentSettings  # noqa: PLC0415
    from joulie_api import entry  # noqa: PLC0415

    commands = " ".join(f"`{SERVICE} {name}`: {what}." for name, what in COMMANDS.items())
    entry.main(
        SERVICE,
        AgentSettings,
        run,
        version=VERSION,
        summary="Discovers the hardware of its nodes, enforces their published power targets and reports the outcome. "
        f"Other commands, each with a --help of its own: {commands}",
    )


if __name__ == "__main__":
    main()
