"""The connections that are served directly, of one server."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from joulie_api import http_server
from joulie_api.http_server import HttpServer
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.direct_http import DirectConnection, DirectEndpoint, DirectEndpoints, Timeouts


class DirectFront:
    """Serves connections as `joulie_extender.direct_http` does, under the limits of the server.

    Args:
        by_path: a second way into endpoints of the server, for the usual requests to them.
        budget: memory that the bodies of direct requests may take together while they are received.
    """

    def __init__(self, by_path: Mapping[str, DirectEndpoint], budget: ByteBudget) -> None:
        self._endpoints = DirectEndpoints(by_path)
        self._budget = budget
        self._connections: set[DirectConnection] = set()
        #: Set when one of them has ended.
        self._left = asyncio.Event()

    def serve(self, transport: asyncio.Transport, server: HttpServer) -> None:
        """Serve a new connection."""
        timeouts = Timeouts(
            first_request_s=http_server.FIRST_REQUEST_TIMEOUT_S,
            request_s=http_server.REQUEST_TIMEOUT_S,
            stall_s=http_server.STALL_TIMEOUT_S,
            idle_s=http_server.IDLE_TIMEOUT_S,
        )
        connection = DirectConnection(self._endpoints, timeouts, self._budget, server, self._forget)
        self._connections.add(connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def finish(self) -> None:
        """Close each connection once the request is done that is being received or answered."""
        for connection in [*self._connections]:
            connection.finish()

    async def end(self) -> None:
        """Return when all connections have ended; after the server's shutdown timeout end what is left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(http_server.SHUTDOWN_TIMEOUT_S):
                while self._connections:
                    self._left.clear()
                    await self._left.wait()
        for connection in [*self._connections]:
            connection.abort()

    def _forget(self, connection: DirectConnection) -> None:
        self._connections.discard(connection)
        self._left.set()
