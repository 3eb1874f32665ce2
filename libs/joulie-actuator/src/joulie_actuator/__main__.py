"""`python -m joulie_actuator`: the commands without a program that brings them."""

import sys
from typing import NoReturn

from joulie_actuator.commands import COMMANDS, run


def main() -> NoReturn:
    """Run a command."""
    match sys.argv[1:]:
        case [command, *arguments] if command in COMMANDS:
            sys.exit(run(command, arguments))
        case _:
            sys.exit(f"usage: python -m joulie_actuator {{{','.join(COMMANDS)}}}")


if __name__ == "__main__":
    main()
