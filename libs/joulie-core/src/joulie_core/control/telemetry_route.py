"""Sources and controls that serve a node.

Guarantees the documented precedence, for each subsystem: a profile without a stanza for the GPUs leaves their
routing to the next one. Profiles that the agent wrote itself to give its report a home only mirror a decision made
here, so they take no part in making it; otherwise the first decision would outlive every later profile of a user. A
generated profile that was edited is no longer the agent's, which its fingerprint shows.

Source: docs/decisions/0013-conventions.md (TelemetryProfile). Where it is silent: specificity is the number of labels
in the selector, and equally old profiles are ordered by name.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from joulie_core.fnv import fnv1a_32
from joulie_core.kinds.telemetry_profile import (
    CpuControl,
    GpuControl,
    TargetScope,
    TelemetryControls,
    TelemetryProfileSpec,
    TelemetrySource,
    TelemetrySources,
    TelemetryTarget,
)
from joulie_core.labels import MANAGED_BY, MANAGED_BY_AGENT, PREFIX
from joulie_core.names import NodeName
from joulie_core.node import Node

#: Annotation of a generated profile: the fingerprint of the spec that the agent wrote.
GENERATED_SPEC: Final = f"{PREFIX}generated-spec"

_P = TypeVar("_P")


@dataclass(frozen=True, slots=True)
class RoutingProfile:
    """A TelemetryProfile as far as routing reads it."""

    name: str
    #: RFC 3339 as the API server writes it, so that text order is time order.
    created_at: str
    spec: TelemetryProfileSpec


@dataclass(frozen=True, slots=True)
class Route:
    """Sources and controls that serve a node; endpoints still carry `{node}`."""

    cpu_source: TelemetrySource
    gpu_source: TelemetrySource
    cpu_control: CpuControl
    gpu_control: GpuControl


#: Applies where neither a profile nor the environment sets anything.
HOST_ROUTE: Final = Route(TelemetrySource(), TelemetrySource(), CpuControl(), GpuControl())


def route(node: Node, profiles: Iterable[RoutingProfile], default: Route = HOST_ROUTE) -> Route:
    """Decide what serves a node.

    Args:
        node: the node.
        profiles: the users' profiles, in any order; those for other nodes are passed over.
        default: the route from the agent's environment.
    """
    specs = [profile.spec for profile in sorted(_applying(node, profiles), key=_rank)]
    sources = [spec.sources for spec in specs if spec.sources is not None]
    controls = [spec.controls for spec in specs if spec.controls is not None]
    return Route(
        cpu_source=_first((part.cpu for part in sources), default.cpu_source),
        gpu_source=_first((part.gpu for part in sources), default.gpu_source),
        cpu_control=_first((part.cpu for part in controls), default.cpu_control),
        gpu_control=_first((part.gpu for part in controls), default.gpu_control),
    )


def is_generated(labels: Mapping[str, str], annotations: Mapping[str, str], spec: TelemetryProfileSpec) -> bool:
    """Return whether a profile is still as the agent wrote it."""
    return labels.get(MANAGED_BY) == MANAGED_BY_AGENT and annotations.get(GENERATED_SPEC) == fingerprint(spec)


def generated_spec(node: NodeName, served_by: Route) -> TelemetryProfileSpec:
    """Return the spec of the profile that the agent writes for a node without one of its own."""
    return TelemetryProfileSpec(
        target=TelemetryTarget(scope=TargetScope.NODE, node_name=node),
        sources=TelemetrySources(cpu=served_by.cpu_source, gpu=served_by.gpu_source),
        controls=TelemetryControls(cpu=served_by.cpu_control, gpu=served_by.gpu_control),
    )


def fingerprint(spec: TelemetryProfileSpec) -> str:
    """Return eight hexadecimal digits that change with the spec.

    Fields at their default are left out, so that neither the API server's defaulting nor a field of a later release
    makes a generated profile look edited.
    """
    content = spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return f"{fnv1a_32(json.dumps(content, sort_keys=True)):08x}"


def endpoint_url(endpoint: str, node: NodeName, default_path: str) -> str:
    """Return the URL to call for a node.

    Args:
        endpoint: as configured; `{node}` is replaced wherever it stands.
        node: the node's name.
        default_path: appended where the endpoint is a bare address, such as `/telemetry/{node}`.
    """
    try:
        parts = urlsplit(endpoint)
    except ValueError:  # no URL at all; the caller reports it
        parts = None
    if parts is not None and parts.path in {"", "/"}:
        endpoint = urlunsplit(parts._replace(path=default_path))
    return endpoint.replace("{node}", quote(node, safe=""))


def _applying(node: Node, profiles: Iterable[RoutingProfile]) -> Iterable[RoutingProfile]:
    return (profile for profile in profiles if _applies(node, profile.spec.target))


def _applies(node: Node, target: TelemetryTarget) -> bool:
    if target.scope is TargetScope.NODE:
        return target.node_name == node.name
    return all(node.labels.get(key) == value for key, value in (target.node_selector or {}).items())


def _rank(profile: RoutingProfile) -> tuple[bool, int, str, str]:
    target = profile.spec.target
    specificity = len(target.node_selector or {})
    return (target.scope is TargetScope.CLUSTER, -specificity, profile.created_at, profile.name)


def _first(parts: Iterable[_P | None], default: _P) -> _P:
    return next((part for part in parts if part is not None), default)
