"""Free ports on loopback, chosen before the processes that use them start.

Ports are taken from below the kernel's ephemeral range, so that no outgoing connection can take one between choice and
use. All processes of a user take them in turn from one number in a file, so that two of them never choose the same port
within thousands of choices. A listener of anybody else can still take one: the process that needs the port then fails
with "address already in use", and the caller starts it again with other ports (see `DevCluster`).
"""

import fcntl
import os
import random
import socket
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

LOOPBACK = "127.0.0.1"

_FIRST, _LAST = 20_000, 32_767
_COUNT: Final = _LAST - _FIRST + 1
_ATTEMPTS = 200


def free_port() -> int:
    """Return a TCP port without a listener, which no process of this user was given lately.

    Raises:
        OSError: no free port was found, or the file of the last port cannot be locked or written.
    """
    # O_NOFOLLOW: the directory is everybody's, and a link there would have this user write to what it names.
    descriptor = os.open(_last_port_file(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        port = _port_of(file.read(16))
        for _ in range(_ATTEMPTS):
            port = _FIRST + (port + 1 - _FIRST) % _COUNT
            if is_free(port):
                file.seek(0)
                file.write(b"%d" % port)
                file.truncate()
                return port
    raise OSError(f"no free port on {LOOPBACK} between {_FIRST} and {_LAST} in {_ATTEMPTS} attempts")


def is_free(port: int) -> bool:
    """Return whether a listener could bind the port now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As servers do: a connection of an earlier listener in TIME_WAIT does not block a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _last_port_file() -> Path:
    return Path(tempfile.gettempdir()) / f"joulie-ports-{os.getuid()}"


def _port_of(content: bytes) -> int:
    """Return the port that a file names; a random one for a new file and for content that is no port of the range."""
    if content.isdigit() and _FIRST <= int(content) <= _LAST:
        return int(content)
    return random.randint(_FIRST, _LAST)  # noqa: S311 - not a secret
