"""Free ports on loopback, chosen before the processes that use them start.

Ports are taken from below the kernel's ephemeral range, so that no outgoing connection can take one between choice and
use. All processes of a user take them in turn from one number in a file of Joulie's cache, so that two of them never
choose the same port within thousands of choices. A listener of anybody else can still take one: the process that needs
the port then fails with "address already in use", and the caller starts it again with other ports (see `DevCluster`).
"""

import fcntl
import os
import random
import socket
from contextlib import closing
from typing import Final

from joulie_devcluster.host.paths import cache_home

LOOPBACK = "127.0.0.1"

_FIRST, _LAST = 20_000, 32_767
_COUNT: Final = _LAST - _FIRST + 1
_ATTEMPTS = 200
_LAST_PORT: Final = "last-port"


def free_port() -> int:
    """Return a TCP port without a listener, which no process of this user was given lately.

    Raises:
        OSError: no free port was found, or the file of the last port cannot be locked or written.
    """
    path = cache_home() / _LAST_PORT
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not "a+b", with which every write is one to the end.
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
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


def _port_of(content: bytes) -> int:
    """Return the port that a file names; a random one for a new file and for content that is no port of the range."""
    if content.isdigit() and _FIRST <= int(content) <= _LAST:
        return int(content)
    return random.randint(_FIRST, _LAST)  # noqa: S311 - not a secret
