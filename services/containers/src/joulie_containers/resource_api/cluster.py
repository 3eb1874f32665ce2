"""The cluster interface: the node agent serves it, the resource manager calls it. All calls are about their node."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ApiChannel, CallShape, serving

_SERVICE: Final = "joulie.resources.v1.Cluster"
_GET_NODE: Final = CallShape(_SERVICE, "GetNode", pb.Nothing, pb.NodeMetadata)
_UPDATE_LABELS: Final = CallShape(_SERVICE, "UpdateLabels", pb.MapUpdate, pb.Nothing)
_UPDATE_ANNOTATIONS: Final = CallShape(_SERVICE, "UpdateAnnotations", pb.MapUpdate, pb.Nothing)
_UPDATE_TAINTS: Final = CallShape(_SERVICE, "UpdateTaints", pb.TaintsUpdate, pb.Nothing)
_UPDATE_CAPACITY: Final = CallShape(_SERVICE, "UpdateCapacity", pb.MapUpdate, pb.Nothing)
_RECORD_EVENTS: Final = CallShape(_SERVICE, "RecordEvents", pb.EventsRequest, pb.Nothing)
_HEALTH_CHECK: Final = CallShape(_SERVICE, "HealthCheck", pb.Nothing, pb.HealthCheckReply)


class ClusterService(Protocol):
    """Calls that the node agent serves. InvalidCallError refuses one, such as a capacity of `cpu`."""

    async def get_node(self, request: pb.Nothing) -> pb.NodeMetadata:
        """Return the node."""

    async def update_labels(self, request: pb.MapUpdate) -> pb.Nothing:
        """Set and remove labels."""

    async def update_annotations(self, request: pb.MapUpdate) -> pb.Nothing:
        """Set and remove annotations."""

    async def update_taints(self, request: pb.TaintsUpdate) -> pb.Nothing:
        """Set and remove taints."""

    async def update_capacity(self, request: pb.MapUpdate) -> pb.Nothing:
        """Set and remove capacities of extended resources."""

    async def record_events(self, request: pb.EventsRequest) -> pb.Nothing:
        """Record warning Events of pods."""

    async def health_check(self, request: pb.Nothing) -> pb.HealthCheckReply:
        """Return whether requests can be served now."""


def serve_cluster(path: Path, service: ClusterService, *, gid: int | None = None) -> AbstractAsyncContextManager[None]:
    """Serve the cluster interface on a socket; `gid` as for `serving`."""
    return serving(
        path,
        {
            _GET_NODE: service.get_node,
            _UPDATE_LABELS: service.update_labels,
            _UPDATE_ANNOTATIONS: service.update_annotations,
            _UPDATE_TAINTS: service.update_taints,
            _UPDATE_CAPACITY: service.update_capacity,
            _RECORD_EVENTS: service.record_events,
            _HEALTH_CHECK: service.health_check,
        },
        gid=gid,
    )


class ClusterClient:
    """Calls the node agent of the same pod.

    Methods raise ResourceApiUnavailableError where there is no answer in time, and ResourceApiError where a call
    was refused.
    """

    def __init__(self, path: Path) -> None:
        self._channel = ApiChannel(path)

    async def node(self) -> pb.NodeMetadata:
        """Return labels, annotations, taints and capacity of the node."""
        return await self._channel.call(_GET_NODE, pb.Nothing())

    async def labels(self) -> dict[str, str]:
        """Return the labels of the node."""
        return dict((await self.node()).labels)

    async def set_labels(self, labels: Mapping[str, str]) -> None:
        """Set labels; others stay."""
        await self._channel.call(_UPDATE_LABELS, pb.MapUpdate(set=labels))

    async def remove_labels(self, keys: Iterable[str]) -> None:
        """Remove labels; absent ones change nothing."""
        await self._channel.call(_UPDATE_LABELS, pb.MapUpdate(remove=keys))

    async def annotations(self) -> dict[str, str]:
        """Return the annotations of the node."""
        return dict((await self.node()).annotations)

    async def set_annotations(self, annotations: Mapping[str, str]) -> None:
        """Set annotations; others stay."""
        await self._channel.call(_UPDATE_ANNOTATIONS, pb.MapUpdate(set=annotations))

    async def remove_annotations(self, keys: Iterable[str]) -> None:
        """Remove annotations; absent ones change nothing."""
        await self._channel.call(_UPDATE_ANNOTATIONS, pb.MapUpdate(remove=keys))

    async def taints(self) -> Sequence[pb.Taint]:
        """Return the taints of the node."""
        return list((await self.node()).taints)

    async def set_taints(self, taints: Iterable[pb.Taint]) -> None:
        """Set taints, in place of those with the same key and effect; others stay."""
        await self._channel.call(_UPDATE_TAINTS, pb.TaintsUpdate(set=taints))

    async def remove_taints(self, taints: Iterable[pb.Taint]) -> None:
        """Remove taints by key, value and effect; absent ones change nothing."""
        await self._channel.call(_UPDATE_TAINTS, pb.TaintsUpdate(remove=taints))

    async def capacity(self) -> dict[str, str]:
        """Return the capacity of the node, as quantities by resource."""
        return dict((await self.node()).capacity)

    async def set_capacity(self, capacity: Mapping[str, str]) -> None:
        """Set capacities of extended resources, as quantities; others stay."""
        await self._channel.call(_UPDATE_CAPACITY, pb.MapUpdate(set=capacity))

    async def remove_capacity(self, resources: Iterable[str]) -> None:
        """Remove extended resources; absent ones change nothing."""
        await self._channel.call(_UPDATE_CAPACITY, pb.MapUpdate(remove=resources))

    async def record_events(self, events: Iterable[pb.PodEvent]) -> None:
        """Record warning Events of pods."""
        await self._channel.call(_RECORD_EVENTS, pb.EventsRequest(events=events))

    async def health(self) -> str | None:
        """Return why the node agent cannot serve requests now; None where it can."""
        return (await self._channel.call(_HEALTH_CHECK, pb.Nothing())).problem or None

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()
