"""Reads and changes the node for the resource manager: the service behind the cluster interface.

Labels, annotations and capacity are merge patches, so that concurrent writers of other keys do not meet. Taints are one
list: it is read, changed and written with its resourceVersion, and again from the start where it has changed meanwhile.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from joulie_api.client import KubeClient
from joulie_api.decoding import decode
from joulie_api.errors import Conflict, KubeError
from joulie_api.pod_events import PodEvent, PodEvents
from joulie_api.resources import NODES
from joulie_api.wire.metadata import WireObject
from joulie_api.wire.quantities import WireQuantities, quantities
from joulie_containers.node_agent.node_metadata import (
    annotation_problems,
    capacity_problems,
    label_problems,
    taint_problems,
)
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import InvalidCallError

#: Attempts to write taints; each that fails means that another writer succeeded.
_TAINT_ATTEMPTS: Final = 10

_Taints = list[dict[str, Any]]


class _Spec(msgspec.Struct):
    taints: _Taints | None = None


class _Status(msgspec.Struct):
    capacity: WireQuantities | None = None


class _RawNode(WireObject):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODES: Final = msgspec.json.Decoder(_RawNode)


class NodeChanges:
    """Serves the cluster interface for one node.

    Args:
        client: client of the API server.
        node: name of the node.
        field_manager: owner of what is written.
        events: Events about pods.
        problem: returns why requests cannot be served now; None where they can.
    """

    def __init__(
        self,
        client: KubeClient,
        node: str,
        *,
        field_manager: str,
        events: PodEvents,
        problem: Callable[[], str | None],
    ) -> None:
        self._client = client
        self._node = node
        self._field_manager = field_manager
        self._events = events
        self._problem = problem

    async def get_node(self, request: pb.Nothing) -> pb.NodeMetadata:
        """Return the node."""
        del request
        try:
            node = await self._read()
        except KubeError as error:
            raise InvalidCallError(str(error)) from error
        return pb.NodeMetadata(
            name=self._node,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
            taints=[
                pb.Taint(key=each.get("key", ""), value=each.get("value", ""), effect=each.get("effect", ""))
                for each in node.spec.taints or ()
            ],
            capacity=quantities(node.status.capacity),
        )

    async def update_labels(self, request: pb.MapUpdate) -> pb.Nothing:
        """Set and remove labels."""
        _refuse(label_problems(request.set, request.remove))
        return await self._patch({"metadata": {"labels": _merge(request)}})

    async def update_annotations(self, request: pb.MapUpdate) -> pb.Nothing:
        """Set and remove annotations."""
        _refuse(annotation_problems(request.set, request.remove))
        return await self._patch({"metadata": {"annotations": _merge(request)}})

    async def update_capacity(self, request: pb.MapUpdate) -> pb.Nothing:
        """Set and remove capacities of extended resources."""
        _refuse(capacity_problems(request.set, request.remove))
        return await self._patch({"status": {"capacity": _merge(request)}}, subresource="status")

    async def update_taints(self, request: pb.TaintsUpdate) -> pb.Nothing:
        """Set and remove taints; those that others have set stay as they are."""
        _refuse(taint_problems([*request.set, *request.remove]))
        for _ in range(_TAINT_ATTEMPTS):
            try:
                node = await self._read()
                old = node.spec.taints or []
                new = _changed(old, request)
                if new == old:
                    return pb.Nothing()
                version = {"resourceVersion": node.metadata.resource_version}
                return await self._merged({"metadata": version, "spec": {"taints": new}})
            except Conflict:
                continue
            except KubeError as error:
                raise InvalidCallError(str(error)) from error
        raise InvalidCallError(f"the node changed during each of {_TAINT_ATTEMPTS} attempts to write its taints")

    async def record_events(self, request: pb.EventsRequest) -> pb.Nothing:
        """Queue warning Events of pods."""
        for event in request.events:
            self._events.record(PodEvent(event.namespace, event.pod, event.pod_uid, event.reason, event.message))
        return pb.Nothing()

    async def health_check(self, request: pb.Nothing) -> pb.HealthCheckReply:
        """Return whether requests can be served now."""
        del request
        return pb.HealthCheckReply(problem=self._problem() or "")

    async def _read(self) -> _RawNode:
        raw = await self._client.get(NODES, self._node)
        return decode(_NODES.decode, raw, "Node")

    async def _patch(self, body: Mapping[str, Any], *, subresource: str | None = None) -> pb.Nothing:
        try:
            return await self._merged(body, subresource=subresource)
        except KubeError as error:
            raise InvalidCallError(str(error)) from error

    async def _merged(self, body: Mapping[str, Any], *, subresource: str | None = None) -> pb.Nothing:
        await self._client.merge_patch(
            NODES, self._node, body, subresource=subresource, field_manager=self._field_manager
        )
        return pb.Nothing()


def _refuse(problems: Iterable[str]) -> None:
    if text := "; ".join(sorted(problems)):
        raise InvalidCallError(text)


def _merge(request: pb.MapUpdate) -> dict[str, str | None]:
    return {**dict.fromkeys(request.remove), **request.set}


def _changed(taints: _Taints, request: pb.TaintsUpdate) -> _Taints:
    """Return a list of taints with the changes of a request; one that is there already stays as it is."""
    removed = {(each.key, each.value, each.effect) for each in request.remove}
    wanted = {(each.key, each.effect): each.value for each in request.set}
    kept: _Taints = []
    for taint in taints:
        key, value, effect = (str(taint.get(name, "")) for name in ("key", "value", "effect"))
        if (key, value, effect) in removed:
            continue
        if (key, effect) not in wanted:
            kept.append(taint)
        elif wanted[key, effect] == value:
            kept.append(taint)
            del wanted[key, effect]
    return [*kept, *({"key": key, "value": value, "effect": effect} for (key, effect), value in wanted.items())]
