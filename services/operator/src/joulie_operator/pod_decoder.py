"""Decoding of watched pods: the demand of a pod is computed once, not for every report of its kubelet.

A pod is sent again whenever its status changes, four times or more until it runs. Of each event only the fields that a
summary depends on are located; while they are the same, byte by byte, the demand is that of the event before.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from joulie_api.claims import ClaimedGpus, no_claims
from joulie_api.wire import decode_pod
from joulie_core.labels import WORKLOAD_CLASS
from joulie_core.names import NodeName
from joulie_core.pod import Pod
from joulie_operator.published import NO_POD, PodSummary, summarize

#: Demands that are kept: those of the pods that are starting, at a thousand per second. Up to some 3 KB each.
_KEPT: Final = 4096
_ABSENT: Final = msgspec.Raw()
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _Annotations(msgspec.Struct):
    workload_class: str | None = msgspec.field(default=None, name=WORKLOAD_CLASS)


class _Meta(msgspec.Struct):
    annotations: _Annotations | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """Besides the node everything that `joulie_core.demand` and `pod_demand` read."""

    node_name: str | None = None
    node_selector: msgspec.Raw = _ABSENT
    affinity: msgspec.Raw = _ABSENT
    containers: msgspec.Raw = _ABSENT
    init_containers: msgspec.Raw = _ABSENT
    overhead: msgspec.Raw = _ABSENT
    resources: msgspec.Raw = _ABSENT
    resource_claims: msgspec.Raw = _ABSENT


class _Status(msgspec.Struct):
    phase: str | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta | None = None
    spec: _Spec | None = None
    status: _Status | None = None


_PODS: Final = msgspec.json.Decoder(_Pod)

#: Values of a field that say the same as its absence.
_NOTHING: Final = frozenset({b"", b"null", b"[]", b"{}"})

_Key = tuple[str | None, *tuple[bytes, ...]]


class PodDecoder:
    """A decoder of pods into summaries.

    `on_pod` gets a pod whole when a demand is computed: pods with equal fields share one demand, so at least once for
    each value of the annotation. A pod with claims for devices is computed every time, since what a claim gets may
    become known at any moment.
    """

    def __init__(
        self, on_pod: Callable[[Pod], None] | None = None, claimed_gpus: ClaimedGpus = no_claims, *, kept: int = _KEPT
    ) -> None:
        self._on_pod = on_pod
        self._claimed_gpus = claimed_gpus
        self._kept = kept
        #: The summary of a pod with these fields, on whichever node; the one that was used last at the end.
        self._demands: OrderedDict[_Key, PodSummary] = OrderedDict()

    def __call__(self, raw: bytes) -> PodSummary:
        """Decode a pod.

        Raises:
            DecodeError: not a Pod.
            QuantityError: a quantity of it cannot be read.
        """
        try:
            pod = _PODS.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._summarize(raw)
        spec = pod.spec
        if spec is None or bytes(spec.resource_claims) not in _NOTHING:
            return self._summarize(raw)
        if pod.status is not None and pod.status.phase in _ENDED:
            return NO_POD
        key = _key_of(pod.metadata, spec)
        demand = self._demands.get(key)
        if demand is None:
            demand = self._summarize(raw)
            self._keep(key, demand)
            return demand
        self._demands.move_to_end(key)
        return demand if demand.node == spec.node_name else _on_node(demand, spec.node_name)

    def _summarize(self, raw: bytes) -> PodSummary:
        pod = decode_pod(raw)
        if self._on_pod is not None:
            self._on_pod(pod)
        return summarize(pod, self._claimed_gpus)

    def _keep(self, key: _Key, demand: PodSummary) -> None:
        self._demands[key] = demand
        if len(self._demands) > self._kept:
            self._demands.popitem(last=False)


def _key_of(meta: _Meta | None, spec: _Spec) -> _Key:
    annotations = meta.annotations if meta is not None else None
    return (
        annotations.workload_class if annotations is not None else None,
        bytes(spec.node_selector),
        bytes(spec.affinity),
        bytes(spec.containers),
        bytes(spec.init_containers),
        bytes(spec.overhead),
        bytes(spec.resources),
    )


def _on_node(demand: PodSummary, node: str | None) -> PodSummary:
    name = NodeName(sys.intern(node)) if node else None
    return PodSummary(name, demand.performance, demand.cpu_cores, demand.gpus)
