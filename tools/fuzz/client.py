"""The sender: pipelined requests for speed, connections of their own for what breaks them."""

import re
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

HOST = "127.0.0.1"
_TIMEOUT_S = 20.0
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5]\d\d) ")
_QUIET_S = 0.05


class Connection:
    """One keep-alive connection, on which several requests may be under way."""

    def __init__(self, port: int, *, timeout_s: float = _TIMEOUT_S) -> None:
        self._socket = socket.create_connection((HOST, port), timeout_s)
        self._rest = b""

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def exchange(self, requests: Sequence[bytes]) -> list[int]:
        """Send complete requests and return the status of each answer.

        Raises:
            ConnectionError: the server closed the connection before the last answer.
        """
        self._socket.sendall(b"".join(requests))
        return [self._read_answer() for _ in requests]

    def _read_answer(self) -> int:
        head = self._read_until(b"\r\n\r\n").lower()
        status = int(head[9:12])
        if b"transfer-encoding: chunked" in head:
            while size := int(self._read_until(b"\r\n"), 16):
                self._read(size + 2)
            self._read(2)
        else:
            self._read(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        return status

    def _read_until(self, end: bytes) -> bytes:
        while (found := self._rest.find(end)) < 0:
            self._receive()
        return self._read(found + len(end))

    def _read(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._receive()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def _receive(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._rest += data


def send_raw(port: int, raw: bytes, *, leave: bool, quiet_s: float = _QUIET_S) -> Counter[str]:
    """Send bytes on a connection of their own and return the answers by status.

    Args:
        port: of the server.
        raw: the bytes.
        leave: end the sending side at once, else wait for answers until none has come for a while.
        quiet_s: that while, in seconds; the server may end it by closing the connection.
    """
    received = b""
    with socket.create_connection((HOST, port), _TIMEOUT_S) as connection, suppress(ConnectionError):
        connection.sendall(raw)
        if leave:
            connection.shutdown(socket.SHUT_WR)
        else:
            connection.settimeout(quiet_s)
        try:
            while data := connection.recv(1 << 16):
                received += data
        except TimeoutError:
            if leave:
                raise
    return Counter(_STATUS.findall(received.decode(errors="replace")) or ["none"])


class SlowClients:
    """Connections that stay open and send a byte now and then."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._number = number
        self._open: list[socket.socket] = []
        #: Connections that the server has closed.
        self.ended = 0

    def step(self, start: bytes) -> None:
        """Open another connection that begins with `start` while there are too few, and send one byte on each."""
        if len(self._open) < self._number:
            fresh = socket.create_connection((HOST, self._port), _TIMEOUT_S)
            fresh.sendall(start)
            fresh.setblocking(False)
            self._open.append(fresh)
        for each in list(self._open):
            if self._is_closed(each):
                each.close()
                self._open.remove(each)
                self.ended += 1

    @staticmethod
    def _is_closed(connection: socket.socket) -> bool:
        try:
            connection.send(b"a")
            return not connection.recv(1 << 16)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close all connections."""
        for each in self._open:
            each.close()
