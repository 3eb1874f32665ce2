"""Commands of the privileged side, for each program that brings the actuator.

The modules are imported by the command that uses them, which keeps the actuator's memory small and a probe short.
"""

from collections.abc import Sequence
from typing import Final

COMMANDS: Final = {
    "actuator": "apply power limits on this machine on behalf of the unprivileged controller",
    "restore": "restore every limit that was set on this machine; with --if-unowned, for a timer of the host, only "
    "while no actuator runs",
    "probe": "say whether the actuator is alive, for a liveness probe",
    "doctor": "say what of this machine can be measured and controlled, and what cannot",
}


def run(command: str, arguments: Sequence[str]) -> int:
    """Run one of `COMMANDS`; return the exit code.

    Raises:
        ValueError: there is no such command.
    """
    match command:
        case "actuator":
            from joulie_actuator import process  # noqa: PLC0415 - see the module's docstring

            return process.main(arguments)
        case "restore":
            from joulie_actuator.commands import restore  # noqa: PLC0415

            return restore.main(arguments)
        case "probe":
            from joulie_actuator.commands import probe  # noqa: PLC0415

            return probe.main(arguments)
        case "doctor":
            from joulie_actuator.commands import doctor  # noqa: PLC0415

            return doctor.main(arguments)
        case _:
            raise ValueError(f"no command {command!r}")
