"""Pods on the wire."""

from collections.abc import Mapping
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire.metadata import WireMeta, read_annotations
from joulie_api.wire.quantities import WireQuantities, WireResources, quantities
from joulie_api.wire.terms import REQUIRED, WireNodeSelector
from joulie_core.names import NodeName
from joulie_core.pod import Container, Pod, PodClaim, Term


class _Port(msgspec.Struct, rename="camel", omit_defaults=True):
    host_port: int = 0


class WirePorts(msgspec.Struct, rename="camel", omit_defaults=True):
    """A container, as far as its ports of the node are concerned; it can be written out again."""

    ports: list[_Port] | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str = ""
    resources: WireResources | None = None
    restart_policy: str | None = None


class _NodeAffinity(msgspec.Struct):
    required: WireNodeSelector | None = msgspec.field(default=None, name=REQUIRED)


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _PodClaim(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: WireQuantities | None = None
    resources: WireResources | None = None
    resource_claims: list[_PodClaim] | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    name: str = ""
    allocated_resources: WireQuantities | None = None
    resources: WireResources | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str | None = None
    start_time: str | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resource_claim_statuses: list[_PodClaim] | None = None


class _Pod(msgspec.Struct):
    metadata: WireMeta
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


_PODS: Final = msgspec.json.Decoder(_Pod)


def decode_pod(raw: bytes) -> Pod:
    """Decode a Pod as the API server and kube-scheduler send it.

    Raises:
        DecodeError: not a Pod.
    """
    wire = decode(_PODS.decode, raw, "Pod")
    meta, spec, status = wire.metadata, wire.spec or _PodSpec(), wire.status or _PodStatus()
    return Pod(
        name=meta.name,
        namespace=meta.namespace or "default",
        uid=meta.uid,
        resource_version=meta.resource_version,
        node_name=NodeName(spec.node_name) if spec.node_name else None,
        phase=status.phase or "Pending",
        deleting=meta.deletion_timestamp is not None,
        labels=meta.labels or {},
        annotations=read_annotations(meta),
        node_selector=spec.node_selector or {},
        required_terms=_required_terms(spec.affinity),
        containers=_containers(spec.containers, status.container_statuses),
        init_containers=_containers(spec.init_containers, status.init_container_statuses),
        overhead=quantities(spec.overhead),
        requests=quantities(spec.resources.requests if spec.resources else None),
        limits=quantities(spec.resources.limits if spec.resources else None),
        claims=_claims(spec.resource_claims, wire.status) if spec.resource_claims else (),
        start_time=status.start_time,
    )


def _containers(wire: list[_Container] | None, statuses: list[_ContainerStatus] | None) -> tuple[Container, ...]:
    held = {status.name: _held(status) for status in statuses or ()}
    return tuple(
        Container(
            requests=quantities(container.resources.requests if container.resources else None),
            limits=quantities(container.resources.limits if container.resources else None),
            held=held.get(container.name, ()),
            sidecar=container.restart_policy == "Always",
        )
        for container in wire or ()
    )


def _held(status: _ContainerStatus) -> tuple[Mapping[str, str], ...]:
    in_force = status.resources.requests if status.resources else None
    return tuple(quantities(each) for each in (status.allocated_resources, in_force) if each)


def _claims(wire: list[_PodClaim], status: _PodStatus | None) -> tuple[PodClaim, ...]:
    made = {each.name: each.resource_claim_name for each in (status.resource_claim_statuses if status else None) or ()}
    return tuple(
        PodClaim(each.resource_claim_name or made.get(each.name), each.resource_claim_template_name) for each in wire
    )


def _required_terms(affinity: _Affinity | None) -> tuple[Term, ...] | None:
    required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
    return None if required is None else required.terms()
