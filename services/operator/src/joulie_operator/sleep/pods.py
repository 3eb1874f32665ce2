"""Pods as the decision about sleep reads them.

Guarantees that what a pod needs is kept once for equal pods: a pod is reduced to the fields that decide where it fits,
and those are the key.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.node_pods import ends_with_node
from joulie_api.wire import decode_pod
from joulie_api.wire.metadata import WireConditions, WireOwner, controller_of
from joulie_api.wire.pods import WirePorts
from joulie_core.demand import WorkloadClass, workload_class
from joulie_core.labels import WORKLOAD_CLASS
from joulie_core.pod import Container
from joulie_core.powerest.pod_demand import requested
from joulie_core.sleep import SleepPod
from joulie_core.sleep.model import PodToleration
from joulie_core.timestamps import epoch_seconds
from joulie_operator.sleep.daemon_sets import meant_for
from joulie_operator.sleep.pod_rules import is_simulated, read_rules

#: Its name and its kind.
_Volume = dict[str, msgspec.Raw]
#: A part that is not looked into; left out of what is written where the pod does not have it.
_Part = msgspec.Raw | msgspec.UnsetType
#: Kinds of pods that are kept; clusters have some hundred.
_KEPT: Final = 4096
#: Namespace of the cluster's own pods; the chart's admission policy refuses the operator's evictions in it.
_SYSTEM: Final = "kube-system"
#: Of Cluster Autoscaler, which other tools follow too: `false` forbids an eviction, `true` allows that of local data.
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Of Karpenter: `true` forbids an eviction.
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
#: Annotations of a standard pod; any other value is not known to be one.
_STANDARD: Final = (None, WorkloadClass.STANDARD)
#: API group and kind of the controllers that replace an evicted pod by another one that does the same. All others are
#: of work that an eviction interrupts, or have rules of their own.
_REPLACING: Final = frozenset({("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")})
#: What kube-scheduler says where it has looked at no node, for a claim that does not exist or is not bound: elsewhere
#: it counts nodes for each reason. Waking nodes does not help.
_NO_NODE_LOOKED_AT: Final = re.compile(r"0/\d+ nodes are available: [^\d]")


class PodRole(Enum):
    """Role of a pod on a node that is to sleep."""

    #: Of a DaemonSet, or static: ends with the node.
    NODE_OWN = auto()
    #: Must not be evicted: in kube-system, of the class performance, of no controller that is known to replace it, with
    #: data on the node, or said so by its owner.
    PROTECTED = auto()
    #: Its controller replaces it elsewhere.
    MOVABLE = auto()


@dataclass(frozen=True, slots=True)
class WatchedPod:
    """A pod that has not ended."""

    name: str
    namespace: str
    #: None while it has no node.
    node: str | None
    role: PodRole
    #: Whether it is being deleted.
    ending: bool
    #: Whether kube-scheduler has looked at the nodes and found none for it.
    unschedulable: bool
    #: `namespace/name` of its DaemonSet; empty without one.
    daemon_set: str
    #: Node that its DaemonSet has made it for, while it has no node; empty for other pods.
    meant_for: str
    fit: SleepPod
    #: Equal ones are the same object.
    labels: Mapping[str, str]
    #: Names of the PersistentVolumeClaims of its volumes.
    claims: tuple[str, ...]
    #: Since when kube-scheduler has found no node for it; None where it has not said so.
    refused_since_s: float | None

    @property
    def waits(self) -> bool:
        """Whether it waits for a node."""
        return self.node is None and self.unschedulable and not self.ending


class _PodMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None
    labels: _Part = msgspec.UNSET
    owner_references: list[WireOwner] | None = None
    deletion_timestamp: str | None = None


class _Container(WirePorts):
    resources: _Part = msgspec.UNSET
    restart_policy: _Part = msgspec.UNSET


class _ClaimSource(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class _Fit(msgspec.Struct, rename="camel", omit_defaults=True):
    """The fields of a pod's spec that decide where it fits."""

    node_selector: _Part = msgspec.UNSET
    affinity: _Part = msgspec.UNSET
    tolerations: _Part = msgspec.UNSET
    topology_spread_constraints: _Part = msgspec.UNSET
    resource_claims: _Part = msgspec.UNSET
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: _Part = msgspec.UNSET
    resources: _Part = msgspec.UNSET


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None
    volumes: list[_Volume] | None = None


class _Pod(msgspec.Struct):
    metadata: _PodMeta
    spec: _PodSpec | None = None
    status: WireConditions | None = None


class _FitPod(msgspec.Struct):
    spec: _Fit | None = None


class _Toleration(msgspec.Struct):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _Tolerations(msgspec.Struct):
    tolerations: list[_Toleration] | None = None


_PODS: Final = msgspec.json.Decoder(_Pod)
_FITS: Final = msgspec.json.Decoder(_FitPod)
_TOLERATIONS: Final = msgspec.json.Decoder(_Tolerations)
_CLAIM_SOURCES: Final = msgspec.json.Decoder(_ClaimSource)
_NAMES: Final = msgspec.json.Decoder(str)
_LABELS: Final = msgspec.json.Decoder(dict[str, str] | None)
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_ENCODER: Final = msgspec.json.Encoder()


