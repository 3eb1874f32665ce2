"""Interface of `joulie_containers.nri` to its user: what a plugin does with the requests of a container runtime."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from joulie_containers.nri.proto.nri_pb2 import (
    Container,
    ContainerUpdate,
    CreateContainerResponse,
    LinuxResources,
    PodSandbox,
    StopContainerResponse,
    SynchronizeResponse,
    UpdateContainerResponse,
)
from joulie_containers.nri.ttrpc import TtrpcCode, TtrpcError


class RequestRefusedError(TtrpcError):
    """A handler refuses a request; the text is shown to users, as in the status of a pod that cannot be created."""

    def __init__(self, text: str) -> None:
        super().__init__(TtrpcCode.UNKNOWN, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """The container runtime that the plugin is registered with."""

    #: Such as `containerd` and `v2.2.1`.
    name: str
    version: str
    #: Empty before NRI 0.12.
    nri_version: str
    #: The runtime disconnects a plugin that takes longer to reply.
    request_timeout_s: float
    #: From registration to the end of Configure.
    registration_timeout_s: float
    #: Content of the plugin's file under `/etc/nri/conf.d`; empty for a plugin that the runtime did not start.
    config: str


class NriHandler(Protocol):
    """Handles requests. Each runs in a task of its own; tasks start in the order in which the runtime sent them.

    Replies are the messages of the interface, and are sent as they are: one may update hundreds of containers.

    A request that raises is answered with the text of the exception: for `create_container` and `update_container` the
    runtime then fails the operation. Only RequestRefusedError is expected, everything else is logged with its trace.
    A request that runs into the runtime's timeout, or whose connection ends, is cancelled: there is no reply to make.

    No request may wait for `update_containers` of the connection, nor for a lock that is held meanwhile: the runtime
    does not accept updates while it waits for a reply.
    """

    async def configure(self, runtime: RuntimeInfo) -> None:
        """Note the runtime: a new registration begins. Raising refuses it."""

    async def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[Container]) -> SynchronizeResponse:
        """Return the updates of all that exists; from here on the plugin is registered."""

    async def run_pod(self, pod: PodSandbox) -> None:
        """Note a new pod."""

    async def stop_pod(self, pod: PodSandbox) -> None:
        """Note that a pod has been stopped."""

    async def remove_pod(self, pod: PodSandbox) -> None:
        """Note that a pod is gone."""

    async def create_container(self, pod: PodSandbox, container: Container) -> CreateContainerResponse:
        """Return what to adjust in a new container, and the updates of others."""

    async def start_container(self, pod: PodSandbox, container: Container) -> None:
        """Note that a container is about to start."""

    async def container_running(self, pod: PodSandbox, container: Container) -> None:
        """Note that a container has started."""

    async def update_container(
        self, pod: PodSandbox, container: Container, resources: LinuxResources
    ) -> UpdateContainerResponse:
        """Return the updates that follow from new resources; one may be of the container itself."""

    async def stop_container(self, pod: PodSandbox, container: Container) -> StopContainerResponse:
        """Return the updates of others that follow from a stopped container."""

    async def remove_container(self, pod: PodSandbox, container: Container) -> None:
        """Note that a container is gone."""

    async def disconnected(self) -> None:
        """Note that the runtime is gone, after all requests of the connection have ended.

        It follows every `configure`, also where the registration failed before `synchronize`.
        """


class NriClient(Protocol):
    """Requests of a plugin to the runtime."""

    async def update_containers(self, updates: Sequence[ContainerUpdate]) -> Sequence[ContainerUpdate]:
        """Update running containers outside of a request.

        Returns:
            Those that the runtime has not carried out.

        Raises:
            NriDisconnectedError: there is no registration, or it ended before the reply; the runtime may have carried
                out any of the updates.
            NriRequestError: the runtime refused the request as a whole, or did not reply in time; then it may have
                carried out any of the updates.
            RuntimeError: called by a handler of a request.
        """


class NriDisconnectedError(Exception):
    """The plugin is not registered with a runtime."""


class NriRequestError(Exception):
    """The runtime refused a request, or did not reply."""
