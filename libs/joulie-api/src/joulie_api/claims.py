"""Demand of pods' claims: ResourceClaims and their templates, watched where the cluster has them.

Guarantees an immediate answer for every pod, without a request: a claim that is not known (just created, or not
readable) counts as a whole GPU, and so does each device of an unknown class; one warning is logged for each, of claims
one a second at most, since whatever is requested of a service may name claims. Where the
cluster does not serve dynamic resource allocation v1, or RBAC does not permit to read it, this is checked again
periodically.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

import msgspec
import structlog

from joulie_api.client import KubeClient
from joulie_api.errors import DecodeError, Forbidden, KubeError, NotFound
from joulie_api.log_limit import LogLimit
from joulie_api.reflector import Reflector
from joulie_api.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from joulie_core.pod import Pod, PodClaim
from joulie_core.powerest.claims import (
    DEVICE_CLASS_GPUS,
    UNKNOWN_GPUS,
    ClaimDemand,
    ClaimRequest,
    DeviceRequest,
)

W = TypeVar("W")

#: A cluster gets the API by an upgrade, which takes longer than this.
_RECHECK_S: Final = 600.0
_RETRY_S: Final = 5.0
#: Time that pods wait for claims at the start: the first lists take less where they can be read at all.
_SETTLE_S: Final = 10.0
#: Log lines that are remembered, so that they are not repeated.
_MAX_LOGGED: Final = 1024
#: Characters of a name in a log line; those of valid names with their namespace are fewer.
_MAX_TEXT: Final = 512

_log = structlog.get_logger()

ClaimedGpus = Callable[[Pod], float]


class _Device(msgspec.Struct, rename="camel"):
    device_class_name: str = ""
    allocation_mode: str | None = None
    count: int | None = None
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


_CLAIMS: Final = msgspec.json.Decoder(_Claim)
_TEMPLATES: Final = msgspec.json.Decoder(_Template)


def no_claims(_pod: Pod) -> float:
    """Return 0: for callers that read only pods without claims."""
    return 0.0


def decode_claim(raw: bytes) -> ClaimDemand:
    """Return the demand of a ResourceClaim.

    Raises:
        DecodeError: not a ResourceClaim.
    """
    claim = _decode(_CLAIMS, raw)
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
    template = _decode(_TEMPLATES, raw)
    return _demand(template.spec.spec if template.spec else None, None)


class Claims:
    """The claims of one cluster, kept up to date by `run`.

    Args:
        client: of the API server.
        device_classes: GPUs that a device counts as, by device class; adds to and overrides the well-known ones.
    """

    def __init__(self, client: KubeClient, device_classes: Mapping[str, float]) -> None:
        self._client = client
        self._classes = {**DEVICE_CLASS_GPUS, **device_classes}
        self._claims = Reflector(client, RESOURCE_CLAIMS, decode_claim)
        self._templates = Reflector(client, RESOURCE_CLAIM_TEMPLATES, decode_template)
        self._absent = asyncio.Event()
        self._logged: set[str] = set()
        self._unknown_claims = LogLimit()

    def gpus(self, pod: Pod) -> float:
        """Return the largest number of GPUs that the pod's claims may get."""
        return sum(self._gpus(pod.namespace, claim) for claim in pod.claims) if pod.claims else 0.0

    async def wait_settled(self) -> None:
        """Wait until all claims are known, cannot be read, or have not arrived in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                absent = asyncio.create_task(self._absent.wait())
                known = asyncio.create_task(self._wait_synced())
                try:
                    await asyncio.wait((absent, known), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    absent.cancel()
                    known.cancel()

    async def run(self) -> NoReturn:
        """Watch the claims until cancelled, as soon as the cluster has the API."""
        while True:
            if await self._is_readable():
                break
            await asyncio.sleep(_RECHECK_S if self._absent.is_set() else _RETRY_S)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run(), name=f"watch {self._claims.name}")
            group.create_task(self._templates.run(), name=f"watch {self._templates.name}")
        raise AssertionError("reflectors do not end")

    async def _wait_synced(self) -> None:
        await self._claims.wait_synced()
        await self._templates.wait_synced()

    async def _is_readable(self) -> bool:
        try:
            for resource in (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES):
                await self._client.list_page(resource, limit=1)
        except NotFound:
            self._log_once(_log.info, "claims not watched, api not served", api=RESOURCE_CLAIMS.api_version)
        except Forbidden as error:
            self._log_once(_log.warning, "claims not watched, access denied", error=str(error))
        except KubeError:
            return False  # The other watches log that the server cannot be reached.
        else:
            return True
        self._absent.set()
        return False

    def _gpus(self, namespace: str, pod_claim: PodClaim) -> float:
        demand = self._find(namespace, pod_claim)
        if demand is None:
            name = f"{namespace}/{pod_claim.claim or pod_claim.template}"
            self._log_once(_log.warning, "claim unknown, counted as a whole gpu", self._unknown_claims, claim=name)
            return UNKNOWN_GPUS
        for device_class in sorted(demand.unknown_classes(self._classes)):
            self._log_once(
                _log.warning,
                "device class unknown, each device counted as a whole gpu",
                device_class=device_class,
                setting="DEVICE_CLASS_GPUS_JSON",
            )
        return demand.gpus(self._classes)

    def _find(self, namespace: str, pod_claim: PodClaim) -> ClaimDemand | None:
        found = self._claims.store.get(f"{namespace}/{pod_claim.claim}") if pod_claim.claim else None
        if found is None and pod_claim.template:
            found = self._templates.store.get(f"{namespace}/{pod_claim.template}")
        return found

    def _log_once(self, log: Callable[..., None], event: str, limit: LogLimit | None = None, /, **fields: str) -> None:
        # Names come from requests, and may be of any length.
        fields = {name: text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..." for name, text in fields.items()}
        key = " ".join((event, *fields.values()))
        if key in self._logged or len(self._logged) >= _MAX_LOGGED or (limit is not None and limit.admit() is None):
            return
        self._logged.add(key)
        log(event, **fields)


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


def _decode(decoder: msgspec.json.Decoder[W], raw: bytes) -> W:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DecodeError(f"not a claim: {error}") from error
