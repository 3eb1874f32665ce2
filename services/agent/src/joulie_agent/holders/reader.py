"""Asks the kubelet again and again, and gives its last answer to the controller.

Guarantees that an answer is replaced by the next one or by the reason why there is none: nothing outlives a failure.
The log has a line for each new reason and one for the next answer, not one for each failure.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import structlog

from joulie_actuator.server import Admission, peer_of
from joulie_agent.holders.answer import encode_answer
from joulie_api.failure_log import FailureLog
from joulie_api.local_socket import serving_on
from joulie_core.holders.records import DeviceListing, HolderReason, NoListing

#: From one question to the next. The kubelet allows its clients 100 a second.
INTERVAL_S: Final = 1.0
#: Connections that wait to be served, and how long one may take to get and to read the answer.
_MOST_CONNECTIONS: Final = 4
_WRITE_S: Final = 1.0

_log = structlog.get_logger()


class HoldersReader:
    """The last answer of the kubelet, refreshed by `run`. For one event loop."""

    def __init__(self, ask: Callable[[], Awaitable[DeviceListing | NoListing]]) -> None:
        self._ask = ask
        self._last: DeviceListing | NoListing = NoListing(HolderReason.KUBELET_SILENT, "not asked yet")
        self._asked_at = asyncio.get_running_loop().time()
        self._failures = FailureLog(_log, failed="no answer of the kubelet", recovered="the kubelet answers")

    async def run(self) -> None:
        """Ask until cancelled, once per interval; a call that takes longer is followed by the next at once."""
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            self._take(await self._ask(), asked_at)
            await asyncio.sleep(max(0.0, asked_at + INTERVAL_S - loop.time()))

    def _take(self, found: DeviceListing | NoListing, asked_at: float) -> None:
        self._last, self._asked_at = found, asked_at
        if isinstance(found, NoListing):
            self._failures.failed(found.message, cause=found.reason)
        else:
            self._failures.recovered()

    async def answer(self) -> bytes:
        """Return the last answer as it is sent now."""
        return encode_answer(self._last, max(0.0, asyncio.get_running_loop().time() - self._asked_at))

    async def answer_now(self) -> bytes:
        """Return the answer to a question that is asked now."""
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        return encode_answer(await self._ask(), max(0.0, loop.time() - asked_at))


@asynccontextmanager
async def serving(answer: Callable[[], Awaitable[bytes]], path: Path, admission: Admission) -> AsyncIterator[None]:
    """Give the answer to every admitted peer that connects to a socket, in place of a file left there.

    Args:
        answer: returns it.
        path: the socket; its directory is created if it is missing.
        admission: user and group that are served, besides root; the socket belongs to the group.

    Raises:
        OSError: the socket cannot be bound.
    """
    slots = asyncio.Semaphore(_MOST_CONNECTIONS)

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not slots.locked() and admission.admits(peer_of(writer.get_extra_info("socket"))):
                async with slots, asyncio.timeout(_WRITE_S):
                    writer.write(await answer())
                    await writer.drain()
                    writer.write_eof()
        except (OSError, TimeoutError):
            writer.transport.abort()
        finally:
            writer.close()

    async with serving_on(path, serve, gid=admission.gid, backlog=_MOST_CONNECTIONS):
        yield
