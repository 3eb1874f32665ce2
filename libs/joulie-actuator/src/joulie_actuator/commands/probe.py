"""The command `probe`: the liveness probe of the actuator's container.

Ends within `TIMEOUT_S`, with exit code 0 where the actuator answers and enforces its leases and 1 otherwise, and prints
the reason. A file or a device that hangs makes the actuator degraded, which no restart cures, and not dead. Runs every
few seconds and so imports little.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence

# As in `joulie_actuator.settings`, which would cost more to import than all of this.
DEFAULT_SOCKET = "/run/joulie/actuator.sock"
TIMEOUT_S = 5.0
_REQUEST = b'{"op":"health"}\n'
_ALIVE, _DEAD, _USAGE = 0, 1, 2


def main(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Probe; return the exit code."""
    if arguments:
        from joulie_actuator.program import command  # noqa: PLC0415 - a probe itself imports little

        out, code = (sys.stdout, _ALIVE) if arguments[0] in {"-h", "--help"} else (sys.stderr, _USAGE)
        out.write(f"usage: {command('probe')}\n\nChecks that the actuator at ACTUATOR_SOCKET enforces its leases.\n")
        return code
    path = (os.environ if env is None else env).get("ACTUATOR_SOCKET") or DEFAULT_SOCKET
    try:
        dead, message = _judge(_request(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        dead, message = True, f"the actuator at {path} does not answer: {type(error).__name__}: {error}"
    sys.stdout.write(message + "\n")
    return _DEAD if dead else _ALIVE


def _request(path: str) -> dict[str, dict[str, object]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.connect(path)
        connection.sendall(_REQUEST)
        line = b""
        while not line.endswith(b"\n"):
            received = connection.recv(65536)
            if not received:
                raise ConnectionResetError("connection closed")
            line += received
    subsystems: dict[str, dict[str, object]] = json.loads(line)["subsystems"]
    return subsystems


def _judge(subsystems: dict[str, dict[str, object]]) -> tuple[bool, str]:
    dead = [
        f"{subsystem}: {health['problem']}" for subsystem, health in subsystems.items() if health["problem"] is not None
    ]
    if dead:
        return True, "; ".join(dead)
    degraded = [f"{subsystem}: {why}" for subsystem, health in subsystems.items() for why in health["degraded"]]  # type: ignore[attr-defined]  # a list, or a TypeError
    return False, "; ".join(["alive", *degraded])
