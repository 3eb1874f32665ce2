"""UNIX sockets that processes of one node serve each other on."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

#: Owner and group may connect.
_UMASK: Final = 0o117
_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving_on(
    path: Path, serve: _Serve, *, gid: int, backlog: int, line_limit: int = 1 << 16
) -> AsyncIterator[None]:
    """Serve every connection to a socket, in place of a file left there.

    Args:
        path: the socket; its directory is created if it is missing.
        serve: serves one connection, and closes it. The socket admits what the file system does: who the peer is has to
            be checked here.
        gid: group of the socket, if this process is root.
        backlog: connections that wait to be taken.
        line_limit: bytes of a line that is read.

    Raises:
        OSError: the socket cannot be bound.
    """
    _make_room(path)
    umask = os.umask(_UMASK)
    try:
        server = await asyncio.start_unix_server(serve, path, backlog=backlog, limit=line_limit)
    finally:
        os.umask(umask)
    if os.geteuid() == 0:
        os.chown(path, -1, gid)
    async with server:
        yield
    _make_room(path)


def _make_room(path: Path) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
