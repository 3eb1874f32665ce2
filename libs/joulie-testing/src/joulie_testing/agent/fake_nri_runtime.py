"""A container runtime's side of the Node Resource Interface, with a model of its containers."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import Message

from joulie_containers.nri.mux import PLUGIN_CONNECTION, RUNTIME_CONNECTION, Trunk
from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.registration import PLUGIN_SERVICE, RUNTIME_SERVICE
from joulie_containers.nri.ttrpc import TtrpcClient, TtrpcServer, unary

_Reply = TypeVar("_Reply", bound=Message)


class FakeNriRuntime:
    """Serves plugins on a UNIX socket. Like a runtime it sends one request after the other.

    `pods` and `containers` are the model, by id: replies of the plugin change it. As with containerd, a container runs
    with what it had when its start began, plus the updates that it gets while it runs; `running` has that.
    """

    def __init__(
        self,
        *,
        request_timeout_s: float = 2.0,
        per_event_requests: bool = False,
        synchronize_chunk: int = 1_000_000,
    ) -> None:
        """Make a runtime that has not begun to listen.

        Args:
            request_timeout_s: the plugin is disconnected when it takes longer to reply.
            per_event_requests: send events as NRI 0.12 does, not as StateChange.
            synchronize_chunk: pods and containers in each message of Synchronize.
        """
        self.pods: dict[str, nri.PodSandbox] = {}
        self.containers: dict[str, nri.Container] = {}
        #: The resources that the processes of containers have.
        self.running: dict[str, nri.LinuxResources] = {}
        #: Ids of containers whose unsolicited updates fail.
        self.refuse_updates: set[str] = set()
        #: The events that each plugin has subscribed to, as it answered Configure.
        self.subscribed: list[int] = []
        #: Every update that a plugin has requested, in order.
        self.updates: list[nri.ContainerUpdate] = []
        self.request_timeout_s = request_timeout_s
        self._per_event_requests = per_event_requests
        self._synchronize_chunk = synchronize_chunk
        self._turn = asyncio.Lock()
        #: Those that have connected and are not registered.
        self._plugins: asyncio.Queue[_Plugin] = asyncio.Queue()
        self._connected: list[_Plugin] = []
        self._current: _Plugin | None = None

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Accept plugins; at the end all are disconnected."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.setblocking(False)
            listener.bind(str(path))
            listener.listen()
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)
                self._current = None
                for plugin in self._connected:
                    await plugin.close()

    async def registered(self) -> nri.RegisterPluginRequest:
        """Wait for the next plugin, register and synchronize it; return as what it registered.

        Raises:
            TtrpcError: the plugin refused a request.
        """
        plugin = self._current = await self._plugins.get()
        identity = await plugin.registration
        configure = nri.ConfigureRequest(
            runtime_name="fake",
            runtime_version="v1",
            registration_timeout=5000,
            request_timeout=round(self.request_timeout_s * 1000),
        )
        self.subscribed.append((await self._call("Configure", configure, nri.ConfigureResponse)).events)
        async with self._turn:
            self._update(await self._synchronize())
        return identity

    async def disconnect(self) -> None:
        """Close the connection of the plugin, without a word."""
        if self._current:
            await self._current.close()
            self._current = None

    @contextlib.asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Carry out nothing meanwhile, as a runtime that waits for another plugin."""
        async with self._turn:
            yield

    async def run_pod(self, pod: nri.PodSandbox) -> None:
        """Add a pod."""
        self.pods[pod.id] = pod
        await self._event(nri.RUN_POD_SANDBOX, "RunPodSandbox", pod)

    async def stop_pod(self, pod_id: str) -> None:
        """Stop a pod; its containers are stopped and removed before."""
        await self._event(nri.STOP_POD_SANDBOX, "StopPodSandbox", self.pods[pod_id])

    async def remove_pod(self, pod_id: str) -> None:
        """Remove a pod."""
        await self._event(nri.REMOVE_POD_SANDBOX, "RemovePodSandbox", self.pods.pop(pod_id))

    async def create_container(self, container: nri.Container) -> nri.CreateContainerResponse:
        """Create a container; `pod_sandbox_id` names its pod.

        Raises:
            TtrpcError: the plugin refused, and there is no container.
        """
        request = nri.CreateContainerRequest(pod=self.pods[container.pod_sandbox_id], container=container)
        async with self._turn:
            reply = await self._call("CreateContainer", request, nri.CreateContainerResponse)
            created = nri.Container()
            created.CopyFrom(container)
            created.state = nri.CONTAINER_CREATED
            created.linux.resources.MergeFrom(reply.adjust.linux.resources)
            self.containers[container.id] = created
            self._update(reply.update)
        return reply

    async def start_container(self, container_id: str) -> None:
        """Start a container."""
        self.begin_start(container_id)
        await self.end_start(container_id)

    def begin_start(self, container_id: str) -> None:
        """Make the process of a container, which gets what the container has now; it does not run yet."""
        self.running[container_id] = nri.LinuxResources()
        self.running[container_id].CopyFrom(self.containers[container_id].linux.resources)

    async def end_start(self, container_id: str) -> None:
        """Let the process of a container run."""
        container = self.containers[container_id]
        pod = self.pods[container.pod_sandbox_id]
        await self._event(nri.START_CONTAINER, "StartContainer", pod, container)
        container.state = nri.CONTAINER_RUNNING
        await self._event(nri.POST_START_CONTAINER, "PostStartContainer", pod, container)

    async def update_container(self, container_id: str, resources: nri.LinuxResources) -> Sequence[nri.ContainerUpdate]:
        """Change the resources of a container; an update of the plugin for it wins."""
        container = self.containers[container_id]
        pod = self.pods[container.pod_sandbox_id]
        request = nri.UpdateContainerRequest(pod=pod, container=container, linux_resources=resources)
        async with self._turn:
            reply = await self._call("UpdateContainer", request, nri.UpdateContainerResponse)
            self._merge(container, resources)
            self._update(reply.update)
        return reply.update

    async def stop_container(self, container_id: str) -> Sequence[nri.ContainerUpdate]:
        """Stop a container."""
        container = self.containers[container_id]
        request = nri.StopContainerRequest(pod=self.pods[container.pod_sandbox_id], container=container)
        async with self._turn:
            reply = await self._call("StopContainer", request, nri.StopContainerResponse)
            container.state = nri.CONTAINER_STOPPED
            self._update(reply.update)
        return reply.update

    async def remove_container(self, container_id: str) -> None:
        """Remove a container."""
        container = self.containers.pop(container_id)
        self.running.pop(container_id, None)
        await self._event(nri.REMOVE_CONTAINER, "RemoveContainer", self.pods[container.pod_sandbox_id], container)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            stream, _ = await loop.sock_accept(listener)
            trunk = Trunk(*await asyncio.open_unix_connection(sock=stream))
            plugin = _Plugin(trunk, self._update_containers)
            self._connected.append(plugin)
            self._plugins.put_nowait(plugin)

    async def _synchronize(self) -> Sequence[nri.ContainerUpdate]:
        pods, containers, size = list(self.pods.values()), list(self.containers.values()), self._synchronize_chunk
        while True:
            request = nri.SynchronizeRequest(pods=pods[:size], containers=containers[:size])
            pods, containers = pods[size:], containers[size:]
            request.more = bool(pods or containers)
            reply = await self._call("Synchronize", request, nri.SynchronizeResponse)
            assert reply.more == request.more, "the plugin ignores that Synchronize continues"
            if not request.more:
                return reply.update

    async def _event(
        self, event: nri.Event, method: str, pod: nri.PodSandbox, container: nri.Container | None = None
    ) -> None:
        async with self._turn:
            if self._per_event_requests:
                await self._call(method, nri.EventRequest(pod=pod, container=container), nri.Empty)
            else:
                change = nri.StateChangeEvent(event=event, pod=pod, container=container)
                await self._call("StateChange", change, nri.Empty)

    async def _call(self, method: str, request: Message, reply_type: type[_Reply]) -> _Reply:
        assert self._current is not None, "no plugin is registered"
        try:
            return await self._current.client.call(
                PLUGIN_SERVICE, method, request, reply_type, timeout_s=self.request_timeout_s
            )
        except TimeoutError:
            await self.disconnect()
            raise

    async def _update_containers(self, request: nri.UpdateContainersRequest) -> nri.UpdateContainersResponse:
        async with self._turn:
            refused = [each for each in request.update if each.container_id in self.refuse_updates]
            self._update(each for each in request.update if each.container_id not in self.refuse_updates)
        return nri.UpdateContainersResponse(failed=refused)

    def _update(self, updates: Iterable[nri.ContainerUpdate]) -> None:
        for update in updates:
            self.updates.append(update)
            self._merge(self.containers[update.container_id], update.linux.resources)

    def _merge(self, container: nri.Container, resources: nri.LinuxResources) -> None:
        container.linux.resources.MergeFrom(resources)
        if container.state == nri.CONTAINER_RUNNING and container.id in self.running:
            self.running[container.id].MergeFrom(resources)


