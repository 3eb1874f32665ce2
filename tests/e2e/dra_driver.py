"""A driver of dynamic resource allocation for a real kubelet, whose devices are GPUs that a test's driver has.

Source: Kubernetes, "Dynamic Resource Allocation" (v1); Container Device Interface, by which a container learns its GPU.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import grpc
from grpc import aio
from tests.e2e.device_plugin import GPU_INDEX
from tests.e2e.proto import dra_pb2 as pb

from joulie_api.client import KubeClient
from joulie_api.resources import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from joulie_devcluster.real_node.node import RealNode
from joulie_testing.api import make_device_class

DRIVER: Final = "gpu.nvidia.com"
_CDI_KIND: Final = "test.joulie.io/gpu"
#: As the kubelet sees it.
_KUBELET: Final = PurePosixPath("/var/lib/kubelet")
_ENDPOINT: Final = PurePosixPath("plugins", DRIVER, "dra.sock")
_REGISTRATION: Final = PurePosixPath("plugins_registry", f"{DRIVER}-reg.sock")
_REGISTER_TIMEOUT_S: Final = 30.0


@dataclass(slots=True)
class DraDriver:
    """The driver of one node.

    Attributes:
        node: the node.
        client: of the API server, by which the driver reads claims and publishes its devices.
        gpus: indices of its GPUs.
        lock_mhz: returns the clock that a GPU is held to, 0 for none.
        assigned_mhz: by index of a GPU, that clock at the time of the kubelet's last request to prepare it.
    """

    node: RealNode
    client: KubeClient
    gpus: Sequence[int]
    lock_mhz: Callable[[int], int]
    assigned_mhz: dict[int, int] = field(default_factory=dict)
    _status: "asyncio.Queue[pb.RegistrationStatus]" = field(default_factory=asyncio.Queue)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve, publish the devices, and wait until the kubelet has registered the driver.

        Raises:
            AssertionError: the kubelet refuses it.
        """
        directory = self.node.layout.root / "kubelet"
        self._write_cdi()
        (directory / _ENDPOINT).parent.mkdir(parents=True, exist_ok=True)
        server = aio.server()
        server.add_generic_rpc_handlers(self._handlers())
        # The kubelet asks as soon as it finds the second.
        for socket in (_ENDPOINT, _REGISTRATION):
            server.add_insecure_port(f"unix:{directory / socket}")
        await server.start()
        try:
            async with asyncio.timeout(_REGISTER_TIMEOUT_S):
                status = await self._status.get()
            assert status.plugin_registered, status.error
            await self.client.create(DEVICE_CLASSES, make_device_class(DRIVER))
            await self.client.create(RESOURCE_SLICES, self._slice())
            yield
        finally:
            await server.stop(grace=1.0)

    def _write_cdi(self) -> None:
        devices = [{"name": _device(index), "containerEdits": {"env": [f"{GPU_INDEX}={index}"]}} for index in self.gpus]
        path = Path(self.node.layout.run / "cdi" / "gpus.json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": _CDI_KIND, "devices": devices}))

    def _slice(self) -> dict[str, Any]:
        name = self.node.name
        attributes = {index: {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{index}"}} for index in self.gpus}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpus"},
            "spec": {
                "driver": DRIVER,
                "nodeName": name,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": _device(index), "attributes": each} for index, each in attributes.items()],
            },
        }

    def _handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        def of(call: Any, request: Any, reply: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                call, request_deserializer=request.FromString, response_serializer=reply.SerializeToString
            )

        registration = {
            "GetInfo": of(self._info, pb.InfoRequest, pb.PluginInfo),
            "NotifyRegistrationStatus": of(self._notified, pb.RegistrationStatus, pb.RegistrationStatusResponse),
        }
        plugin = {
            "NodePrepareResources": of(self._prepare, pb.NodePrepareResourcesRequest, pb.NodePrepareResourcesResponse),
            "NodeUnprepareResources": of(
                self._unprepare, pb.NodeUnprepareResourcesRequest, pb.NodeUnprepareResourcesResponse
            ),
        }
        return (
            grpc.method_handlers_generic_handler("pluginregistration.Registration", registration),
            grpc.method_handlers_generic_handler("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", plugin),
        )

    async def _info(self, _request: pb.InfoRequest, _context: Any) -> pb.PluginInfo:
        return pb.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(_KUBELET / _ENDPOINT), supported_versions=["v1.DRAPlugin"]
        )

    async def _notified(self, status: pb.RegistrationStatus, _context: Any) -> pb.RegistrationStatusResponse:
        self._status.put_nowait(status)
        return pb.RegistrationStatusResponse()

    async def _prepare(self, request: pb.NodePrepareResourcesRequest, _context: Any) -> pb.NodePrepareResourcesResponse:
        return pb.NodePrepareResourcesResponse(claims={each.uid: await self._prepared(each) for each in request.claims})

    async def _prepared(self, claim: pb.Claim) -> pb.NodePrepareResourceResponse:
        found = json.loads(await self.client.get(RESOURCE_CLAIMS, claim.name, claim.namespace))
        results = found["status"]["allocation"]["devices"]["results"]
        for each in results:
            index = int(each["device"].removeprefix("gpu-"))
            self.assigned_mhz[index] = self.lock_mhz(index)
        return pb.NodePrepareResourceResponse(
            devices=[
                pb.PreparedDevice(
                    request_names=[each["request"]],
                    pool_name=each["pool"],
                    device_name=each["device"],
                    cdi_device_ids=[f"{_CDI_KIND}={each['device']}"],
                )
                for each in results
            ]
        )

    async def _unprepare(
        self, request: pb.NodeUnprepareResourcesRequest, _context: Any
    ) -> pb.NodeUnprepareResourcesResponse:
        return pb.NodeUnprepareResourcesResponse(
            claims={each.uid: pb.NodeUnprepareResourceResponse() for each in request.claims}
        )


def _device(index: int) -> str:
    return f"gpu-{index}"
