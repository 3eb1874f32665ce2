"""Free ports on loopback, chosen before their users start.

Ports come from below the kernel's ephemeral range: no outgoing connection can take one between choice and use. Another
listener still can, and then the process that wanted it says so and is started again with others (see `cluster`).
"""

import random
import socket
from contextlib import closing

LOOPBACK = "127.0.0.1"

_FIRST, _LAST = 20_000, 32_767
_ATTEMPTS = 200

# Ports this process has handed out and that may not be bound yet.
_handed_out: set[int] = set()


def free_port() -> int:
    """A TCP port nobody listens on; never the same twice from one process."""
    for _ in range(_ATTEMPTS):
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - not a secret
        if port not in _handed_out and is_free(port):
            _handed_out.add(port)
            return port
    raise OSError(f"no free port on {LOOPBACK} between {_FIRST} and {_LAST} in {_ATTEMPTS} attempts")


def is_free(port: int) -> bool:
    """Whether a listener could bind the port now."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # As servers do: a connection of an earlier listener in TIME_WAIT does not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
