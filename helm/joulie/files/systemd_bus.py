# ruff: noqa: INP001 - a file of the chart, not of a package
"""Client for the few requests to the node's systemd that the watchdog's installer makes, over `/run/systemd/private`.

Speaks D-Bus on the socket that `systemctl` uses as root when no bus runs, so that it needs no host process namespace,
no shell and no program of the node. Returns one answer per call, or raises systemd's own error. The caller must be root
and needs no capability: systemd checks the user of the peer, not its capabilities. Standard library only.

Source: D-Bus specification, "Message Protocol"; org.freedesktop.systemd1(5); systemd, sd_bus_query_sender_privilege.
"""

import socket
import struct
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_MANAGER: Final = ("/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1
_CALL, _RETURN, _ERROR = 1, 2, 3
# Fields of a header.
_PATH, _INTERFACE, _MEMBER, _ERROR_NAME, _REPLY_SERIAL, _DESTINATION, _SIGNATURE = 1, 2, 3, 4, 5, 6, 8
_FIXED: Final = struct.Struct("<4cIII")

Value = str | int


class SystemdError(Exception):
    """systemd cannot be reached or refused a request; carries its message."""


class Systemd:
    """Connection to the service manager; a context manager."""

    def __init__(self, path: Path) -> None:
        self._serial = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_TIMEOUT_S)
        try:
            self._socket.connect(str(path))
            # systemd takes the user from the kernel; the text repeats it: "0", in hexadecimal.
            self._socket.sendall(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n")
            answer = self._line()
        except OSError as error:
            self._socket.close()
            raise SystemdError(f"{path}: {error}") from error
        if not answer.startswith(b"OK "):
            self._socket.close()
            raise SystemdError(f"{path}: {answer.decode(errors='replace').strip()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def reload(self) -> None:
        """Reload the unit files."""
        self._call(*_MANAGER, "Reload")

    def start(self, unit: str) -> None:
        """Start a unit, without waiting for it."""
        self._call(*_MANAGER, "StartUnit", unit, "replace")

    def restart(self, unit: str) -> None:
        """Restart a unit, or start it if it is not active."""
        self._call(*_MANAGER, "RestartUnit", unit, "replace")

    def stop(self, unit: str) -> None:
        """Stop a unit."""
        self._call(*_MANAGER, "StopUnit", unit, "replace")

    def forget_failure(self, unit: str) -> None:
        """Reset the failed state of a unit."""
        self._call(*_MANAGER, "ResetFailedUnit", unit)

    def property(self, unit: str, name: str, interface: str = "Unit") -> Value:
        """Return a property of a unit, loading the unit if necessary."""
        path = str(self._call(*_MANAGER, "LoadUnit", unit)[0])
        named = f"org.freedesktop.systemd1.{interface}"
        return self._call(path, "org.freedesktop.DBus.Properties", "Get", named, name)[0]

    def wait_for(self, unit: str, states: Collection[str], timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until a unit is in one of these states."""
        deadline = time.monotonic() + timeout_s
        while (state := self.property(unit, "ActiveState")) not in states:
            if time.monotonic() >= deadline:
                raise SystemdError(f"{unit} is still {state} after {timeout_s:g} s")
            time.sleep(_POLL_S)

    def run(self, unit: str, timeout_s: float) -> None:
        """Start a oneshot unit and wait for its end; a run in progress counts as this one."""
        # Starting queues a job: until that runs, the unit shows the state of its last run.
        ended = "InactiveEnterTimestampMonotonic"
        before = self.property(unit, ended)
        self.start(unit)
        deadline = time.monotonic() + timeout_s
        while self.property(unit, ended) == before:
            if time.monotonic() >= deadline:
                raise SystemdError(f"{unit} has not ended after {timeout_s:g} s")
            time.sleep(_POLL_S)

    def _call(self, path: str, interface: str, member: str, *arguments: str) -> list[Value]:
        self._serial += 1
        fields = [(_PATH, "o", path), (_INTERFACE, "s", interface), (_MEMBER, "s", member)]
        fields += [(_DESTINATION, "s", "org.freedesktop.systemd1")]
        fields += [(_SIGNATURE, "g", "s" * len(arguments))] if arguments else []
        header, body = b"", b""
        for code, kind, value in fields:
            header = _padded(header, 8) + bytes([code]) + _text("g", kind)
            header = _padded(header, 4) + _text(kind, value) if kind != "g" else header + _text(kind, value)
        for argument in arguments:
            body = _padded(body, 4) + _text("s", argument)
        fixed = _FIXED.pack(b"l", bytes([_CALL]), b"\0", b"\1", len(body), self._serial, len(header))
        try:
            self._socket.sendall(_padded(fixed + header, 8) + body)
            return self._answer(member)
        except OSError as error:
            raise SystemdError(f"{member}: {error}") from error

    def _answer(self, member: str) -> list[Value]:
        while True:
            start = self._exactly(_FIXED.size)
            order, kind, _, _, body_size, _, header_size = _FIXED.unpack(start)
            if order != b"l":
                raise SystemdError(f"{member}: unexpected byte order")
            header = self._exactly(header_size + -header_size % 8)[:header_size]
            body = self._exactly(body_size)
            fields = _fields(header)
            # Signals arrive on the same connection.
            if fields.get(_REPLY_SERIAL) != self._serial:
                continue
            values = _values(str(fields.get(_SIGNATURE, "")), body)
            if kind[0] == _ERROR:
                raise SystemdError(f"{member}: {fields.get(_ERROR_NAME)}: {values[0] if values else ''}")
            if kind[0] == _RETURN:
                return values

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self._exactly(1)
        return line

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._socket.recv(size - len(found))
            if not part:
                raise ConnectionResetError("connection closed by systemd")
            found += part
        return found


def _padded(data: bytes, size: int) -> bytes:
    return data + b"\0" * (-len(data) % size)


def _text(kind: str, value: str) -> bytes:
    encoded = value.encode()
    size = bytes([len(encoded)]) if kind == "g" else struct.pack("<I", len(encoded))
    return size + encoded + b"\0"


def _read(kind: str, data: bytes, at: int) -> tuple[Value, int]:
    """Return one value of a basic type or a variant, and the offset of the next."""
    if kind == "v":
        inner, at = _read("g", data, at)
        return _read(str(inner), data, at)
    if kind == "g":
        end = at + 1 + data[at]
        return data[at + 1 : end].decode(), end + 1
    if kind == "t":
        at += -at % 8
        return int(struct.unpack_from("<Q", data, at)[0]), at + 8
    at += -at % 4
    (number,) = struct.unpack_from("<i" if kind == "i" else "<I", data, at)
    if kind in ("s", "o"):
        return data[at + 4 : at + 4 + number].decode(), at + 4 + number + 1
    if kind in ("u", "i", "b"):
        return number, at + 4
    raise SystemdError(f"unexpected type {kind!r}")


def _fields(header: bytes) -> dict[int, Value]:
    found: dict[int, Value] = {}
    at = 0
    while at < len(header):
        at += -at % 8
        code = header[at]
        found[code], at = _read("v", header, at + 1)
    return found


def _values(signature: str, body: bytes) -> list[Value]:
    found = []
    at = 0
    for kind in signature:
        value, at = _read(kind, body, at)
        found.append(value)
    return found
