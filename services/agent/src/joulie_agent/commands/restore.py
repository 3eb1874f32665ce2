"""`joulie-agent restore`: give everything back, by hand or from a hook that uninstalls.

Promises exit code 0 where nothing of ours is left in the hardware, 1 where something is or where that cannot be known,
2 where it was started wrongly. Works without an actuator, and through one where one runs; a controller that is still
there will then put its caps back in force, and the command says so.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from joulie_agent.actuator import blocking_client
from joulie_agent.actuator.deadlines import COMMAND_S
from joulie_agent.actuator.log import Level
from joulie_agent.actuator.process import start_settings
from joulie_agent.actuator.protocol import ErrorReply, Reply, Restore, RestoreReport, Subsystem
from joulie_agent.actuator.settings import ActuatorSettings
from joulie_agent.actuator.subsystems import HostSubsystems
from joulie_agent.hardware import journal
from joulie_agent.hardware.gpu.device_calls import PATIENT_OPEN_WAIT_S
from joulie_agent.hardware.gpu.host import host_gpu_drivers
from joulie_agent.hardware.journal import JournalError, JournalHeldError
from joulie_agent.hardware.journaled_writer import JournaledWriter
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.hardware.machine_lock import MachineHeldError

IF_UNOWNED: Final = "--if-unowned"
SUMMARY: Final = (
    "Gives back every limit that the agent has set on this machine and that nobody else has changed since.\n\n"
    f"{IF_UNOWNED}: only where nobody answers for them. Exits with 0 at once, and changes nothing, while an actuator\n"
    "runs or nothing is in force; for a timer of the host, whatever has become of the actuator. Takes the actuator's\n"
    "environment, and the node's /sys, /proc and state directory.\n"
)
_DONE, _FAILED = 0, 1

_Ask: TypeAlias = Callable[[Subsystem], Reply | HardwareFailure]


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Give back; returns the exit code."""
    if_unowned = IF_UNOWNED in arguments
    others = [argument for argument in arguments if argument != IF_UNOWNED]
    settings = start_settings("restore", SUMMARY, others, os.environ if env is None else env, flags=(IF_UNOWNED,))
    if isinstance(settings, int):
        return settings
    if if_unowned and not _may_be_in_force(Path(settings.state_dir)):
        _say("nothing is in force")
        return _DONE
    try:
        machine = HostSubsystems(settings, _mute, drivers=host_gpu_drivers(open_wait_s=PATIENT_OPEN_WAIT_S))
    except JournalHeldError as error:
        return _DONE if if_unowned else _ask_holder(settings, error)
    try:
        code = _give_back(lambda subsystem: machine.executors[subsystem].execute(Restore(subsystem=subsystem)))
        for writer in machine.writer.values():
            if isinstance(writer, JournaledWriter) and writer.journal_problem is not None:
                _say(f"note: {writer.journal_problem}")
        return code
    finally:
        machine.close()


def _may_be_in_force(state_dir: Path) -> bool:
    try:
        return any(journal.peek(state_dir / subsystem) for subsystem in Subsystem)
    except JournalError:
        return True


def _ask_holder(settings: ActuatorSettings, error: JournalHeldError) -> int:
    if isinstance(error, MachineHeldError):
        _say(str(error))
        return _FAILED
    _say(f"{error}: asking it to give back")
    _say("a controller that is still there will set its caps again; stop it first to be rid of them")
    return _give_back(
        lambda subsystem: blocking_client.request(settings.actuator_socket, Restore(subsystem=subsystem), COMMAND_S)
    )


def _give_back(ask: _Ask) -> int:
    restored = left = 0
    for subsystem in Subsystem:
        match ask(subsystem):
            case RestoreReport(knobs=knobs) as report:
                for knob in knobs:
                    value = "" if knob.value is None else f" = {knob.value}"
                    _say(f"{knob.outcome:<14} {knob.key}{value}{f'  ({knob.message})' if knob.message else ''}")
                left += len(report.left)
                restored += len(knobs) - len(report.left)
            case ErrorReply(message=message) | HardwareFailure(message=message):
                _say(f"{subsystem}: {message}")
                left += 1
            case reply:
                _say(f"{subsystem}: an unexpected reply, {type(reply).__name__}")
                left += 1
    _say(f"{restored} given back, {left} not" if left else f"{restored} given back, nothing is left")
    return _FAILED if left else _DONE


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _mute(_event: str, /, *, level: Level = Level.INFO, **_details: Any) -> None:
    """What the executors tell is in the list that this command prints."""
