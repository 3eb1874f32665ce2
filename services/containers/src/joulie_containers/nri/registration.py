"""One registration of a plugin with a container runtime, from the first message until the connection ends."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog
from google.protobuf.message import Message

from joulie_containers.nri.handler import (
    NriDisconnectedError,
    NriHandler,
    NriRequestError,
    RuntimeInfo,
)
from joulie_containers.nri.mux import PLUGIN_CONNECTION, RUNTIME_CONNECTION, Trunk
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.ttrpc import Method, TtrpcClient, TtrpcCode, TtrpcError, TtrpcServer, unary

PLUGIN_SERVICE: Final = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE: Final = "nri.pkg.api.v1alpha1.Runtime"

#: The events that the handler has methods for. A runtime disconnects a plugin that subscribes to one it does not know;
#: all of these are as old as the interface.
EVENTS: Final = sum(
    1 << (event - 1)
    for event in (
        nri.RUN_POD_SANDBOX,
        nri.STOP_POD_SANDBOX,
        nri.REMOVE_POD_SANDBOX,
        nri.CREATE_CONTAINER,
        nri.START_CONTAINER,
        nri.POST_START_CONTAINER,
        nri.UPDATE_CONTAINER,
        nri.STOP_CONTAINER,
        nri.REMOVE_CONTAINER,
    )
)
#: Those of a plugin that is asked when a sandbox was made and before a container is created, and learns nothing else.
START_EVENTS: Final = 1 << (nri.RUN_POD_SANDBOX - 1) | 1 << (nri.CREATE_CONTAINER - 1)
#: The version whose messages `nri.proto` follows.
NRI_VERSION: Final = "v0.12.0"

#: A runtime registers one plugin after the other, and no plugin before it is ready itself.
REGISTRATION_LIMIT_S: Final = 60.0
#: Of runtimes that do not state theirs.
_REGISTRATION_TIMEOUT_S: Final = 5.0
_REQUEST_TIMEOUT_S: Final = 2.0
#: For a request to the runtime. It serves one after the other and waits up to its timeout for each plugin.
_CALL_TIMEOUT_S: Final = 10.0
_MS_PER_S: Final = 1000
#: Of all messages of one Synchronize: 500 pods with the longest annotations that the API server takes are twice that.
MOST_LISTED_BYTES: Final = 64 << 20

_log = structlog.get_logger()


class Registration:
    """Serves a runtime on one stream."""

    def __init__(
        self,
        handler: NriHandler,
        trunk: Trunk,
        *,
        name: str,
        index: str,
        on_registered: Callable[[], None],
        events: int = EVENTS,
    ) -> None:
        """Prepare to register a plugin for events; `on_registered` is called when it is."""
        self._handler = handler
        self._events = events
        self._on_registered = on_registered
        self._trunk = trunk
        self._identity = nri.RegisterPluginRequest(plugin_name=name, plugin_idx=index, nri_version=NRI_VERSION)
        self._server = TtrpcServer({PLUGIN_SERVICE: self._methods()}, self._reply)
        self._client = TtrpcClient(lambda frame: trunk.send(RUNTIME_CONNECTION, frame))
        self._pods: list[nri.PodSandbox] = []
        self._listed_bytes = 0
        self._containers: list[nri.Container] = []
        self._registered = asyncio.Event()
        self.runtime: RuntimeInfo | None = None
        #: When the last reply was sent, on the event loop's clock; None before the first.
        self.last_reply: float | None = None

    @property
    def registered(self) -> bool:
        """Whether the runtime sends events."""
        return self._registered.is_set()

    @property
    def oldest_request(self) -> float | None:
        """When the longest request in progress arrived, on the event loop's clock; None without any."""
        return self._server.oldest_call

    async def run(self) -> None:
        """Register, and serve until the runtime closes the connection.

        Raises:
            ConnectionError: the connection broke or was never a runtime's.
            NriRequestError: the runtime does not accept the plugin.
            TimeoutError: the runtime did not complete the registration in time.
        """
        self._trunk.open(PLUGIN_CONNECTION, self._server.feed)
        self._trunk.open(RUNTIME_CONNECTION, self._client.feed)
        reading = asyncio.create_task(self._trunk.run())
        registering = asyncio.create_task(self._register())
        async with contextlib.AsyncExitStack() as stack:
            # Each is done whatever happens in the others, in the reverse order.
            stack.push_async_callback(self._trunk.close)
            stack.push_async_callback(self._server.close)
            stack.push_async_callback(_cancel, registering)
            stack.push_async_callback(_cancel, reading)
            stack.callback(self._client.close)
            stack.callback(self._registered.clear)
            await asyncio.wait((reading, registering), return_when=asyncio.FIRST_COMPLETED)
            if registering.done():
                await registering
            await reading
            if not self.registered:
                raise ConnectionResetError("the runtime closed the connection during the registration")

    async def update_containers(self, updates: Sequence[nri.ContainerUpdate]) -> Sequence[nri.ContainerUpdate]:
        """Update containers, as documented at NriClient."""
        if self._server.in_call:
            raise RuntimeError("containers cannot be updated by a handler: the runtime waits for its reply")
        if not self.registered:
            raise NriDisconnectedError("the plugin is not registered")
        request = nri.UpdateContainersRequest(update=updates)
        try:
            response = await self._client.call(
                RUNTIME_SERVICE,
                "UpdateContainers",
                request,
                nri.UpdateContainersResponse,
                timeout_s=_CALL_TIMEOUT_S,
            )
        except TimeoutError:
            raise NriRequestError(f"no reply to UpdateContainers within {_CALL_TIMEOUT_S:g} s") from None
        except ConnectionError as error:
            raise NriDisconnectedError(str(error)) from error
        except TtrpcError as error:
            raise NriRequestError(str(error)) from error
        return response.failed

    async def _register(self) -> None:
        try:
            async with asyncio.timeout(REGISTRATION_LIMIT_S):
                await self._client.call(
                    RUNTIME_SERVICE, "RegisterPlugin", self._identity, nri.Empty, timeout_s=REGISTRATION_LIMIT_S
                )
                await self._registered.wait()
        except TimeoutError:
            raise TimeoutError(f"not registered within {REGISTRATION_LIMIT_S:g} s") from None
        except TtrpcError as error:
            raise NriRequestError(f"registration refused: {error}") from error

    async def _reply(self, frame: bytes) -> None:
        await self._trunk.send(PLUGIN_CONNECTION, frame)
        self.last_reply = asyncio.get_running_loop().time()

    def _methods(self) -> Mapping[str, Method]:
        handler = self._handler
        self._pod_events: Mapping[nri.Event, Callable[[nri.PodSandbox], Awaitable[None]]] = {
            nri.RUN_POD_SANDBOX: handler.run_pod,
            nri.STOP_POD_SANDBOX: handler.stop_pod,
            nri.REMOVE_POD_SANDBOX: handler.remove_pod,
        }
        self._container_events: Mapping[nri.Event, Callable[[nri.PodSandbox, nri.Container], Awaitable[None]]] = {
            nri.START_CONTAINER: handler.start_container,
            nri.POST_START_CONTAINER: handler.container_running,
            nri.REMOVE_CONTAINER: handler.remove_container,
        }
        return {
            "Configure": unary(nri.ConfigureRequest, self._configure),
            "Synchronize": unary(nri.SynchronizeRequest, self._synchronize),
            "Shutdown": unary(nri.Empty, self._shutdown),
            "CreateContainer": unary(nri.CreateContainerRequest, self._create_container),
            "UpdateContainer": unary(nri.UpdateContainerRequest, self._update_container),
            "StopContainer": unary(nri.StopContainerRequest, self._stop_container),
            "StateChange": unary(nri.StateChangeEvent, self._state_change),
            # Since NRI 0.12 these replace StateChange.
            "RunPodSandbox": self._event(nri.RUN_POD_SANDBOX),
            "StopPodSandbox": self._event(nri.STOP_POD_SANDBOX),
            "RemovePodSandbox": self._event(nri.REMOVE_POD_SANDBOX),
            "StartContainer": self._event(nri.START_CONTAINER),
            "PostStartContainer": self._event(nri.POST_START_CONTAINER),
            "RemoveContainer": self._event(nri.REMOVE_CONTAINER),
        }

    def _event(self, event: nri.Event) -> Method:
        async def serve(request: nri.EventRequest) -> Message:
            return await self._state_change(
                nri.StateChangeEvent(event=event, pod=request.pod, container=request.container)
            )

        return unary(nri.EventRequest, serve)

    async def _state_change(self, request: nri.StateChangeEvent) -> Message:
        if on_pod := self._pod_events.get(request.event):
            await on_pod(request.pod)
        elif on_container := self._container_events.get(request.event):
            await on_container(request.pod, request.container)
        return nri.Empty()

    async def _configure(self, request: nri.ConfigureRequest) -> Message:
        registration_timeout_s = request.registration_timeout / _MS_PER_S or _REGISTRATION_TIMEOUT_S
        self.runtime = RuntimeInfo(
            name=request.runtime_name,
            version=request.runtime_version,
            nri_version=request.nri_version,
            registration_timeout_s=registration_timeout_s,
            request_timeout_s=request.request_timeout / _MS_PER_S or _REQUEST_TIMEOUT_S,
            config=request.config,
        )
        await self._handler.configure(self.runtime)
        return nri.ConfigureResponse(events=self._events)

    async def _synchronize(self, request: nri.SynchronizeRequest) -> Message:
        if self.runtime is None:
            raise TtrpcError(TtrpcCode.INVALID_ARGUMENT, "Synchronize before Configure")
        self._listed_bytes += request.ByteSize()
        if self._listed_bytes > MOST_LISTED_BYTES:
            self._pods, self._containers, self._listed_bytes = [], [], 0
            raise TtrpcError(
                TtrpcCode.RESOURCE_EXHAUSTED, f"Synchronize lists more than {MOST_LISTED_BYTES} bytes of pods"
            )
        self._pods += request.pods
        self._containers += request.containers
        if request.more:
            return nri.SynchronizeResponse(more=True)
        self._listed_bytes = 0
        pods, self._pods = self._pods, []
        containers, self._containers = self._containers, []
        response = await self._handler.synchronize(pods, containers)
        self._registered.set()
        self._on_registered()
        return response

    async def _shutdown(self, _request: nri.Empty) -> Message:
        _log.info("runtime shutting down")
        return nri.Empty()

    async def _create_container(self, request: nri.CreateContainerRequest) -> Message:
        return await self._handler.create_container(request.pod, request.container)

    async def _update_container(self, request: nri.UpdateContainerRequest) -> Message:
        return await self._handler.update_container(request.pod, request.container, request.linux_resources)

    async def _stop_container(self, request: nri.StopContainerRequest) -> Message:
        return await self._handler.stop_container(request.pod, request.container)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
