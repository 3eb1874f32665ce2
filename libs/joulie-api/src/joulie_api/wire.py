"""Decoding of the API server's JSON: list pages, Nodes, Pods, and the custom resources.

Only fields that Joulie reads are decoded, the others are skipped; an absent or null field is its default, as in Go.
Quantities stay as written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec
import pydantic

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.json_slices import elements, members
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.pod import Container, Pod, PodClaim, Requirement, SelectorOperator, Term
from joulie_core.text import printable

M = TypeVar("M", bound=pydantic.BaseModel)

_Strings = dict[str, str] | None
#: Quantities are strings on the wire, but a hand-written request may say `1`.
_Quantities = dict[str, str | int | float] | None

#: A copy of the whole object, written by kubectl: never read here, and it would double an object's memory.
_UNREAD_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"

#: Characters of a name in a message; names of Kubernetes are at most as long.
_MAX_NAME: Final = 253


class ListMeta(msgspec.Struct, rename="camel"):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """One page of a list, its items still raw JSON."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WireMeta(msgspec.Struct, rename="camel"):
    """The fields of `metadata` that are read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: _Strings = None
    annotations: _Strings = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _WireObject(msgspec.Struct):
    metadata: WireMeta


class WireIdentity(msgspec.Struct, rename="camel"):
    """The fields of `metadata` that tell an object and its version from others."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _WireIdentified(msgspec.Struct):
    metadata: WireIdentity


class _WireNodeSpec(msgspec.Struct):
    unschedulable: bool = False


class _WireNodeStatus(msgspec.Struct):
    allocatable: _Quantities = None
    capacity: _Quantities = None


class WireNode(msgspec.Struct):
    """A Node on the wire."""

    metadata: WireMeta
    spec: _WireNodeSpec | None = None
    status: _WireNodeStatus | None = None


class _WireResources(msgspec.Struct):
    requests: _Quantities = None
    limits: _Quantities = None


class _WireContainer(msgspec.Struct, rename="camel"):
    name: str = ""
    resources: _WireResources | None = None
    restart_policy: str | None = None


class _WireRequirement(msgspec.Struct):
    key: str
    operator: SelectorOperator
    values: list[str] | None = None


class _WireTerm(msgspec.Struct, rename="camel"):
    match_expressions: list[_WireRequirement] | None = None
    match_fields: list[msgspec.Raw] | None = None


class _WireRequired(msgspec.Struct, rename="camel"):
    node_selector_terms: list[_WireTerm] | None = None


class _WireNodeAffinity(msgspec.Struct):
    required: _WireRequired | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class _WireAffinity(msgspec.Struct, rename="camel"):
    node_affinity: _WireNodeAffinity | None = None


class _WirePodClaim(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _WirePodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    node_selector: _Strings = None
    affinity: _WireAffinity | None = None
    containers: list[_WireContainer] | None = None
    init_containers: list[_WireContainer] | None = None
    overhead: _Quantities = None
    resources: _WireResources | None = None
    resource_claims: list[_WirePodClaim] | None = None


class _WireContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    allocated_resources: _Quantities = None
    resources: _WireResources | None = None


class _WirePodStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    container_statuses: list[_WireContainerStatus] | None = None
    init_container_statuses: list[_WireContainerStatus] | None = None
    resource_claim_statuses: list[_WirePodClaim] | None = None


class WirePod(msgspec.Struct):
    """A Pod on the wire, as the API server and kube-scheduler send it."""

    metadata: WireMeta
    spec: _WirePodSpec | None = None
    status: _WirePodStatus | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """`metadata` of a custom resource; times are RFC 3339 as written."""

    name: str
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    created_at: str | None = None
    deleted_at: str | None = None

    @property
    def deleting(self) -> bool:
        """Whether deletion was requested and waits for a finalizer."""
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True)
class Versioned(Generic[M]):
    """A custom resource as read: its metadata, and spec and status as its model has them."""

    metadata: Metadata
    model: M

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name


_PAGES: Final = msgspec.json.Decoder(ListPage)
_NODES: Final = msgspec.json.Decoder(WireNode)
_PODS: Final = msgspec.json.Decoder(WirePod)
_OBJECTS: Final = msgspec.json.Decoder(_WireObject)
_LIST_METAS: Final = msgspec.json.Decoder(ListMeta)
_IDENTITIES: Final = msgspec.json.Decoder(WireIdentity)
_IDENTITY: Final = tuple(each.encode_name for each in msgspec.structs.fields(WireIdentity))
_IDENTIFIED: Final = msgspec.json.Decoder(_WireIdentified)


def decode_page(raw: bytes) -> ListPage:
    """Split a list page into its items.

    Raises:
        DecodeError: not a list.
    """
    try:
        return decode(_PAGES.decode, raw, "list")
    except DecodeError:
        # One item may be nested too deeply for a decoder that skips it.
        fields = members(raw)
        meta = decode(_LIST_METAS.decode, fields.get("metadata", b""), "list")
        items = fields.get("items", b"null")
        return ListPage(meta, [msgspec.Raw(each) for each in ([] if items == b"null" else elements(items))])


