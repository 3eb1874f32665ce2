"""The watches that feed the table.

Guarantees that what is watched is kept small (a pod only while it is bound and has not ended, and of it only its
demand) and that silence is noticed. A quiet cluster is not a silent one: an open watch brings a bookmark about once a
minute, so data is old when the API server cannot be read for the time to live, or when an open watch stays mute past
its bookmark.
Source: docs/decisions/0013-conventions.md.
"""

from collections.abc import Coroutine, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from joulie_api.claims import Claims
from joulie_api.client import KubeClient
from joulie_api.log_limit import LogLimit
from joulie_api.reflector import Reflector, stale_reasons
from joulie_api.resources import NODE_HARDWARES, NODE_TWINS, NODES, PODS
from joulie_api.wire import decode_kind, decode_node
from joulie_core.kinds.node_hardware import NodeHardware, NodeHardwareStatus
from joulie_extender.pods import BoundPod, read_bound_pod
from joulie_extender.table import NodeTable
from joulie_extender.twins import read_twin

#: Pods that are on a node and may draw power there; the API server leaves the others out, whose number has no bound.
_BOUND_PODS = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

_decode_hardware = decode_kind(NodeHardware)


class ExtenderWatches:
    """The watches of one extender."""

    def __init__(
        self,
        client: KubeClient,
        table: NodeTable,
        *,
        cache_ttl_s: float,
        device_classes: Mapping[str, float] = MappingProxyType({}),
        request_log_limit: LogLimit | None = None,
    ) -> None:
        #: Requests of pods' claims. Only the pods wait for them, and a cluster may not have any.
        self.claims = Claims(client, device_classes, request_log_limit)
        self._table = table
        self._cache_ttl_s = cache_ttl_s
        nodes = Reflector(client, NODES, decode_node)
        twins = Reflector(client, NODE_TWINS, read_twin)
        hardware = Reflector(client, NODE_HARDWARES, _read_hardware)
        pods = Reflector(client, PODS, self._read_bound_pod, field_selector=_BOUND_PODS)
        nodes.subscribe(table.on_node)
        twins.subscribe(table.on_twin)
        hardware.subscribe(table.on_hardware)
        # Pods of the first list were bound before this process watched: measurements have them already.
        pods.subscribe(lambda _key, old, new: table.on_pod(old, new, counted=not pods.synced.is_set()))
        self._pods = pods
        self._reflectors: tuple[Reflector[Any], ...] = (nodes, twins, hardware, pods)

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """All watches."""
        return (*self._reflectors, *self.claims.reflectors)

    def runs(self) -> list[tuple[str, Coroutine[Any, Any, NoReturn]]]:
        """Return the task of each watch, with a name; each runs until it is cancelled."""
        works = [(reflector.name, self._run(reflector)) for reflector in self._reflectors]
        return [(f"watch {name}", work) for name, work in (*works, ("claims", self.claims.run()))]

    @property
    def synced(self) -> bool:
        """Whether every first list is complete."""
        return all(reflector.synced.is_set() for reflector in self._reflectors)

    async def wait_synced(self) -> None:
        """Return when every first list is complete."""
        for reflector in self._reflectors:
            await reflector.wait_synced()

    def stale_reason(self) -> str | None:
        """Return which watches must not be believed and why, for the readiness check; None where all may."""
        return stale_reasons(self._reflectors, self._cache_ttl_s)

    def refresh(self) -> None:
        """Bring the table up to this moment; to be called before it is read."""
        self._table.refresh(silent=any(each.is_stale(self._cache_ttl_s) for each in self._reflectors))

    async def _run(self, reflector: Reflector[Any]) -> NoReturn:
        if reflector is self._pods:
            # What they claim is looked up when they are read.
            await self.claims.wait_settled()
        await reflector.run()

    def _read_bound_pod(self, raw: bytes) -> BoundPod:
        return read_bound_pod(raw, self.claims.gpus)


def _read_hardware(raw: bytes) -> NodeHardwareStatus:
    return _decode_hardware(raw).model.status
