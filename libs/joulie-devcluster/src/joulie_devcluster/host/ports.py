"""Free ports on loopback, chosen before the processes that use them start.

Ports are taken from below the kernel's ephemeral range, so that no outgoing connection can take one between choice and
use. Another listener still can: the process that needs the port then fails with "address already in use", and the
caller starts it again with other ports (see `DevCluster`).
"""

import random
import socket
from contextlib import closing

LOOPBACK = "127.0.0.1"

_FIRST, _LAST = 20_000, 32_767
_ATTEMPTS = 200

# Ports that this process has returned; some of them may not be bound yet.
_returned: set[int] = set()


def free_port() -> int:
    """Return a TCP port without a listener; never the same port twice in one process.

    Raises:
        OSError: no free port was found.
    """
    for _ in range(_ATTEMPTS):
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - not a secret
        if port not in _returned and is_free(port):
            _returned.add(port)
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
