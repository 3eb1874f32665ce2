"""One address in front of several processes, as a Kubernetes Service is: connections are handed out in turn."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self


class ServiceAddress:
    """A TCP forwarder; a backend that refuses is passed over, one that dies takes its connections along.

    Args:
        port: to listen on.
        backends: ports on loopback.
        host: address to listen on.
    """

    def __init__(self, port: int, backends: Sequence[int], host: str = "127.0.0.1") -> None:
        self._port = port
        self._host = host
        self._backends = list(backends)
        self._connections: set[asyncio.Task[None]] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        #: Connections by backend.
        self.served = dict.fromkeys(backends, 0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def cut(self) -> None:
        """Close all connections, as a load balancer does that has lost its state."""
        for pump in self._pumps:
            pump.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        finally:
            self._connections.discard(task)
            await _close(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in self._backends:
            port = self._backends[0]
            self._backends.append(self._backends.pop(0))
            try:
                theirs, ours = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            self.served[port] += 1
            pumps = [asyncio.create_task(_pump(reader, ours)), asyncio.create_task(_pump(theirs, writer))]
            self._pumps.update(pumps)
            try:
                # As soon as either side is done so is the other: what is half open would hang until a timeout.
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._pumps.difference_update(pumps)
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                await _close(ours)
            return


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
