"""The parts of a pod that services read: its uid, its node, its phase, and its demand, computed once for equal pods.

Guarantees the demand that `joulie_api.wire.decode_pod` and `joulie_core` compute of the whole pod: a pod is reduced to
the fields that a demand depends on, those are written out again, and the demand is computed of nothing but what was
written. Equal bytes therefore have equal demands, and the last ones are kept: a burst is made of equal pods, and each
of them is sent again whenever its status changes. A pod with claims is computed anew each time, since its demand also
depends on the claims; so is one with extended resources that a device class may serve.

Reading takes a time that is bounded: what a demand depends on is cut out undecoded, and is not decoded where it has
more containers or members than any real pod.
Source: docs/results/cost-per-pod.md.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire import decode_pod
from joulie_api.wire.quantities import WireQuantities, WireRequests
from joulie_core.demand import workload_class
from joulie_core.labels import WORKLOAD_CLASS
from joulie_core.powerest.pod_demand import PodDemand, other_extended_resources, pod_demand

#: A part that is not looked into; left out of what is written where the pod does not have it.
_Part = msgspec.Raw | msgspec.UnsetType
#: Demands that are kept. Clusters have some hundred kinds of pods.
_KEPT: Final = 1024
#: Fields of more bytes are not kept: long selectors of an unusual pod.
_MAX_KEPT_BYTES: Final = 4096
#: Objects within the containers of a pod, with those of their environment and volumes: 0.1 microseconds each.
_MAX_CONTAINER_OBJECTS: Final = 100_000
#: Objects and members of objects that a demand is computed of: 2 to 4 microseconds each. A container has about ten.
MAX_DEMAND_PARTS: Final = 10_000


class _Annotations(msgspec.Struct, omit_defaults=True):
    workload_class: str | None = msgspec.field(default=None, name=WORKLOAD_CLASS)


class _Meta(msgspec.Struct, omit_defaults=True):
    name: str = ""
    uid: str = ""
    namespace: str = ""
    annotations: _Annotations | None = None


class _Container(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    resources: _Part = msgspec.UNSET
    restart_policy: _Part = msgspec.UNSET


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    node_name: str | None = None
    node_selector: _Part = msgspec.UNSET
    affinity: _Part = msgspec.UNSET
    containers: _Part = msgspec.UNSET
    init_containers: _Part = msgspec.UNSET
    overhead: _Part = msgspec.UNSET
    resources: _Part = msgspec.UNSET
    resource_claims: _Part = msgspec.UNSET
    #: No demand depends on it: it is taken out before a demand is computed.
    topology_spread_constraints: _Part = msgspec.UNSET


class _ContainerStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    allocated_resources: _Part = msgspec.UNSET
    resources: _Part = msgspec.UNSET


class _Status(msgspec.Struct, rename="camel", omit_defaults=True):
    phase: str | None = None
    container_statuses: _Part = msgspec.UNSET
    init_container_statuses: _Part = msgspec.UNSET
    resource_claim_statuses: _Part = msgspec.UNSET


class PodFields(msgspec.Struct, omit_defaults=True):
    """A pod on the wire, as far as a demand depends on it, and its uid, node and phase. Read it with `read`."""

    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None

    def read(self, claimed_gpus: ClaimedGpus = no_claims) -> "DemandingPod":
        """Return what services use; the object is not to be used afterwards.

        Raises:
            DecodeError: a field cannot be read.
            QuantityError: a quantity cannot be read.
        """
        meta, spec = self.metadata, self.spec
        annotation = meta.annotations.workload_class if meta.annotations else None
        phase = self.status.phase if self.status else None
        uid, node, resizing, constrained = meta.uid, None, None, False
        meta.name = meta.uid = ""
        if spec is not None:
            node, spec.node_name = spec.node_name or None, None
            constrained = _says(spec.node_selector) or _says(spec.affinity) or _says(spec.topology_spread_constraints)
            spec.topology_spread_constraints = msgspec.UNSET
            claims = spec.resource_claims is not msgspec.UNSET
            if claims or _may_be_resized(self.status):
                containers, init_containers = (
                    _items(_CONTAINERS, spec.containers),
                    _items(_CONTAINERS, spec.init_containers),
                )
                if not claims:
                    resizing = _resizing(containers, init_containers, self.status or _Status())
                spec.containers, spec.init_containers = _written(containers), _written(init_containers)
            else:
                spec.containers, spec.init_containers = _nameless(spec.containers), _nameless(spec.init_containers)
            if claims:
                demand, _ = _demand(_checked(_ENCODER.encode(self)), claimed_gpus)
                return DemandingPod(uid, node, phase, annotation, demand, with_claims=True, constrained=True)
        # Only claims depend on the namespace and on the rest of the status.
        meta.namespace, self.status = "", resizing
        fields = _ENCODER.encode(self)
        # Fields that are kept are too short to have too many parts.
        demand, is_open = _kept_demand(fields) if len(fields) <= _MAX_KEPT_BYTES else _demand(_checked(fields))
        if is_open:
            demand, _ = _demand(fields, claimed_gpus)
        return DemandingPod(
            uid, node, phase, annotation, demand, with_claims=is_open, constrained=constrained or is_open
        )


class DemandingPod(msgspec.Struct, frozen=True):
    """A pod as services use it; `uid` is empty and the others None where it has none."""

    uid: str
    node: str | None
    phase: str | None
    #: The value of the annotation for the workload class, which may be none of the known ones.
    annotation: str | None
    demand: PodDemand
    #: Whether the demand also depends on claims or device classes, and so on the moment.
    with_claims: bool = False
    #: Whether it asks for certain nodes: by a selector, affinity, spread constraints, claims or resources of classes.
    constrained: bool = False


_EMPTY: Final = (b"null", b"{}", b"[]")
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(PodFields)
_CONTAINERS: Final = msgspec.json.Decoder(list[_Container] | None)
_STATUSES: Final = msgspec.json.Decoder(list[_ContainerStatus] | None)
_QUANTITIES: Final = msgspec.json.Decoder(WireQuantities | None)
_RESOURCES: Final = msgspec.json.Decoder(WireRequests | None)
T = TypeVar("T")


def _may_be_resized(status: _Status | None) -> bool:
    """Return whether the state of a container may say what it holds, as the kubelet does once it has started it."""
    for part in (status.container_statuses, status.init_container_statuses) if status is not None else ():
        if isinstance(part, msgspec.UnsetType):
            continue
        raw = bytes(part)
        # With a backslash the name of a field could be written in another way.
        if b'"allocatedResources"' in raw or b'"resources"' in raw or b"\\" in raw:
            return True
    return False


def _nameless(containers: _Part) -> _Part:
    """Return what a demand depends on of containers that are as their spec has them."""
    if isinstance(containers, msgspec.UnsetType):
        return containers
    raw = bytes(containers)
    return _kept_nameless(raw) if len(raw) <= _MAX_KEPT_BYTES else _kept_nameless.__wrapped__(raw)


@lru_cache(maxsize=_KEPT)
def _kept_nameless(raw: bytes) -> _Part:
    items = _items(_CONTAINERS, msgspec.Raw(raw))
    for each in items or ():
        each.name = ""
    return _written(items)


def _resizing(
    containers: Sequence[_Container] | None, init_containers: Sequence[_Container] | None, status: _Status
) -> _Status | None:
    """Return the states of the containers where one holds other requests than it makes; None for all other pods.

    Without them the names of the containers go as well, so that equal pods stay equal whatever they run.
    """
    pairs = (
        (containers or (), _items(_STATUSES, status.container_statuses)),
        (init_containers or (), _items(_STATUSES, status.init_container_statuses)),
    )
    if any(_differ(of_spec, states or ()) for of_spec, states in pairs):
        return _Status(container_statuses=_written(pairs[0][1]), init_container_statuses=_written(pairs[1][1]))
    for of_spec, _ in pairs:
        for each in of_spec:
            each.name = ""
    return None


def _differ(containers: Iterable[_Container], states: Iterable[_ContainerStatus]) -> bool:
    held = {each.name: (_quantities(each.allocated_resources), _requests(each.resources)) for each in states}
    return any(
        each and each != _requests(container.resources)
        for container in containers
        for each in held.get(container.name, ())
    )


def _says(part: _Part) -> bool:
    """Return whether a field is there and has something in it."""
    return not isinstance(part, msgspec.UnsetType) and bytes(part) not in _EMPTY


def _requests(resources: _Part) -> WireQuantities:
    found = None if resources is msgspec.UNSET else decode(_RESOURCES.decode, resources, "Pod")
    return found.requests or {} if found else {}


def _quantities(part: _Part) -> WireQuantities:
    return {} if part is msgspec.UNSET else decode(_QUANTITIES.decode, part, "Pod") or {}


def read_pod(raw: bytes, claimed_gpus: ClaimedGpus = no_claims) -> DemandingPod:
    """Read a pod.

    Raises:
        DecodeError: not a pod.
        QuantityError: a quantity cannot be read.
    """
    return decode(_DECODER.decode, raw, "Pod").read(claimed_gpus)


def _items(decoder: msgspec.json.Decoder[list[T] | None], part: _Part) -> list[T] | None:
    """Return of each container, or of its state, what a demand depends on."""
    if isinstance(part, msgspec.UnsetType):
        return None
    if (objects := bytes(part).count(b"{")) > _MAX_CONTAINER_OBJECTS:
        raise DecodeError(f"a pod's containers have {objects} objects, at most {_MAX_CONTAINER_OBJECTS} are read")
    return decode(decoder.decode, part, "list of containers")


def _written(items: Sequence[object] | None) -> _Part:
    return msgspec.UNSET if items is None else msgspec.Raw(_ENCODER.encode(items))


def _checked(fields: bytes) -> bytes:
    """Return the fields that a demand is computed of, unless they are too many."""
    parts = fields.count(b"{") + fields.count(b":")
    if parts > MAX_DEMAND_PARTS:
        raise DecodeError(
            f"the requests, claims and scheduling constraints of the pod have {parts} parts, "
            f"at most {MAX_DEMAND_PARTS} are read"
        )
    return fields


def _demand(fields: bytes, claimed_gpus: ClaimedGpus = no_claims) -> tuple[PodDemand, bool]:
    """Return the demand, and whether it depends on device classes."""
    pod = decode_pod(fields)
    demand = pod_demand(pod, workload_class(pod), claimed_gpus(pod))
    return demand, bool(other_extended_resources(pod))


@lru_cache(maxsize=_KEPT)
def _kept_demand(fields: bytes) -> tuple[PodDemand, bool]:
    return _demand(fields)
