"""What each service may do at the API server: the one table that RBAC roles are made from.

The Helm chart's rules are generated from it (`just rbac`) and the end-to-end tests run with it, so a verb that is
missing here fails there. A verb that no service uses any more is to be removed here.
Source: Kubernetes, "Using RBAC Authorization"; a server-side apply that may create takes `create` as well as `patch`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from joulie_api.resources import (
    EVENTS,
    LEASES,
    NODE_HARDWARES,
    NODE_POWER_PROFILES,
    NODE_TWINS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    SECRETS,
    TELEMETRY_PROFILES,
    Resource,
)

_FOLLOW: Final = ("get", "list", "watch")
_OWN: Final = (*_FOLLOW, "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources of one API group."""

    resources: tuple[Resource, ...]
    verbs: tuple[str, ...]
    subresource: str = ""
    #: Whether a deployment limits it to objects that it names.
    by_name: bool = False
    #: A sentence for whoever reviews the role; empty where the resources speak for themselves.
    reason: str = ""

    def __post_init__(self) -> None:
        if len({resource.group for resource in self.resources}) != 1:
            raise ValueError("the resources of a grant belong to one API group")

    @property
    def group(self) -> str:
        """Return the API group, empty for the core group."""
        return self.resources[0].group

    @property
    def names(self) -> tuple[str, ...]:
        """Return the resources as RBAC writes them."""
        suffix = f"/{self.subresource}" if self.subresource else ""
        return tuple(f"{resource.plural}{suffix}" for resource in self.resources)

    def rule(self) -> dict[str, Any]:
        """Return the rule of a Role or ClusterRole, not limited to names."""
        return {"apiGroups": [self.group], "resources": list(self.names), "verbs": list(self.verbs)}


@dataclass(frozen=True, slots=True)
class Permissions:
    """What one service may do."""

    cluster: tuple[Grant, ...]
    #: In the namespace that the service runs in.
    namespace: tuple[Grant, ...] = ()


_CLAIMS: Final = Grant(
    (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES), _FOLLOW, reason="What pods ask for by dynamic resource allocation."
)

#: By the service's name in the chart.
SERVICES: Final[Mapping[str, Permissions]] = MappingProxyType(
    {
        "operator": Permissions(
            cluster=(
                Grant((NODES,), (*_FOLLOW, "patch"), reason="The patch sets labels that pods are placed by."),
                Grant((PODS,), _FOLLOW),
                _CLAIMS,
                Grant((EVENTS,), ("create",)),
                Grant((NODE_POWER_PROFILES, NODE_TWINS), _OWN),
                Grant((NODE_POWER_PROFILES, NODE_TWINS), ("patch",), subresource="status"),
                Grant((NODE_HARDWARES, TELEMETRY_PROFILES), _FOLLOW, reason="What the agents write."),
            ),
            namespace=(Grant((LEASES,), ("get", "create", "update"), reason="Leader election."),),
        ),
        "agent": Permissions(
            cluster=(
                Grant((NODES,), _FOLLOW),
                Grant((NODE_POWER_PROFILES,), _FOLLOW),
                Grant((NODE_HARDWARES, TELEMETRY_PROFILES), _OWN),
                Grant((NODE_HARDWARES, TELEMETRY_PROFILES), ("patch",), subresource="status"),
            ),
            namespace=(
                Grant(
                    (SECRETS,),
                    ("get",),
                    by_name=True,
                    reason="Headers for HTTP backends. The author of a TelemetryProfile also says where they are sent.",
                ),
            ),
        ),
        "extender": Permissions(
            cluster=(Grant((NODES, PODS), _FOLLOW), Grant((NODE_HARDWARES, NODE_TWINS), _FOLLOW), _CLAIMS)
        ),
    }
)
