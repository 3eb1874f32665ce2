"""The command `restore`: restore all managed limits, by hand or from an uninstall hook.

Exit code 0 where no limit is managed any more, 1 where one is or where that is unknown, 2 on wrong usage. Works without
an actuator, and through one that runs; a controller that is still running then sets its caps again, and the command
prints a note.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from joulie_actuator import blocking_client
from joulie_actuator.deadlines import COMMAND_S
from joulie_actuator.hardware import journal
from joulie_actuator.hardware.gpu.device_calls import PATIENT_OPEN_WAIT_S
from joulie_actuator.hardware.gpu.host import host_gpu_drivers
from joulie_actuator.hardware.journal import JournalHeldError
from joulie_actuator.hardware.journal_file import JournalError
from joulie_actuator.hardware.journaled_writer import JournaledWriter
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.machine_lock import MachineHeldError
from joulie_actuator.log import Level
from joulie_actuator.process import start_settings
from joulie_actuator.protocol import Restore, Subsystem
from joulie_actuator.replies import ErrorReply, Reply, RestoreReport
from joulie_actuator.settings import ActuatorSettings
from joulie_actuator.subsystems import HostSubsystems

IF_UNOWNED: Final = "--if-unowned"
SUMMARY: Final = (
    "Restores the original of every limit that Joulie has set on this machine; values that something else has\n"
    "written since are kept.\n\n"
    f"{IF_UNOWNED}: only limits that no actuator manages. Exits with 0 at once, and changes nothing, while an\n"
    "actuator runs or no limit is managed; for a timer of the host. Takes the environment of the actuator, and needs\n"
    "the node's /sys, /proc and state directory.\n"
)
_DONE, _FAILED = 0, 1

_Request: TypeAlias = Callable[[Subsystem], Reply | HardwareFailure]


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Restore; return the exit code."""
    if_unowned = IF_UNOWNED in arguments
    remaining = [argument for argument in arguments if argument != IF_UNOWNED]
    settings = start_settings("restore", SUMMARY, remaining, os.environ if env is None else env, flags=(IF_UNOWNED,))
    if isinstance(settings, int):
        return settings
    if if_unowned and not _may_be_in_force(Path(settings.state_dir)):
        _print("no limit is managed")
        return _DONE
    try:
        machine = HostSubsystems(
            settings, _no_log, drivers=host_gpu_drivers(settings.host_sys_root, open_wait_s=PATIENT_OPEN_WAIT_S)
        )
    except JournalHeldError as error:
        return _DONE if if_unowned else _request_from_actuator(settings, error)
    try:
        code = _restore(lambda subsystem: machine.executors[subsystem].execute(Restore(subsystem=subsystem)))
        for writer in machine.writer.values():
            if isinstance(writer, JournaledWriter) and writer.journal_problem is not None:
                _print(f"note: {writer.journal_problem}")
        return code
    finally:
        machine.close()


def _may_be_in_force(state_dir: Path) -> bool:
    try:
        return any(journal.peek(state_dir / subsystem) for subsystem in Subsystem)
    except JournalError:
        return True


def _request_from_actuator(settings: ActuatorSettings, error: JournalHeldError) -> int:
    if isinstance(error, MachineHeldError):
        _print(str(error))
        return _FAILED
    _print(f"{error}: requesting the restore from it")
    _print("a controller that is still running will set its caps again; stop it first to prevent that")
    return _restore(
        lambda subsystem: blocking_client.request(settings.actuator_socket, Restore(subsystem=subsystem), COMMAND_S)
    )


def _restore(request: _Request) -> int:
    restored = left = 0
    for subsystem in Subsystem:
        match request(subsystem):
            case RestoreReport(knobs=knobs) as report:
                for knob in knobs:
                    value = "" if knob.value is None else f" = {knob.value}"
                    _print(f"{knob.outcome:<14} {knob.key}{value}{f'  ({knob.message})' if knob.message else ''}")
                left += len(report.left)
                restored += len(knobs) - len(report.left)
            case ErrorReply(message=message) | HardwareFailure(message=message):
                _print(f"{subsystem}: {message}")
                left += 1
            case reply:
                _print(f"{subsystem}: an unexpected reply, {type(reply).__name__}")
                left += 1
    _print(f"{restored} restored, {left} not restored" if left else f"{restored} restored, none left")
    return _FAILED if left else _DONE


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _no_log(_event: str, /, *, level: Level = Level.INFO, **_details: Any) -> None:
    """Drop log lines: this command prints the same as a list."""
