"""`joulie-containers`: the resource manager, the node agent, the start hook, and the actuator that may be used beside.

Modules are imported by the command that uses them, which keeps the actuator's memory small.
"""

import sys
from typing import Final, NoReturn

from joulie_actuator import commands

COMMANDS: Final = {
    "manager": "place the containers of this node on CPUs and memory nodes, as an NRI plugin",
    "node-agent": "give the resource manager its configuration from custom resources, and publish what it reports",
    "start-hook": "let the agent lift limits of GPUs before a container starts, as an NRI plugin",
    **commands.COMMANDS,
}
_USAGE: Final = 2


def main() -> NoReturn:
    """Run one of the commands."""
    match sys.argv[1:]:
        case ["manager", *arguments]:
            from joulie_containers.resources import process as manager  # noqa: PLC0415 - see the module's docstring

            manager.main(arguments)
        case ["node-agent", *arguments]:
            from joulie_containers.node_agent import process as node_agent  # noqa: PLC0415

            node_agent.main(arguments)
        case ["start-hook", *arguments]:
            from joulie_containers.start_hook import process as start_hook  # noqa: PLC0415

            start_hook.main(arguments)
        case [command, *arguments] if command in commands.COMMANDS:
            sys.exit(commands.run(command, arguments))
        case ["-h" | "--help"]:
            sys.stdout.write(_help())
            sys.exit(0)
        case ["--version"]:
            from importlib.metadata import version  # noqa: PLC0415

            sys.stdout.write(f"joulie-containers {version('joulie-containers')}\n")
            sys.exit(0)
        case _:
            sys.stderr.write(_help())
            sys.exit(_USAGE)


def _help() -> str:
    lines = (f"  {name:<12}{what}\n" for name, what in COMMANDS.items())
    return f"usage: joulie-containers COMMAND\n\n{''.join(lines)}\nEach has a --help of its own.\n"


if __name__ == "__main__":
    main()
