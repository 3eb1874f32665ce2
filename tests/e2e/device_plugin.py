"""A device plugin for a real kubelet, which gives a container one of the GPUs that a test's driver has.

Source: Kubernetes, "Device Plugins" (v1beta1). The plugin serves a socket in the kubelet's directory and registers it;
a kubelet that starts removes the socket, and the plugin registers anew.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from grpc import aio
from tests.e2e.proto import device_plugin_pb2 as pb

#: In a container: indices of the GPUs that it has, with `-` between.
GPU_INDEX: Final = "GPU_INDEX"
_VERSION: Final = "v1beta1"
_SERVICE: Final = "v1beta1.DevicePlugin"
_REGISTER_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.005


@dataclass(slots=True)
class DevicePlugin:
    """The plugin of one resource.

    Attributes:
        directory: the kubelet's directory of device plugins.
        resource: name of the resource.
        gpus: index of the GPU behind each device id.
        lock_mhz: returns the clock that the driver holds a GPU to, 0 for none.
        assigned_mhz: by index of a GPU, that clock at the time of the kubelet's last assignment of a device of it.
        lifts_s: times from an assignment of a device of a limited GPU to the end of the limit, in seconds.
    """

    directory: Path
    resource: str
    gpus: Mapping[str, int]
    lock_mhz: Callable[[int], int]
    assigned_mhz: dict[int, int] = field(default_factory=dict)
    lifts_s: list[float] = field(default_factory=list)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _timing: set["asyncio.Task[None]"] = field(default_factory=set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve and register, until the context ends.

        Raises:
            grpc.RpcError: the kubelet does not take the registration.
        """
        self._ended.clear()
        server = aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, self._handlers()),))
        endpoint = f"{self.resource.replace('/', '_')}.sock"
        (self.directory / endpoint).unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{self.directory / endpoint}")
        await server.start()
        try:
            await self._register(endpoint)
            yield
        finally:
            self._ended.set()
            await server.stop(grace=1.0)

    async def _register(self, endpoint: str) -> None:
        request = pb.RegisterRequest(
            version=_VERSION, endpoint=endpoint, resource_name=self.resource, options=self._options()
        )
        async with aio.insecure_channel(f"unix:{self.directory / 'kubelet.sock'}") as channel:
            register: Any = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=pb.RegisterRequest.SerializeToString,
                response_deserializer=pb.Empty.FromString,
            )
            await register(request, timeout=_REGISTER_TIMEOUT_S, wait_for_ready=True)

    def _handlers(self) -> dict[str, Any]:
        def of(call: Any, request: Any, reply: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                call, request_deserializer=request.FromString, response_serializer=reply.SerializeToString
            )

        return {
            "GetDevicePluginOptions": of(self._get_options, pb.Empty, pb.DevicePluginOptions),
            "GetPreferredAllocation": of(self._prefer, pb.PreferredAllocationRequest, pb.PreferredAllocationResponse),
            "Allocate": of(self._allocate, pb.AllocateRequest, pb.AllocateResponse),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._list,
                request_deserializer=pb.Empty.FromString,
                response_serializer=pb.ListAndWatchResponse.SerializeToString,
            ),
        }

    @staticmethod
    def _options() -> pb.DevicePluginOptions:
        return pb.DevicePluginOptions(get_preferred_allocation_available=True)

    async def _get_options(self, _request: pb.Empty, _context: Any) -> pb.DevicePluginOptions:
        return self._options()

    async def _list(self, _request: pb.Empty, _context: Any) -> AsyncIterator[pb.ListAndWatchResponse]:
        yield pb.ListAndWatchResponse(devices=[pb.Device(ID=each, health="Healthy") for each in self.gpus])
        await self._ended.wait()

    async def _prefer(self, request: pb.PreferredAllocationRequest, _context: Any) -> pb.PreferredAllocationResponse:
        return pb.PreferredAllocationResponse(
            container_responses=[
                pb.ContainerPreferredAllocationResponse(
                    deviceIDs=self._preferred(each.available_deviceIDs)[: each.allocation_size]
                )
                for each in request.container_requests
            ]
        )

    def _preferred(self, available: Iterable[str]) -> list[str]:
        """Return devices: of limited GPUs first, then one of each GPU, then of those GPUs of which most is free."""
        ids = sorted(available)
        free, turns = Counter(self.gpus[each] for each in ids), Counter[int]()
        keys: dict[str, tuple[bool, int, int]] = {}
        for each in ids:
            gpu = self.gpus[each]
            keys[each] = (not self.lock_mhz(gpu), turns[gpu], -free[gpu])
            turns[gpu] += 1
        return sorted(ids, key=keys.__getitem__)

    async def _allocate(self, request: pb.AllocateRequest, _context: Any) -> pb.AllocateResponse:
        return pb.AllocateResponse(
            container_responses=[self._assign(list(each.devices_ids)) for each in request.container_requests]
        )

    def _assign(self, ids: list[str]) -> pb.ContainerAllocateResponse:
        indices = sorted({self.gpus[each] for each in ids})
        for index in indices:
            self.assigned_mhz[index] = self.lock_mhz(index)
            if self.assigned_mhz[index]:
                task = asyncio.create_task(self._time_lift(index))
                self._timing.add(task)
                task.add_done_callback(self._timing.discard)
        return pb.ContainerAllocateResponse(envs={GPU_INDEX: "-".join(map(str, indices))})

    async def _time_lift(self, index: int) -> None:
        loop = asyncio.get_running_loop()
        assigned_at = loop.time()
        while self.lock_mhz(index) and not self._ended.is_set():  # noqa: ASYNC110 - the driver is a file
            await asyncio.sleep(_POLL_S)
        self.lifts_s.append(loop.time() - assigned_at)