def read_pod(raw: bytes) -> WatchedPod:
    """Decode a pod.

    Raises:
        DecodeError: not a pod.
        QuantityError: a quantity cannot be read.
    """
    pod, fit = decode(_PODS.decode, raw, "Pod"), decode(_FITS.decode, raw, "Pod")
    meta, spec = pod.metadata, pod.spec or _PodSpec()
    owner = controller_of(meta.owner_references)
    scheduled = pod.status.find("PodScheduled") if pod.status else None
    namespace = meta.namespace or "default"
    of_daemon_set = owner is not None and owner.kind == "DaemonSet"
    refused = scheduled is not None and (scheduled.status, scheduled.reason) == ("False", "Unschedulable")
    volumes = spec.volumes or []
    simulated = all(is_simulated(each) for each in volumes)
    fits, demands = _kept_fit(_ENCODER.encode(fit.spec or _Fit()), simulated=simulated)
    standard = demands is WorkloadClass.STANDARD and (meta.annotations or {}).get(WORKLOAD_CLASS) in _STANDARD
    return WatchedPod(
        name=meta.name,
        namespace=namespace,
        node=spec.node_name or None,
        role=_role(meta, owner, volumes, standard=standard),
        ending=meta.deletion_timestamp is not None,
        unschedulable=refused and scheduled is not None and not _NO_NODE_LOOKED_AT.match(scheduled.message),
        daemon_set=f"{namespace}/{owner.name}" if owner is not None and of_daemon_set else "",
        meant_for=meant_for(fits.required_terms) if of_daemon_set and not spec.node_name else "",
        fit=fits,
        labels=_NO_LABELS if isinstance(meta.labels, msgspec.UnsetType) else _kept_labels(bytes(meta.labels)),
        claims=tuple(_claims(meta.name, volumes)),
        refused_since_s=epoch_seconds(scheduled.last_transition_time) if refused and scheduled is not None else None,
    )


def _claims(pod: str, volumes: list[_Volume]) -> Iterator[str]:
    """Yield the names of the claims of a pod's volumes."""
    for each in volumes:
        if "persistentVolumeClaim" in each:
            yield decode(_CLAIM_SOURCES.decode, bytes(each["persistentVolumeClaim"]), "Pod").claim_name
        elif "ephemeral" in each:
            # Kubernetes makes a claim of this name.
            yield f"{pod}-{decode(_NAMES.decode, bytes(each.get('name', b'')), 'Pod')}"


@lru_cache(maxsize=_KEPT)
def _kept_labels(raw: bytes) -> Mapping[str, str]:
    return decode(_LABELS.decode, raw, "Pod") or _NO_LABELS


def _role(meta: _PodMeta, owner: WireOwner | None, volumes: list[_Volume], *, standard: bool) -> PodRole:
    annotations = meta.annotations or {}
    if ends_with_node(annotations, owner.kind if owner is not None else ""):
        return PodRole.NODE_OWN
    safe = annotations.get(_SAFE_TO_EVICT)
    replaced = owner is not None and (owner.api_version.rpartition("/")[0], owner.kind) in _REPLACING
    refused = safe == "false" or annotations.get(_DO_NOT_DISRUPT) == "true"
    if meta.namespace == _SYSTEM or not standard or not replaced or refused:
        return PodRole.PROTECTED
    local = any("emptyDir" in each or "hostPath" in each for each in volumes)
    return PodRole.PROTECTED if local and safe != "true" else PodRole.MOVABLE


@lru_cache(maxsize=_KEPT)
def _kept_fit(spec: bytes, *, simulated: bool) -> tuple[SleepPod, WorkloadClass]:
    """Return what decides where a pod fits, and the class that its constraints demand."""
    pod, rules = decode_pod(b'{"metadata":{},"spec":' + spec + b"}"), read_rules(spec)
    names = {"cpu", "memory", *_named(pod.containers), *_named(pod.init_containers), *pod.requests}
    amounts = {name: float(requested(pod, name)) for name in sorted(names)}
    fit = SleepPod(
        requests={name: amount for name, amount in amounts.items() if amount} | {"pods": 1.0},
        node_selector=pod.node_selector,
        required_terms=pod.required_terms,
        tolerations=_tolerations(spec),
        affinity=rules.affinity,
        anti_affinity=rules.anti_affinity,
        spreads=rules.spreads,
        uncertain=rules.uncertain or not simulated,
    )
    return fit, workload_class(pod)


def _named(containers: tuple[Container, ...]) -> set[str]:
    return {name for each in containers for name in (*each.requests, *each.limits)}


def _tolerations(spec: bytes) -> tuple[PodToleration, ...]:
    found = decode(_TOLERATIONS.decode, spec, "Pod").tolerations or ()
    return tuple(
        PodToleration(each.key, None if each.operator == "Exists" else each.value, each.effect) for each in found
    )
