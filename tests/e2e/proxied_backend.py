"""A Service whose only pod is a server of the test's own, for requests through the API server's proxy."""

import ipaddress
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.e2e.service_address import ServiceAddress

from joulie_api.client import KubeClient
from joulie_api.resources import PODS, SERVICES, Resource
from joulie_devcluster.host.ports import free_port

_ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints", namespaced=True)


@dataclass(frozen=True)
class ProxiedBackend:
    """One Service with one port.

    The API server connects to addresses of pods that are not on loopback, so that the pod gets such an address of this
    machine.
    """

    client: KubeClient
    namespace: str
    name: str
    #: Name of the port.
    port: str

    async def create(self, port: int, labels: Mapping[str, str] | None = None) -> None:
        """Create the Service, which selects no pods, so that its endpoints are the test's, and has none yet."""
        metadata = {"name": self.name, "labels": dict(labels or {})}
        spec = {"ports": [{"name": self.port, "port": port}]}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        await self.client.create(SERVICES, service, self.namespace)
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": self.name}}
        await self.client.create(_ENDPOINTS, endpoints, self.namespace)

    @asynccontextmanager
    async def answers(self, backend: int) -> AsyncIterator[None]:
        """Let a port of loopback answer until the end."""
        host, port, pod = _own_address(), free_port(), f"{self.name}-0"
        # No kubelet may write its status.
        spec = {"schedulingGates": [{"name": "joulie.io/never"}], "containers": [{"name": "main", "image": "none"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec}
        status = {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}]}
        address = {"ip": host, "targetRef": {"kind": "Pod", "name": pod, "namespace": self.namespace}}
        subset = {"addresses": [address], "ports": [{"name": self.port, "port": port}]}
        async with ServiceAddress(port, [backend], host):
            await self.client.create(PODS, body, self.namespace)
            await self.client.merge_patch(PODS, pod, {"status": status}, self.namespace, "status")
            await self.client.merge_patch(_ENDPOINTS, self.name, {"subsets": [subset]}, self.namespace)
            yield
        await self.client.delete(PODS, pod, self.namespace)


def _own_address() -> str:
    """Return an address of this machine that is not loopback; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        address: str = probe.getsockname()[0]
    assert not ipaddress.ip_address(address).is_loopback
    return address
