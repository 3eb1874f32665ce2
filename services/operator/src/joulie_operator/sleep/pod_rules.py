"""Rules that decide where a pod fits beside its requests and nodes: other pods, and what is not simulated."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire.pods import WirePorts
from joulie_api.wire.terms import REQUIRED, WireRequirement, requirements
from joulie_core.pod import Requirement, SelectorOperator
from joulie_core.sleep.pod_terms import PodSelector, PodSpread, PodTerm

#: Volumes that every node can mount; one of any other kind may keep a pod from a node.
_ANYWHERE: Final = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret", "csi", "name"}
)
#: Volumes by claim, which are looked up.
CLAIMED: Final = frozenset({"persistentVolumeClaim", "ephemeral"})


@dataclass(frozen=True, slots=True)
class PodRules:
    """The rules of one pod."""

    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    spreads: tuple[PodSpread, ...]
    #: It asks for what is not simulated.
    uncertain: bool


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[WireRequirement] | None = None


class _PodTerm(msgspec.Struct, rename="camel"):
    topology_key: str
    label_selector: _Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: _Selector | None = None


class _PodTerms(msgspec.Struct):
    required: list[_PodTerm] | None = msgspec.field(default=None, name=REQUIRED)


class _Affinity(msgspec.Struct, rename="camel"):
    pod_affinity: _PodTerms | None = None
    pod_anti_affinity: _PodTerms | None = None


class _Spread(msgspec.Struct, rename="camel"):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: _Selector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    affinity: _Affinity | None = None
    topology_spread_constraints: list[_Spread] | None = None
    containers: list[WirePorts] | None = None
    init_containers: list[WirePorts] | None = None
    resource_claims: list[msgspec.Raw] | None = None


_SPECS: Final = msgspec.json.Decoder(_Spec)


def read_rules(spec: bytes) -> PodRules:
    """Read the rules of a pod from its spec.

    Raises:
        DecodeError: not a spec of a pod.
    """
    wire = decode(_SPECS.decode, spec, "Pod")
    affinity = wire.affinity or _Affinity()
    near, far = _required(affinity.pod_affinity), _required(affinity.pod_anti_affinity)
    containers = (*(wire.containers or ()), *(wire.init_containers or ()))
    ports = any(port.host_port for each in containers for port in each.ports or ())
    return PodRules(
        affinity=tuple(_term(each) for each in near),
        anti_affinity=tuple(_term(each) for each in far),
        spreads=tuple(
            _spread(each)
            for each in wire.topology_spread_constraints or ()
            if each.when_unsatisfiable == "DoNotSchedule"
        ),
        uncertain=ports or bool(wire.resource_claims) or any(_asks_for_namespaces(each) for each in (*near, *far)),
    )


def is_simulated(volume: Iterable[str]) -> bool:
    """Return whether it is known on which nodes a volume can be mounted, by the names of its fields."""
    return all(field in _ANYWHERE or field in CLAIMED for field in volume)


def _required(terms: _PodTerms | None) -> list[_PodTerm]:
    return (terms.required if terms else None) or []


def _asks_for_namespaces(term: _PodTerm) -> bool:
    """Return whether the labels of namespaces decide; a selector without requirements selects all."""
    selector = term.namespace_selector
    return selector is not None and bool(selector.match_labels or selector.match_expressions)


def _term(wire: _PodTerm) -> PodTerm:
    namespaces = None if wire.namespace_selector is not None else frozenset(wire.namespaces or ())
    return PodTerm(PodSelector(_selected(wire.label_selector), namespaces), wire.topology_key)


def _spread(wire: _Spread) -> PodSpread:
    return PodSpread(
        PodSelector(_selected(wire.label_selector)),
        wire.topology_key,
        max_skew=wire.max_skew,
        min_domains=wire.min_domains or 1,
        honors_affinity=wire.node_affinity_policy != "Ignore",
        honors_taints=wire.node_taints_policy == "Honor",
        match_label_keys=tuple(wire.match_label_keys or ()),
    )


def _selected(selector: _Selector | None) -> tuple[Requirement, ...] | None:
    if selector is None:
        return None
    labels = sorted((selector.match_labels or {}).items())
    own = tuple(Requirement(key, SelectorOperator.IN, (value,)) for key, value in labels)
    return own + requirements(selector.match_expressions)
