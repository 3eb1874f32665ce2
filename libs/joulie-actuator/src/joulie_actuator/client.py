"""Clients of the actuator: through its socket, or with the same executors in this process.

Every request is answered within a deadline, by a failure if need be: an actuator that is absent, restarting, hung or
hostile costs one failed request, and the next request tries again. Subsystems do not wait for each other.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import structlog

from joulie_actuator.deadlines import ANSWER_S
from joulie_actuator.executor import SubsystemExecutor
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.log import Level
from joulie_actuator.program import command
from joulie_actuator.protocol import LINE_LIMIT, ProtocolError, Request, Subsystem, decode_reply, encode, subsystem_of
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import Reply
from joulie_actuator.subsystems import HostSubsystems

_log = structlog.get_logger()


class HardwareClient(Protocol):
    """Carries out requests on this machine."""

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Carry out a request."""

    async def close(self) -> None:
        """Release what the client holds."""


class ActuatorClient:
    """Client of the actuator's socket. For one event loop."""

    def __init__(self, path: str, *, answer_s: Mapping[Subsystem, float] = ANSWER_S) -> None:
        self._path = path
        self._answer_s = answer_s
        self._connections = {subsystem: _Connection(path) for subsystem in Subsystem}

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Send a request on the connection of its subsystem, which is opened when needed."""
        subsystem = subsystem_of(request)
        connection = self._connections[subsystem]
        try:
            async with asyncio.timeout(self._answer_s[subsystem]):
                return await connection.exchange(request)
        except TimeoutError:
            return HardwareFailure(
                Reason.TIMEOUT, f"the actuator did not answer within {self._answer_s[subsystem]:g} s"
            )
        except FileNotFoundError:
            return HardwareFailure(Reason.NO_HOST_INTERFACE, f"no actuator at {self._path}")
        except PermissionError as error:
            return HardwareFailure(Reason.NOT_PERMITTED, f"{self._path}: {error.strerror}")
        except (OSError, EOFError) as error:
            return HardwareFailure(Reason.UNREACHABLE, f"the actuator at {self._path} is not reached: {error}")
        except ProtocolError as error:
            return HardwareFailure(Reason.MALFORMED_REPLY, str(error))

    async def close(self) -> None:
        """Close the connections. Limits stay in force until their lease ends."""
        for connection in self._connections.values():
            connection.close()
        await asyncio.sleep(0)  # transports close at the loop's next turn


class _Connection:
    """Carries one request at a time; closed after any failure, since an answer may still arrive."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def exchange(self, request: Request) -> Reply:
        async with self._turn:
            was_open = self._streams is not None
            try:
                return await self._attempt(request)
            except (ConnectionError, EOFError):
                if not was_open:
                    raise
            # The actuator was restarted since: every request may be made twice.
            return await self._attempt(request)

    async def _attempt(self, request: Request) -> Reply:
        try:
            if self._streams is None:
                self._streams = await asyncio.open_unix_connection(self._path, limit=LINE_LIMIT)
            reader, writer = self._streams
            writer.write(encode(request))
            await writer.drain()
            line = await reader.readuntil(b"\n")
        except BaseException:
            self.close()
            raise
        return decode_reply(line)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class InProcessActuator:
    """The executors in this process, for development, with the permissions of the controller."""

    def __init__(
        self, machine: HostSubsystems, *, stop_grace_s: float, answer_s: Mapping[Subsystem, float] = ANSWER_S
    ) -> None:
        self._machine = machine
        self._stop_grace_s = stop_grace_s
        self._answer_s = answer_s
        self._threads = {
            subsystem: ThreadPoolExecutor(1, thread_name_prefix=f"{subsystem}-requests") for subsystem in Subsystem
        }
        for executor in machine.executors.values():
            executor.start()

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Carry out a request in the thread of its subsystem."""
        subsystem = subsystem_of(request)
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self._threads[subsystem], self._machine.executors[subsystem].execute, request)
        try:
            async with asyncio.timeout(self._answer_s[subsystem]):
                return await answer
        except TimeoutError:
            return HardwareFailure(
                Reason.TIMEOUT, f"the {subsystem} actuator did not answer within {self._answer_s[subsystem]:g} s"
            )

    async def close(self) -> None:
        """Restore everything."""
        ended = await asyncio.gather(*(self._end(executor) for executor in self._machine.executors.values()))
        if not all(ended):
            _log.error(f"restore failed; run `{command('restore')}`")
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        self._machine.close()

    async def _end(self, executor: SubsystemExecutor) -> bool:
        return await asyncio.to_thread(executor.stop, executor.clock() + self._stop_grace_s)


def structured_log(event: str, /, *, level: Level = Level.INFO, **details: object) -> None:
    """Write an event of an executor to the controller's log."""
    _log.log({Level.DEBUG: 10, Level.INFO: 20, Level.WARNING: 30, Level.ERROR: 40}[level], event, **details)
