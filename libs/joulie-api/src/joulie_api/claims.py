"""Demand of pods' claims: ResourceClaims, their templates and device classes, watched where the cluster has them.

Guarantees an immediate answer for every pod, without a request: a claim that is not known (just created, or not
readable) counts as a whole GPU, and so does each device of an unknown class; one warning is logged for each, of claims
one a second at most, since whatever is requested of a service may name claims. Where the
cluster does not serve dynamic resource allocation v1, or RBAC does not permit to read it, this is checked again
periodically.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, NoReturn

import msgspec
import structlog

from joulie_api.client import KubeClient
from joulie_api.decoding import decode
from joulie_api.log_limit import LogLimit
from joulie_api.optional_watch import OptionalWatch
from joulie_api.reflector import Reflector
from joulie_api.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from joulie_api.wire.metadata import WireObject
from joulie_core.pod import Pod, PodClaim
from joulie_core.powerest.claims import (
    DEVICE_CLASS_GPUS,
    UNKNOWN_GPUS,
    ClaimDemand,
    ClaimRequest,
    DeviceRequest,
    class_of_resource,
)
from joulie_core.powerest.pod_demand import class_resource_gpus, other_extended_resources

#: Log lines that are remembered, so that they are not repeated.
_MAX_LOGGED: Final = 1024
#: Characters of a name in a log line; those of valid names with their namespace are fewer.
_MAX_TEXT: Final = 512

_log = structlog.get_logger()

ClaimedGpus = Callable[[Pod], float]


#: Devices of a request, an int64 of Kubernetes; zero is what an encoder writes that does not know the default.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _Device(msgspec.Struct, rename="camel"):
    device_class_name: str = ""
    allocation_mode: str | None = None
    count: _Count | None = None
    admin_access: bool | None = None


class _Request(msgspec.Struct, rename="camel"):
    name: str = ""
    exactly: _Device | None = None
    first_available: list[_Device] | None = None


class _Devices(msgspec.Struct):
    requests: list[_Request] | None = None


class _Result(msgspec.Struct):
    request: str = ""


class _AllocatedDevices(msgspec.Struct):
    results: list[_Result] | None = None


class _Allocation(msgspec.Struct):
    devices: _AllocatedDevices | None = None


class _ClaimSpec(msgspec.Struct):
    devices: _Devices | None = None


class _ClaimStatus(msgspec.Struct):
    allocation: _Allocation | None = None


class _Claim(msgspec.Struct):
    spec: _ClaimSpec | None = None
    status: _ClaimStatus | None = None


class _TemplateSpec(msgspec.Struct):
    spec: _ClaimSpec | None = None


class _Template(msgspec.Struct):
    spec: _TemplateSpec | None = None


class _ClassSpec(msgspec.Struct, rename="camel"):
    extended_resource_name: str | None = None


class _Class(WireObject):
    spec: _ClassSpec | None = None


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A device class and the extended resource that pods may request instead of claiming its devices."""

    name: str
    #: RFC 3339, in UTC.
    created_at: str = ""
    extended_resource: str | None = None


_CLAIMS: Final = msgspec.json.Decoder(_Claim)
_TEMPLATES: Final = msgspec.json.Decoder(_Template)
_CLASSES: Final = msgspec.json.Decoder(_Class)


def no_claims(_pod: Pod) -> float:
    """Return 0: for callers that read only pods without claims."""
    return 0.0


def decode_claim(raw: bytes) -> ClaimDemand:
    """Return the demand of a ResourceClaim.

    Raises:
        DecodeError: not a ResourceClaim.
    """
    claim = decode(_CLAIMS.decode, raw, "ResourceClaim")
    allocation = claim.status.allocation if claim.status else None
    results = (allocation.devices.results if allocation and allocation.devices else None) or []
    # Results of an alternative name it behind the request: `request/alternative`.
    allocated = [result.request.partition("/")[0] for result in results] if allocation else None
    return _demand(claim.spec, allocated)


def decode_template(raw: bytes) -> ClaimDemand:
    """Return the demand of claims created from a ResourceClaimTemplate.

    Raises:
        DecodeError: not a ResourceClaimTemplate.
    """
    template = decode(_TEMPLATES.decode, raw, "ResourceClaimTemplate")
    return _demand(template.spec.spec if template.spec else None, None)


def decode_device_class(raw: bytes) -> DeviceClass:
    """Return a DeviceClass.

    Raises:
        DecodeError: not a DeviceClass.
    """
    found = decode(_CLASSES.decode, raw, "DeviceClass")
    resource = found.spec.extended_resource_name if found.spec else None
    return DeviceClass(found.metadata.name, found.metadata.creation_timestamp or "", resource)