class _Plugin:
    """A connected plugin."""

    def __init__(
        self,
        trunk: Trunk,
        update_containers: Callable[[nri.UpdateContainersRequest], Awaitable[nri.UpdateContainersResponse]],
    ) -> None:
        self._trunk = trunk
        self.registration: asyncio.Future[nri.RegisterPluginRequest] = asyncio.get_running_loop().create_future()
        self.client = TtrpcClient(lambda frame: trunk.send(PLUGIN_CONNECTION, frame))
        methods = {
            "RegisterPlugin": unary(nri.RegisterPluginRequest, self._register),
            "UpdateContainers": unary(nri.UpdateContainersRequest, update_containers),
        }
        self._server = TtrpcServer({RUNTIME_SERVICE: methods}, lambda frame: trunk.send(RUNTIME_CONNECTION, frame))
        trunk.open(PLUGIN_CONNECTION, self.client.feed)
        trunk.open(RUNTIME_CONNECTION, self._server.feed)
        self._running = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Close the connection."""
        await self._trunk.close()
        await self._running

    async def _run(self) -> None:
        # What ends a connection is seen at the plugin.
        with contextlib.suppress(ConnectionError):
            await self._trunk.run()
        self.client.close()
        await self._server.close()
        await self._trunk.close()

    async def _register(self, request: nri.RegisterPluginRequest) -> nri.Empty:
        self.registration.set_result(request)
        return nri.Empty()
