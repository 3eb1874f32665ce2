"""What a running cluster writes down about itself, so that another process can look at it and stop it.

A process is known by its pid and the time it started: a pid that meanwhile belongs to somebody else is never signalled.
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
    """One process: `started_ticks` is its start in clock ticks since boot; `log` its file, empty if it has none."""

    name: str
    pid: int
    started_ticks: int
    log: str = ""

    @classmethod
    def of(cls, name: str, pid: int, log: Path | None = None) -> Self:
        """The record of a process that runs (or just ended, then its start is -1 and it never counts as alive)."""
        ticks = start_ticks(pid)
        return cls(name, pid, -1 if ticks is None else ticks, "" if log is None else str(log))

    @property
    def alive(self) -> bool:
        """Whether exactly this process still runs."""
        return start_ticks(self.pid) == self.started_ticks

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to exactly this process; nothing happens when it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            # Asked after opening: from here on the descriptor cannot come to mean another process.
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster: its supervisor (the process that owns all others), its processes, and how to reach it."""

    name: str
    supervisor: ProcessRecord
    processes: tuple[ProcessRecord, ...] = ()
    server: str = ""
    kubeconfig: str = ""
    extender_port: int | None = None
    ready: bool = False

    def write(self, directory: Path) -> None:
        """Write it whole: a reader sees the old or the new state."""
        temporary = directory / f".{STATE_FILE}"
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n")
        temporary.replace(directory / STATE_FILE)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """The state of the cluster in `directory`, None where there is none; StateError if the file is not ours."""
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
    """When a process started, in clock ticks since boot; None where there is none or only its exit status is left."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name may contain spaces and parentheses; the fields after it do not.
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
    # Read again: the list may have grown until the supervisor was gone.
    remaining = (ClusterState.read(directory) or state).processes
    for record in remaining:
        record.signal(signal.SIGKILL)
    if not _wait_gone((state.supervisor, *remaining), grace_s):
        raise StateError(f"processes of {directory} do not end: {[each.pid for each in remaining if each.alive]}")
    return True


def _wait_gone(records: tuple[ProcessRecord, ...], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while any(record.alive for record in records):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