def decode_identity(raw: bytes | msgspec.Raw) -> WireIdentity:
    """Return what identifies any object and its version.

    Raises:
        DecodeError: not an object.
    """
    try:
        return decode(_IDENTIFIED.decode, raw, "object").metadata
    except DecodeError:
        # As for a page; `managedFields` are as deep as the fields that they name.
        meta = members(members(bytes(raw)).get("metadata", b""))
        read = b",".join(b'"%s":%s' % (key.encode(), meta[key]) for key in _IDENTITY if key in meta)
        return decode(_IDENTITIES.decode, b"{%s}" % read, "object")


def decode_node(raw: bytes) -> Node:
    """Decode a Node.

    Raises:
        DecodeError: not a Node.
    """
    return node_from_wire(decode(_NODES.decode, raw, "Node"))


def decode_pod(raw: bytes) -> Pod:
    """Decode a Pod.

    Raises:
        DecodeError: not a Pod.
    """
    return pod_from_wire(decode(_PODS.decode, raw, "Pod"))


def decode_kind(model: type[M]) -> Callable[[bytes], Versioned[M]]:
    """Return a decoder of one custom resource; it raises a DecodeError that names the invalid field."""

    def read(raw: bytes) -> Versioned[M]:
        meta = decode(_OBJECTS.decode, raw, model.__name__).metadata
        what = f"{model.__name__} {printable(meta.name, _MAX_NAME)}"
        return Versioned(metadata_from_wire(meta), decode(model.model_validate_json, raw, what))

    return read


def node_from_wire(wire: WireNode) -> Node:
    """Convert a decoded Node to the model that decisions use."""
    meta = wire.metadata
    return Node(
        name=NodeName(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        annotations=_annotations(meta),
        unschedulable=wire.spec.unschedulable if wire.spec else False,
        allocatable=_quantities(wire.status.allocatable if wire.status else None),
        capacity=_extended(wire.status.capacity if wire.status else None),
        deleting=meta.deletion_timestamp is not None,
    )


def pod_from_wire(wire: WirePod) -> Pod:
    """Convert a decoded Pod to the model that decisions use."""
    meta, spec, status = wire.metadata, wire.spec or _WirePodSpec(), wire.status or _WirePodStatus()
    return Pod(
        name=meta.name,
        namespace=meta.namespace or "default",
        uid=meta.uid,
        resource_version=meta.resource_version,
        node_name=NodeName(spec.node_name) if spec.node_name else None,
        phase=status.phase or "Pending",
        deleting=meta.deletion_timestamp is not None,
        labels=meta.labels or {},
        annotations=_annotations(meta),
        node_selector=spec.node_selector or {},
        required_terms=_required_terms(spec.affinity),
        containers=_containers(spec.containers, status.container_statuses),
        init_containers=_containers(spec.init_containers, status.init_container_statuses),
        overhead=_quantities(spec.overhead),
        requests=_quantities(spec.resources.requests if spec.resources else None),
        limits=_quantities(spec.resources.limits if spec.resources else None),
        claims=_claims(spec.resource_claims, wire.status) if spec.resource_claims else (),
    )


def metadata_from_wire(meta: WireMeta) -> Metadata:
    """Convert decoded metadata to the model that services use."""
    return Metadata(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        labels=meta.labels or {},
        annotations=_annotations(meta),
        created_at=meta.creation_timestamp,
        deleted_at=meta.deletion_timestamp,
    )


def _annotations(meta: WireMeta) -> Mapping[str, str]:
    annotations = meta.annotations or {}
    annotations.pop(_UNREAD_ANNOTATION, None)
    return annotations


def _quantities(wire: _Quantities) -> Mapping[str, str]:
    return {name: str(value) for name, value in wire.items()} if wire else {}


def _extended(wire: _Quantities) -> Mapping[str, str]:
    """Return the resources of device plugins, whose names have a domain."""
    return {name: str(value) for name, value in wire.items() if "/" in name} if wire else {}


def _containers(
    wire: list[_WireContainer] | None, statuses: list[_WireContainerStatus] | None
) -> tuple[Container, ...]:
    held = {status.name: _held(status) for status in statuses or ()}
    return tuple(
        Container(
            requests=_quantities(container.resources.requests if container.resources else None),
            limits=_quantities(container.resources.limits if container.resources else None),
            held=held.get(container.name, ()),
            sidecar=container.restart_policy == "Always",
        )
        for container in wire or ()
    )


def _held(status: _WireContainerStatus) -> tuple[Mapping[str, str], ...]:
    in_force = status.resources.requests if status.resources else None
    return tuple(_quantities(each) for each in (status.allocated_resources, in_force) if each)


def _claims(wire: list[_WirePodClaim], status: _WirePodStatus | None) -> tuple[PodClaim, ...]:
    made = {each.name: each.resource_claim_name for each in (status.resource_claim_statuses if status else None) or ()}
    return tuple(
        PodClaim(each.resource_claim_name or made.get(each.name), each.resource_claim_template_name) for each in wire
    )


def _required_terms(affinity: _WireAffinity | None) -> tuple[Term, ...] | None:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    if required is None:
        return None
    return tuple(
        Term(
            expressions=tuple(
                Requirement(expression.key, expression.operator, tuple(expression.values or ()))
                for expression in term.match_expressions or ()
            ),
            has_fields=bool(term.match_fields),
        )
        for term in required.node_selector_terms or ()
    )
