"""The actuator's socket: one line of JSON per request, one per reply.

Guarantees that only root, the user of this process and the controller are served, by the identity that the kernel
reports (SO_PEERCRED); and that an invalid line, or a request that raises, gets an error reply and does not end the
server. Each connection has a thread, since a request may wait for hardware. The number of threads is limited, and none
takes a file descriptor that restoring needs.
"""

import math
import os
import socket
import socketserver
import struct
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware import descriptors
from joulie_actuator.log import Level, Log
from joulie_actuator.protocol import (
    LINE_LIMIT,
    CheckHealth,
    ProtocolError,
    Subsystem,
    decode_request,
    encode,
    subsystem_of,
)
from joulie_actuator.replies import ErrorReply, HealthReport, Reply

#: A connection without a request for so long is closed; a controller with longer ticks connects again.
IDLE_S: Final = 600.0
#: Connections of one user (a controller has one per subsystem, a probe or a command one), and of all users. Each has a
#: thread.
MOST_PER_USER: Final = 16
MOST_CONNECTIONS: Final = 32
#: Between two log lines about the same problem with connections.
LOG_INTERVAL_S: Final = 60.0
_NOT_ACCEPTED_PAUSE_S: Final = 0.2
_CREDENTIALS: Final = struct.Struct("3i")
_ROOT: Final = 0
#: Owner and group may connect.
_SOCKET_UMASK: Final = 0o117


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end, as the kernel reports it."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Client that is served by its user and group, besides root and the user that this process runs as."""

    uid: int
    gid: int

    def admits(self, peer: Peer) -> bool:
        """Return whether a peer is served."""
        return peer.uid in {_ROOT, os.geteuid()} or (peer.uid == self.uid and peer.gid == self.gid)


class RateLimited:
    """A log that writes an event at most once a minute, with the number of suppressed lines."""

    def __init__(self, log: Log, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._suppressed: Counter[str] = Counter()
        self._turn = threading.Lock()

    def __call__(self, event: str, /, *, level: Level = Level.WARNING, **details: object) -> None:
        """Log an event, or count it."""
        now = self._clock()
        with self._turn:
            if now - self._logged_at.get(event, -math.inf) < LOG_INTERVAL_S:
                self._suppressed[event] += 1
                return
            self._logged_at[event] = now
            suppressed = self._suppressed.pop(event, 0)
        self._log(event, level=level, suppressed=suppressed, **details)


class Server(socketserver.UnixStreamServer):
    """Serves the executors on a socket until `shutdown`."""

    request_queue_size = 64

    def __init__(
        self, path: Path, executors: Mapping[Subsystem, SubsystemExecutor], admission: Admission, log: Log
    ) -> None:
        """Bind the socket, in place of a file that an earlier actuator left: this process holds the locks.

        Raises:
            OSError: it cannot be bound.
        """
        self.executors = executors
        self.admission = admission
        self.log = log
        self.rate_limited = RateLimited(log)
        #: Open connections by user; and what guards them.
        self._open: Counter[int] = Counter()
        self._counting = threading.Lock()
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        umask = os.umask(_SOCKET_UMASK)
        try:
            super().__init__(str(path), _Connection)
        finally:
            os.umask(umask)
        if os.geteuid() == _ROOT:
            os.chown(path, -1, admission.gid)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection, unless file descriptors are short: the last ones are for restoring."""
        try:
            if descriptors.refill():
                return super().get_request()
            error_text = "the reserve is in use"
        except OSError as error:
            error_text = str(error)
        self.rate_limited("connection not accepted", error=error_text)
        time.sleep(_NOT_ACCEPTED_PAUSE_S)  # it stays in the queue, and the socket ready
        raise BlockingIOError(error_text)  # passed over by `socketserver`

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its own thread, if its peer is admitted and has not too many."""
        peer = peer_of(request)
        if not self.admission.admits(peer):
            self.rate_limited("connection rejected", pid=peer.pid, uid=peer.uid, gid=peer.gid)
        elif not self._enter(peer.uid):
            self.rate_limited("connection limit reached", pid=peer.pid, uid=peer.uid)
        else:
            try:
                threading.Thread(target=self._serve, args=(request, client_address, peer), daemon=True).start()
            except RuntimeError as error:  # the limit of processes is reached
                self._leave(peer.uid)
                self.rate_limited("connection not served", error=str(error), pid=peer.pid, uid=peer.uid)
            else:
                return
        self.shutdown_request(request)

    def _serve(self, request: Any, client_address: Any, peer: Peer) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception as error:  # noqa: BLE001 - one connection, and logged
            self.rate_limited("connection failed", pid=peer.pid, uid=peer.uid, error=str(error))
        finally:
            self.shutdown_request(request)
            self._leave(peer.uid)

    def _enter(self, uid: int) -> bool:
        with self._counting:
            if self._open[uid] >= MOST_PER_USER or self._open.total() >= MOST_CONNECTIONS:
                return False
            self._open[uid] += 1
            return True

    def _leave(self, uid: int) -> None:
        with self._counting:
            self._open[uid] -= 1


class _Connection(socketserver.StreamRequestHandler):
    """The connection of one peer."""

    server: Server
    timeout = IDLE_S

    def handle(self) -> None:
        """Answer requests until the peer disconnects."""
        peer = peer_of(self.connection)
        try:
            while line := self.rfile.readline(LINE_LIMIT):
                self.wfile.write(encode(self._answer(line, peer)))
                if not line.endswith(b"\n"):
                    return  # cut off, or longer than any request: what follows would be read as another
        except (TimeoutError, ConnectionError):
            return  # idle, or disconnected before the reply: the lease ends what it has set

    def _answer(self, line: bytes, peer: Peer) -> Reply:
        try:
            request = decode_request(line)
        except ProtocolError as error:
            self.server.rate_limited("invalid request", pid=peer.pid, uid=peer.uid, error=str(error))
            return ErrorReply(message=str(error))
        if isinstance(request, CheckHealth):
            return HealthReport(
                subsystems={str(subsystem): executor.health() for subsystem, executor in self.server.executors.items()}
            )
        try:
            return self.server.executors[subsystem_of(request)].execute(request)
        except Exception as error:  # noqa: BLE001 - logged with its trace, and answered
            trace = traceback.format_exc()
            self.server.rate_limited("request failed", level=Level.ERROR, request=type(request).__name__, trace=trace)
            return ErrorReply(message=f"{type(error).__name__}: {error}")


def peer_of(connection: socket.socket) -> Peer:
    """Return the process at the other end of a UNIX socket."""
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)))
