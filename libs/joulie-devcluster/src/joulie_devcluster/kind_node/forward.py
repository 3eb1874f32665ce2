"""Forwarder of TCP connections into a network namespace: `forward.py LISTEN_PORT PID PORT`.

It listens on this network's loopback, prints "forwarding", and connects to PORT on the loopback of the network of PID.
Limits: Linux only, root only. Imports the standard library only, like `die_with_parent`.
"""

import asyncio
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x4000_0000
_LOOPBACK = "127.0.0.1"
_CHUNK_BYTES = 1 << 16


def main(arguments: list[str]) -> int:
    """Forward until SIGTERM."""
    listen_port, pid, port = (int(each) for each in arguments)
    # A socket stays in the namespace in which it was made.
    listener = socket.create_server((_LOOPBACK, listen_port))
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        sys.stderr.write(f"forward: setns: {os.strerror(ctypes.get_errno())}\n")
        return 1
    asyncio.run(_serve(listener, port))
    return 0


async def _serve(listener: socket.socket, port: int) -> None:
    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(_LOOPBACK, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))

    server = await asyncio.start_server(forward, sock=listener)
    sys.stdout.write("forwarding\n")
    sys.stdout.flush()
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side closes or resets its connection, and close the other."""
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
