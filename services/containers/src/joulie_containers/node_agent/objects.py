"""Objects that configure container resources, as one node sees them: without the status of other nodes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.resources import BALLOONS_POLICIES, TEMPLATE_POLICIES, TOPOLOGY_AWARE_POLICIES, Resource
from joulie_api.wire.metadata import WireObject
from joulie_core.kinds.base import API_VERSION

POLICY_RESOURCES: Final = (BALLOONS_POLICIES, TOPOLOGY_AWARE_POLICIES, TEMPLATE_POLICIES)

#: An entry in `status.nodes`.
Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Key of an object: its kind and name."""

    resource: Resource
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeObject:
    """One object. Two with the same key, uid and generation have the same spec."""

    key: ObjectKey
    uid: str
    generation: int
    #: As at the API server.
    spec: Mapping[str, Any] = field(compare=False)
    #: `metadata.resourceVersion`.
    version: str = field(default="", compare=False)
    #: What this node has written into `status.nodes`; None for nothing.
    entry: Entry | None = field(default=None, compare=False)

    def manifest(self) -> str:
        """Return what is sent to the resource manager, as JSON."""
        document = {
            "apiVersion": API_VERSION,
            "kind": self.key.resource.kind,
            "metadata": {"name": self.key.name, "generation": self.generation},
            "spec": self.spec,
        }
        return msgspec.json.encode(document).decode()


class _Status(msgspec.Struct):
    nodes: dict[str, msgspec.Raw] | None = None


class _PolicyObject(WireObject):
    spec: dict[str, Any] | None = None
    status: _Status | None = None


_DECODER: Final = msgspec.json.Decoder(_PolicyObject)
_ENTRY: Final = msgspec.json.Decoder(dict[str, Any])


def decode_object(resource: Resource, node: str) -> Callable[[bytes], NodeObject]:
    """Return a decoder of objects of a resource, which raises DecodeError."""

    def read(raw: bytes) -> NodeObject:
        wire = decode(_DECODER.decode, raw, resource.kind)
        mine = ((wire.status and wire.status.nodes) or {}).get(node)
        entry = None if mine is None else decode(_ENTRY.decode, mine, f"entry of a {resource.kind}")
        meta = wire.metadata
        return NodeObject(
            ObjectKey(resource, meta.name), meta.uid, meta.generation, wire.spec or {}, meta.resource_version, entry
        )

    return read
