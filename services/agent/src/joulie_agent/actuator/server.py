"""The actuator's socket: who may speak, one line in, one line out.

Promises that nobody is heard but root, this process's own user and the controller, whom the kernel names
(SO_PEERCRED); and that a line which is no request, or one whose execution fails in a way that nobody foresaw, costs an
answer that says so and not the server. Each connection has a thread, since a request may wait for hardware.
"""

import os
import socket
import socketserver
import struct
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_agent.actuator.lane import Lane
from joulie_agent.actuator.log import Level, Log
from joulie_agent.actuator.protocol import (
    LINE_LIMIT,
    Fault,
    Part,
    ProtocolError,
    Reply,
    decode_request,
    encode,
    part_of,
)

#: A connection that is silent for so long is closed; a controller that ticks slower connects again.
IDLE_S: Final = 600.0
_CREDENTIALS: Final = struct.Struct("3i")
_ROOT: Final = 0
#: Owner and group may speak.
_SOCKET_UMASK: Final = 0o117


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom the kernel says is at the other end."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is heard, besides root and the user that this process runs as."""

    uid: int
    gid: int

    def admits(self, peer: Peer) -> bool:
        """Whether a peer is heard."""
        return peer.uid in {_ROOT, os.geteuid()} or (peer.uid == self.uid and peer.gid == self.gid)


class Server(socketserver.ThreadingUnixStreamServer):
    """Serves lanes on a socket until `shutdown`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, path: Path, lanes: Mapping[Part, Lane], admission: Admission, log: Log) -> None:
        """Bind the socket; a file that is in its place is left from before, since the journals are ours.

        Raises:
            OSError: it cannot be bound.
        """
        self.lanes = lanes
        self.admission = admission
        self.log = log
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        umask = os.umask(_SOCKET_UMASK)
        try:
            super().__init__(str(path), _Connection)
        finally:
            os.umask(umask)
        if os.geteuid() == _ROOT:
            os.chown(path, -1, admission.gid)


class _Connection(socketserver.StreamRequestHandler):
    """One peer."""

    server: Server
    timeout = IDLE_S

    def handle(self) -> None:
        """Answer requests until the peer leaves."""
        peer = _peer(self.connection)
        if not self.server.admission.admits(peer):
            self.server.log("peer turned away", level=Level.WARNING, pid=peer.pid, uid=peer.uid, gid=peer.gid)
            return
        try:
            while line := self.rfile.readline(LINE_LIMIT):
                self.wfile.write(encode(self._answer(line, peer)))
                if not line.endswith(b"\n"):
                    return  # cut off, or longer than any request: what follows would be read as another
        except (TimeoutError, ConnectionError):
            return  # silent, or gone before its answer: the lease says what becomes of what it wanted

    def _answer(self, line: bytes, peer: Peer) -> Reply:
        try:
            request = decode_request(line)
        except ProtocolError as error:
            self.server.log("not a request", level=Level.WARNING, pid=peer.pid, uid=peer.uid, error=str(error))
            return Fault(message=str(error))
        try:
            return self.server.lanes[part_of(request)].ask(request)
        except Exception as error:  # noqa: BLE001 - told with its trace, and answered
            trace = traceback.format_exc()
            self.server.log("request failed", level=Level.ERROR, request=type(request).__name__, trace=trace)
            return Fault(message=f"{type(error).__name__}: {error}")


def _peer(connection: socket.socket) -> Peer:
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)))
