"""The plugin's connection to the container runtime: where it is, and a new one whenever it ends."""

import asyncio
import os
import random
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from joulie_api.backoff import Backoff
from joulie_api.failure_log import FailureLog
from joulie_containers.nri.handler import NriDisconnectedError, NriHandler, NriRequestError, RuntimeInfo
from joulie_containers.nri.mux import Trunk
from joulie_containers.nri.proto.nri_pb2 import ContainerUpdate
from joulie_containers.nri.registration import EVENTS, Registration

#: Environment variable with the descriptor of the connected socket, where the runtime has started this process.
PLUGIN_SOCKET: Final = "NRI_PLUGIN_SOCKET"
DEFAULT_SOCKET: Final = Path("/var/run/nri/nri.sock")

_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_INDEX: Final = re.compile(r"[0-9]{2}")
#: A runtime that disconnects the plugin at once, again and again, is tried less and less often.
_BACKOFF_INITIAL_S: Final = 0.2
_BACKOFF_CAP_S: Final = 5.0
_BACKOFF_RESET_AFTER_S: Final = 30.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NriEndpoint:
    """Where the runtime is, and as what the plugin registers."""

    #: Names the plugin, with letters, digits and `_.+-`.
    name: str
    #: Two digits: the order in which the runtime calls plugins.
    index: str
    path: Path = DEFAULT_SOCKET
    #: What the runtime asks for, one bit for each event.
    events: int = EVENTS
    #: An open connection from the runtime that started this process; then there is no other.
    descriptor: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name of an NRI plugin: {self.name!r}")
        if not _INDEX.fullmatch(self.index):
            raise ValueError(f"index of an NRI plugin: {self.index!r}, not two digits")


def nri_endpoint(environ: Mapping[str, str], *, path: Path | None, name: str, index: str) -> NriEndpoint:
    """Return the endpoint: the descriptor in the environment of a plugin that the runtime started, else the path.

    Raises:
        ValueError: a value in the environment or an argument is malformed.
    """
    descriptor = environ.get(PLUGIN_SOCKET)
    if descriptor is None:
        return NriEndpoint(name=name, index=index, path=path or DEFAULT_SOCKET)
    return NriEndpoint(
        name=environ.get("NRI_PLUGIN_NAME", name),
        index=environ.get("NRI_PLUGIN_IDX", index),
        descriptor=int(descriptor),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NriState:
    """The connection, for readiness, liveness and metrics. Times are on the event loop's clock."""

    registered: bool
    #: None where no runtime has configured the plugin on this connection.
    runtime: RuntimeInfo | None
    #: How often the plugin was registered.
    registrations: int
    #: Why there is no registration; empty with one, and before the first attempt has ended.
    failure: str
    #: When a reply was last sent on this connection.
    last_reply: float | None
    #: When the longest request in progress arrived.
    oldest_request: float | None


class NriConnection:
    """Keeps a plugin registered. It is the NriClient of its handler."""

    def __init__(
        self, handler: NriHandler, endpoint: NriEndpoint, *, chance: Callable[[], float] = random.random
    ) -> None:
        self._handler = handler
        self._endpoint = endpoint
        self._backoff = Backoff(
            chance, initial_s=_BACKOFF_INITIAL_S, cap_s=_BACKOFF_CAP_S, reset_after_s=_BACKOFF_RESET_AFTER_S
        )
        self._failures = FailureLog(_log, failed="runtime not connected", recovered="runtime connected again")
        self._registration: Registration | None = None
        self._registrations = 0

    @property
    def state(self) -> NriState:
        """The state now."""
        current = self._registration
        return NriState(
            registered=current is not None and current.registered,
            runtime=current.runtime if current else None,
            registrations=self._registrations,
            failure=self._failures.problem() or "",
            last_reply=current.last_reply if current else None,
            oldest_request=current.oldest_request if current else None,
        )

    async def update_containers(self, updates: Sequence[ContainerUpdate]) -> Sequence[ContainerUpdate]:
        """Update containers, as documented at NriClient."""
        if self._registration is None:
            raise NriDisconnectedError(self._failures.problem() or "the plugin is not registered")
        return await self._registration.update_containers(updates)

    async def run(self) -> None:
        """Register, and register again whenever the connection ends.

        With a descriptor it returns when the runtime closes that connection: the runtime starts the plugin again.

        Raises:
            OSError: with a descriptor only, the connection failed.
            NriRequestError: with a descriptor only, the runtime does not accept the plugin.
        """
        if self._endpoint.descriptor is not None:
            await self._serve(*await _inherited(self._endpoint.descriptor))
            return
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._serve(*await asyncio.open_unix_connection(self._endpoint.path))
            except (OSError, NriRequestError) as error:
                self._failures.failed(error)
            else:
                self._failures.failed("the runtime closed the connection")
            await asyncio.sleep(self._backoff.next_s(loop.time()))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        endpoint = self._endpoint
        registration = Registration(
            self._handler,
            Trunk(reader, writer),
            name=endpoint.name,
            index=endpoint.index,
            events=endpoint.events,
            on_registered=self._on_registered,
        )
        self._registration = registration
        try:
            await registration.run()
        finally:
            self._registration = None
            if registration.runtime is not None:
                await self._handler.disconnected()

    def _on_registered(self) -> None:
        self._registrations += 1
        self._failures.recovered()
        runtime = self.state.runtime
        assert runtime is not None
        _log.info("plugin registered", runtime=runtime.name, version=runtime.version, nri=runtime.nri_version)


async def _inherited(descriptor: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    os.set_inheritable(descriptor, False)
    return await asyncio.open_unix_connection(sock=socket.socket(fileno=descriptor))
