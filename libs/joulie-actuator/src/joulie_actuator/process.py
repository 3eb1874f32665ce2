"""The command `actuator`: the privileged process.

Restores what a killed predecessor left before it executes the first request, and everything on SIGTERM: exit code 0
where no limit is managed any more, 1 otherwise, 2 on wrong usage. A thread that fails ends the process, so that its
supervisor restarts it; the next start restores. Has no network access, see `confine`; a warning is logged where the
machine does not allow to drop it.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from joulie_actuator import program
from joulie_actuator.confine import FAMILIES, confine
from joulie_actuator.hardware import descriptors
from joulie_actuator.hardware.journal import JournalHeldError
from joulie_actuator.log import Level, write_line
from joulie_actuator.server import Admission, Server
from joulie_actuator.settings import ActuatorSettings, ActuatorSettingsError, help_text, read_settings
from joulie_actuator.subsystems import HostSubsystems

SUMMARY: Final = "Applies power caps and throttles on this node for the controller, and restores the originals."
_DONE, _FAILED, _USAGE = 0, 1, 2
#: How long a start waits while another process holds the locks: `restore`, run by hand or by the host's timer, takes
#: seconds, and an actuator that is being replaced takes ACTUATOR_STOP_GRACE at most.
CLAIM_S: Final = 30.0
_CLAIM_POLL_S: Final = 0.2
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; return the exit code."""
    settings = start_settings("actuator", SUMMARY, arguments, os.environ if env is None else env)
    if isinstance(settings, int):
        return settings
    _close_network()
    descriptors.reserve()
    threading.excepthook = _exit_on_thread_failure
    # Received by `sigwait` below; threads inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    machine = claim(settings)
    if machine is None:
        return _FAILED
    try:
        return _serve(machine, settings)
    finally:
        machine.close()


def start_settings(
    command: str, summary: str, arguments: Sequence[str], env: Mapping[str, str], flags: Sequence[str] = ()
) -> ActuatorSettings | int:
    """Read the settings of a subcommand; return an exit code where it ends here, as for `--help`.

    The subcommand has removed its own `flags` from `arguments`; they are for the message.
    """
    usage = program.command(command)
    known = ["--help", *flags]
    if list(arguments) in (["-h"], ["--help"]):
        sys.stdout.write(f"usage: {usage} [{'] ['.join(known)}]\n\n{summary}\n\n{help_text()}")
        return _DONE
    if arguments:
        sys.stderr.write(f"{usage} takes no arguments except {', '.join(known)}; settings come from the environment\n")
        return _USAGE
    try:
        return read_settings(env)
    except ActuatorSettingsError as error:
        sys.stderr.write(f"{usage} cannot start:\n  " + str(error).replace("\n", "\n  ") + "\n")
        return _USAGE


def claim(settings: ActuatorSettings) -> HostSubsystems | None:
    """Lock the machine, waiting for a `restore` or a stopping actuator; None where another process keeps the lock."""
    until = time.monotonic() + CLAIM_S
    reported = False
    while True:
        try:
            return HostSubsystems(settings, write_line)
        except JournalHeldError as error:
            if time.monotonic() >= until:
                write_line("state directory is locked by another process", level=Level.ERROR, error=str(error))
                return None
            if not reported:
                write_line("waiting for another process to release the lock", for_s=CLAIM_S, error=str(error))
                reported = True
        if (received := signal.sigtimedwait(_SIGNALS, _CLAIM_POLL_S)) is not None:
            write_line("stopped while waiting", signal=signal.Signals(received.si_signo).name)
            return None


def _close_network() -> None:
    """Drop network access before anything is started; where that fails, restoring is worth more than exiting."""
    why_not = confine()
    if why_not is None:
        write_line("network closed", sockets=[family.name for family in FAMILIES])
    else:
        write_line("network not closed", level=Level.WARNING, error=why_not)


def _serve(machine: HostSubsystems, settings: ActuatorSettings) -> int:
    for executor in machine.executors.values():
        executor.start()
    admission = Admission(settings.actuator_controller_uid, settings.actuator_controller_gid)
    try:
        server = Server(Path(settings.actuator_socket), machine.executors, admission, write_line)
    except OSError as error:
        write_line("cannot listen", level=Level.ERROR, socket=settings.actuator_socket, error=str(error))
        return _FAILED
    threading.Thread(target=server.serve_forever, name="listen", daemon=True).start()
    write_line("listening", socket=settings.actuator_socket, pid=os.getpid(), sys_root=settings.host_sys_root)
    number = signal.sigwait(_SIGNALS)
    write_line("stopping", signal=signal.Signals(number).name)
    Path(settings.actuator_socket).unlink(missing_ok=True)  # connected clients get an error from now on
    return _end(machine, settings.actuator_stop_grace)


def _end(machine: HostSubsystems, grace_s: float) -> int:
    """Restore all subsystems at the same time: one that hangs must not use up the time of another."""
    deadline = time.monotonic() + grace_s
    done: dict[str, bool] = {}

    def stop(name: str) -> None:
        done[name] = executors[name].stop(deadline)

    executors = {str(subsystem): executor for subsystem, executor in machine.executors.items()}
    threads = [threading.Thread(target=stop, args=(name,), name=f"{name}-end", daemon=True) for name in executors]
    for thread, name in zip(threads, executors, strict=True):
        try:
            thread.start()
        except RuntimeError:  # the limit of processes is reached
            stop(name)
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()) + 1.0)
    left = [name for name in executors if not done.get(name)]
    write_line("stopped", level=Level.ERROR if left else Level.INFO, not_restored=left)
    return _FAILED if left else _DONE


def _exit_on_thread_failure(error: threading.ExceptHookArgs) -> None:
    name = error.thread.name if error.thread else "?"
    write_line("thread failed", level=Level.ERROR, thread=name, error=f"{error.exc_type.__name__}: {error.exc_value}")
    os._exit(_FAILED)
