"""State file of a running cluster, with which other processes inspect and stop it.

A process is identified by its pid and its start time, so that a pid that was reused is never signalled.
"""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from joulie_devcluster.errors import StateError

STATE_FILE = "cluster.json"

_POLL_S = 0.05
_START_TIME_FIELD = 22
_STATE_FIELD = 3


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """Identity of one process.

    Attributes:
        name: name in messages.
        pid: its pid.
        started_ticks: start time in clock ticks since boot; -1 if it had already exited when it was recorded.
        log: path of its log; empty if it has none.
    """

    name: str
    pid: int
    started_ticks: int
    log: str = ""

    @classmethod
    def of(cls, name: str, pid: int, log: Path | None = None) -> Self:
        """Return the record of a process. One that has already exited is never alive."""
        ticks = start_ticks(pid)
        return cls(name, pid, -1 if ticks is None else ticks, "" if log is None else str(log))

    @property
    def alive(self) -> bool:
        """Whether this process, not another one with its pid, is running."""
        return start_ticks(self.pid) == self.started_ticks

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process. Do nothing if it has exited."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Checked after opening: the descriptor keeps referring to the same process.
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Recorded state of a cluster.

    Attributes:
        name: name of the cluster.
        supervisor: the process that started all others.
        processes: all other processes.
        server: URL of the API server; empty until its port is chosen.
        kubeconfig: path of the administrator's kubeconfig.
        extender_port: port on which kube-scheduler expects its extender; None if it has none.
        ready: whether the whole cluster is up.
    """

    name: str
    supervisor: ProcessRecord
    processes: tuple[ProcessRecord, ...] = ()
    server: str = ""
    kubeconfig: str = ""
    extender_port: int | None = None
    ready: bool = False

    def write(self, directory: Path) -> None:
        """Write the state file atomically: readers see the old or the new state."""
        temporary = directory / f".{STATE_FILE}"
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n")
        temporary.replace(directory / STATE_FILE)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return the state of the cluster in `directory`, or None if there is none.

        Raises:
            StateError: the file is not the state file of a cluster.
        """
        try:
            content = json.loads((directory / STATE_FILE).read_text())
            supervisor = ProcessRecord(**content.pop("supervisor"))
            processes = tuple(ProcessRecord(**record) for record in content.pop("processes"))
            return cls(supervisor=supervisor, processes=processes, **content)
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StateError(f"{directory / STATE_FILE} is not a cluster's state file: {error}") from error


def start_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if it does not exist or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the command may contain spaces and parentheses; the fields after it contain neither.
    fields = stat.rpartition(")")[2].split()
    zombie = fields[_STATE_FIELD - 3] in {"Z", "X"}
    return None if zombie else int(fields[_START_TIME_FIELD - 3])


def stop_processes(directory: Path, *, grace_s: float = 30.0) -> bool:
    """Stop every process of the cluster in `directory`.

    The supervisor gets SIGTERM first and stops the others in order; processes that are left after `grace_s` seconds, or
    that a killed supervisor left behind, get SIGKILL by pid. A supervisor that stops by itself also removes the files.

    Returns:
        False if there is no cluster in `directory`.

    Raises:
        StateError: some processes are still alive after SIGKILL and `grace_s` seconds.
    """
    state = ClusterState.read(directory)
    if state is None:
        return False
    state.supervisor.signal(signal.SIGTERM)
    state.supervisor.signal(signal.SIGCONT)
    if not _wait_gone((state.supervisor,), grace_s):
        state.supervisor.signal(signal.SIGKILL)
    # Read again: the supervisor may have added processes until it exited.
    remaining = (ClusterState.read(directory) or state).processes
    for record in remaining:
        record.signal(signal.SIGKILL)
    if not _wait_gone((state.supervisor, *remaining), grace_s):
        raise StateError(f"processes of {directory} do not exit: {[each.pid for each in remaining if each.alive]}")
    return True


def _wait_gone(records: tuple[ProcessRecord, ...], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while any(record.alive for record in records):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