class Claims:
    """The claims of one cluster, kept up to date by `run`.

    Args:
        client: of the API server.
        device_classes: GPUs that a device counts as, by device class; adds to and overrides the well-known ones.
        log_limit: for lines about claims that pods name; a service whose pods come in requests shares it with its
            other lines about requests.
    """

    def __init__(
        self, client: KubeClient, device_classes: Mapping[str, float], log_limit: LogLimit | None = None
    ) -> None:
        self._classes = {**DEVICE_CLASS_GPUS, **device_classes}
        self._claims = Reflector(client, RESOURCE_CLAIMS, decode_claim)
        self._templates = Reflector(client, RESOURCE_CLAIM_TEMPLATES, decode_template)
        self._device_classes = Reflector(client, DEVICE_CLASSES, decode_device_class)
        self._device_classes.subscribe(lambda _key, _old, _new: self._read_classes())
        self._watch = OptionalWatch(client, "claims", self._claims, self._templates, self._device_classes)
        #: Device class by the extended resource that it serves.
        self._class_of: Mapping[str, str] = {}
        self._logged: set[str] = set()
        self._log_limit = log_limit or LogLimit()

    def gpus(self, pod: Pod) -> float:
        """Return the largest number of GPUs that the pod's claims may get, and its extended resources of classes.

        What the name of an extended resource shows by itself is not counted: `pod_demand` does. The claim that
        kube-scheduler makes for extended resources is not among the pod's claims, so nothing counts twice.

        Raises:
            QuantityError: a quantity of an extended resource cannot be read.
        """
        claimed = sum(self._gpus(pod.namespace, claim) for claim in pod.claims)
        for name in other_extended_resources(pod):
            device_class = class_of_resource(name, self._class_of)
            if device_class is not None and device_class not in self._classes:
                self._warn_of_class(device_class)
        return claimed + class_resource_gpus(pod, self._classes, self._class_of)

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """The watches, which `run` runs where the cluster has the API."""
        return self._watch.reflectors

    async def wait_settled(self) -> None:
        """Wait until all claims are known, cannot be read, or have not arrived in time."""
        await self._watch.wait_settled()

    async def run(self) -> NoReturn:
        """Watch the claims until cancelled, as soon as the cluster has the API."""
        await self._watch.run()

    def _gpus(self, namespace: str, pod_claim: PodClaim) -> float:
        demand = self._find(namespace, pod_claim)
        if demand is None:
            name = f"{namespace}/{pod_claim.claim or pod_claim.template}"
            self._log_once(_log.warning, "claim unknown, counted as a whole gpu", self._log_limit, claim=name)
            return UNKNOWN_GPUS
        for device_class in sorted(demand.unknown_classes(self._classes)):
            self._warn_of_class(device_class)
        return demand.gpus(self._classes)

    def _warn_of_class(self, device_class: str) -> None:
        self._log_once(
            _log.warning,
            "device class unknown, each device counted as a whole gpu",
            device_class=device_class,
            setting="DEVICE_CLASS_GPUS_JSON",
        )

    def _read_classes(self) -> None:
        # As kube-scheduler chooses: of two classes with one name the later one, at the same time the first by name.
        by_name = sorted(self._device_classes.store.values(), key=lambda each: each.name, reverse=True)
        by_age = sorted(by_name, key=lambda each: each.created_at)
        self._class_of = {each.extended_resource: each.name for each in by_age if each.extended_resource}

    def _find(self, namespace: str, pod_claim: PodClaim) -> ClaimDemand | None:
        found = self._claims.store.get(f"{namespace}/{pod_claim.claim}") if pod_claim.claim else None
        if found is None and pod_claim.template:
            found = self._templates.store.get(f"{namespace}/{pod_claim.template}")
        return found

    def _log_once(self, log: Callable[..., None], event: str, limit: LogLimit | None = None, /, **fields: str) -> None:
        # Names come from requests, and may be of any length.
        fields = {name: text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..." for name, text in fields.items()}
        key = " ".join((event, *fields.values()))
        if key in self._logged or len(self._logged) >= _MAX_LOGGED:
            return
        left_out: dict[str, int] = {}
        if limit is not None:
            suppressed = limit.admit()
            if suppressed is None:
                return
            left_out["suppressed"] = suppressed
        self._logged.add(key)
        log(event, **fields, **left_out)


def _demand(spec: _ClaimSpec | None, allocated: list[str] | None) -> ClaimDemand:
    requests = (spec.devices.requests if spec and spec.devices else None) or []
    return ClaimDemand(
        tuple(
            ClaimRequest(
                tuple(_device(each) for each in _alternatives(request)),
                None if allocated is None else allocated.count(request.name),
            )
            for request in requests
        )
    )


def _alternatives(request: _Request) -> list[_Device]:
    return [request.exactly] if request.exactly else request.first_available or []


def _device(wire: _Device) -> DeviceRequest:
    every = wire.allocation_mode == "All"
    return DeviceRequest(wire.device_class_name, None if every else wire.count or 1, bool(wire.admin_access))
