"""The start hook's side of its socket: asks the agent's controller, within a deadline.

Guarantees that a question is over after its deadline, at once where no controller is connected, and as soon as the
controller goes. The newest connection of an admitted peer is the controller's; one that sends what is no answer is
closed. A controller that does not read what is sent is not asked.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final

import structlog

from joulie_actuator.server import Admission, peer_of
from joulie_api.container_starts import (
    LINE_LIMIT,
    MOST_WAITING,
    ContainerStart,
    HookState,
    StartAnswer,
    decode_for_hook,
    encode_line,
)
from joulie_api.errors import DecodeError
from joulie_api.failure_log import FailureLog
from joulie_api.local_socket import serving_on

#: Connections that wait to be taken.
_BACKLOG: Final = 4

_log = structlog.get_logger()


class AskOutcome(StrEnum):
    """End of a question."""

    ANSWERED = "answered"
    LATE = "late"
    NO_CONTROLLER = "no-controller"


class ControllerLink:
    """Asks the controller that is connected. For one event loop.

    Args:
        deadline_s: how long a question waits, in seconds.
        clock: seconds of the machine's CLOCK_MONOTONIC.
    """

    def __init__(self, deadline_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._state = HookState(registered=False, deadline_s=deadline_s)
        self._writer: asyncio.StreamWriter | None = None
        #: By number; the result is None where the controller has gone.
        self._waiting: dict[int, asyncio.Future[StartAnswer | None]] = {}
        self._asked = 0
        self._failures = FailureLog(_log, failed="controller not asked", recovered="controller asked again")

    @property
    def connected(self) -> bool:
        """Whether a controller is connected."""
        return self._writer is not None

    def tell(self, state: HookState) -> None:
        """Let the controller know the state, now and whenever one connects."""
        self._state = state
        if self._writer is not None:
            self._writer.write(encode_line(state))

    async def ask(self, namespace: str, pod: str, uid: str) -> AskOutcome:
        """Return when the container of a pod may start, or when the deadline is over."""
        answer = await self._ask(namespace, pod, uid)
        outcome = AskOutcome.ANSWERED if isinstance(answer, StartAnswer) else answer
        if outcome is AskOutcome.ANSWERED:
            self._failures.recovered()
        else:
            self._failures.failed(f"a container of pod {namespace}/{pod} starts without an answer", cause=outcome)
        return outcome

    async def lift_early(self, namespace: str, pod: str, uid: str) -> bool:
        """Ask about a pod whose sandbox was made; return whether no limit that is not the pod's is left on its GPUs."""
        answer = await self._ask(namespace, pod, uid, early=True)
        return isinstance(answer, StartAnswer) and answer.lifted

    async def _ask(self, namespace: str, pod: str, uid: str, *, early: bool = False) -> StartAnswer | AskOutcome:
        if self._writer is None:
            return AskOutcome.NO_CONTROLLER
        if len(self._waiting) >= MOST_WAITING or self._writer.transport.get_write_buffer_size() > LINE_LIMIT:
            return AskOutcome.LATE
        self._asked += 1
        number = self._asked
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(encode_line(ContainerStart(number, namespace, pod, uid, self._clock(), early)))
        try:
            async with asyncio.timeout(self._state.deadline_s):
                return await answer or AskOutcome.NO_CONTROLLER
        except TimeoutError:
            return AskOutcome.LATE
        finally:
            del self._waiting[number]

    async def follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection as the controller's until it ends."""
        before, self._writer = self._writer, writer
        if before is not None:
            before.close()
        writer.write(encode_line(self._state))
        try:
            while line := await reader.readline():
                found = decode_for_hook(line)
                answer = self._waiting.get(found.number)
                if answer is not None and not answer.done():
                    answer.set_result(found)
        except (OSError, ValueError, DecodeError) as error:
            # ValueError: a line that is too long.
            _log.warning("connection of the controller closed", problem=str(error))
        finally:
            if self._writer is writer:
                self._writer = None
                self._give_up()

    def _give_up(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result(None)


@asynccontextmanager
async def listening(link: ControllerLink, path: Path, admission: Admission) -> AsyncIterator[None]:
    """Let the controller connect to a socket, in place of a file left there.

    Args:
        link: what asks it.
        path: the socket; its directory is created if it is missing.
        admission: user and group that are served, besides root; the socket belongs to the group.

    Raises:
        OSError: the socket cannot be bound.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if admission.admits(peer_of(writer.get_extra_info("socket"))):
                await link.follow(reader, writer)
        finally:
            writer.close()

    async with serving_on(path, serve, gid=admission.gid, backlog=_BACKLOG, line_limit=LINE_LIMIT):
        yield
