"""The controller's way to the client: a socket to the actuator, or the same lanes in this process.

Promises an answer within a deadline, a refusal where there is none: an actuator that is absent, restarting, hung or
hostile costs one refusal per question and is asked again next time. Parts do not wait for each other.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import structlog

from joulie_agent.actuator.deadlines import ANSWER_S
from joulie_agent.actuator.executor import SubsystemExecutor
from joulie_agent.actuator.log import Level
from joulie_agent.actuator.protocol import (
    LINE_LIMIT,
    ProtocolError,
    Reply,
    Request,
    Subsystem,
    decode_reply,
    encode,
    subsystem_of,
)
from joulie_agent.actuator.subsystems import HostSubsystems
from joulie_agent.hardware.knob import HardwareFailure
from joulie_agent.reasons import Reason

_log = structlog.get_logger()


class HardwareClient(Protocol):
    """Whatever carries out requests on this machine."""

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Carry out a request."""

    async def close(self) -> None:
        """Let go."""


class ActuatorClient:
    """The actuator behind a socket. For one event loop."""

    def __init__(self, path: str, *, answer_s: Mapping[Subsystem, float] = ANSWER_S) -> None:
        self._path = path
        self._answer_s = answer_s
        self._connections = {part: _Connection(path) for part in Subsystem}

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Ask on the part's own connection, which is opened when needed."""
        part = subsystem_of(request)
        connection = self._connections[part]
        try:
            async with asyncio.timeout(self._answer_s[part]):
                return await connection.exchange(request)
        except TimeoutError:
            return HardwareFailure(Reason.TIMEOUT, f"the actuator did not answer within {self._answer_s[part]:g} s")
        except FileNotFoundError:
            return HardwareFailure(Reason.NO_HOST_INTERFACE, f"no actuator at {self._path}")
        except PermissionError as error:
            return HardwareFailure(Reason.NOT_PERMITTED, f"{self._path}: {error.strerror}")
        except (OSError, EOFError) as error:
            return HardwareFailure(Reason.UNREACHABLE, f"the actuator at {self._path} is not reached: {error}")
        except ProtocolError as error:
            return HardwareFailure(Reason.MALFORMED_REPLY, str(error))

    async def close(self) -> None:
        """Close the connections. What is in force stays so until its lease ends."""
        for connection in self._connections.values():
            connection.close()
        await asyncio.sleep(0)  # transports close at the loop's next turn


class _Connection:
    """One question at a time; closed by whatever goes wrong, since an answer may still be on its way."""

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
    """The lanes in this process, for development: what the actuator does, with the controller's own permissions."""

    def __init__(
        self, machine: HostSubsystems, *, stop_grace_s: float, answer_s: Mapping[Subsystem, float] = ANSWER_S
    ) -> None:
        self._machine = machine
        self._stop_grace_s = stop_grace_s
        self._answer_s = answer_s
        self._threads = {part: ThreadPoolExecutor(1, thread_name_prefix=f"{part}-requests") for part in Subsystem}
        for executor in machine.executors.values():
            executor.start()

    async def execute(self, request: Request) -> Reply | HardwareFailure:
        """Carry out a request in the part's own thread."""
        part = subsystem_of(request)
        loop = asyncio.get_running_loop()
        answer = loop.run_in_executor(self._threads[part], self._machine.executors[part].execute, request)
        try:
            async with asyncio.timeout(self._answer_s[part]):
                return await answer
        except TimeoutError:
            return HardwareFailure(
                Reason.TIMEOUT, f"the {part} actuator did not answer within {self._answer_s[part]:g} s"
            )

    async def close(self) -> None:
        """Give everything back."""
        ended = await asyncio.gather(*(self._end(executor) for executor in self._machine.executors.values()))
        if not all(ended):
            _log.error("hardware not given back; run `joulie-agent restore`")
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        self._machine.close()

    async def _end(self, executor: SubsystemExecutor) -> bool:
        return await asyncio.to_thread(executor.stop, executor.clock() + self._stop_grace_s)


def structured_log(event: str, /, *, level: Level = Level.INFO, **details: object) -> None:
    """Tell what the lanes tell in the controller's own log."""
    _log.log({Level.DEBUG: 10, Level.INFO: 20, Level.WARNING: 30, Level.ERROR: 40}[level], event, **details)
