"""Permissions of each service at the API server: the only source of the RBAC roles.

The Helm chart's rules are generated from this table (`just rbac`) and the end-to-end tests run with it, so a missing
verb makes them fail, and at their end so does a verb that nothing used.
Source: Kubernetes, "Using RBAC Authorization"; a server-side apply that may create takes `create` as well as `patch`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from joulie_api.resources import (
    ADJUSTMENTS,
    BALLOONS_POLICIES,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEVICE_CLASSES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODE_BMCS,
    NODE_HARDWARES,
    NODE_POWER_BUDGETS,
    NODE_POWER_PROFILES,
    NODE_RESOURCE_TOPOLOGIES,
    NODE_SLEEP_POLICIES,
    NODE_TWINS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    POWER_DOMAINS,
    POWER_EVENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SECRETS,
    TELEMETRY_PROFILES,
    TEMPLATE_POLICIES,
    TOPOLOGY_AWARE_POLICIES,
    Resource,
)
from joulie_api.resources import SERVICES as API_SERVICES

#: Objects are read from informers, so `get` is granted only where single objects are read.
_READ: Final = ("list", "watch")
_OWN: Final = (*_READ, "create", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources of one API group."""

    resources: tuple[Resource, ...]
    verbs: tuple[str, ...]
    subresource: str = ""
    #: Whether a deployment limits it to objects by name.
    by_name: bool = False
    #: A comment for reviewers of the role; empty where the resources need none.
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
    """Permissions of one service."""

    cluster: tuple[Grant, ...]
    #: In the namespace that the service runs in.
    namespace: tuple[Grant, ...] = ()
    #: In the cluster, only where the resource manager is enabled.
    resource_manager: tuple[Grant, ...] = ()
    #: In the cluster, only where nodes may sleep.
    sleep: tuple[Grant, ...] = ()
    #: In the namespace that the service runs in, only where savings are estimated.
    savings: tuple[Grant, ...] = ()
    #: In the namespace of the release.
    energy_factors: tuple[Grant, ...] = ()
    #: In the cluster, only where power domains are observed or enforced.
    power_domains: tuple[Grant, ...] = ()
    #: In the cluster, only where they are enforced.
    power_budgets: tuple[Grant, ...] = ()
    #: In the cluster, only where the holders of devices are followed.
    holders: tuple[Grant, ...] = ()
    #: In the cluster, only where the holders of devices are followed or energy by pod is added up.
    node_pods: tuple[Grant, ...] = ()
    #: In the cluster, only where the limits of GPUs by the class of their holders are shown.
    class_limits: tuple[Grant, ...] = ()
    #: In the cluster, only where the resource manager is enabled, these limits are lifted before containers start,
    #: or receipts of energy are written.
    pod_events: tuple[Grant, ...] = ()

    @property
    def everything(self) -> tuple[Grant, ...]:
        """Return the grants of all scopes."""
        of_nodes = (self.resource_manager, self.holders, self.node_pods, self.class_limits, self.pod_events)
        scopes = (
            self.cluster,
            self.namespace,
            self.sleep,
            self.savings,
            self.energy_factors,
            self.power_domains,
            self.power_budgets,
            *of_nodes,
        )
        return tuple(grant for scope in scopes for grant in scope)


_CONTAINER_POLICIES: Final = (BALLOONS_POLICIES, TOPOLOGY_AWARE_POLICIES, TEMPLATE_POLICIES, ADJUSTMENTS)
_CLAIMS: Final = Grant(
    (RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES),
    _READ,
    reason="What pods request by dynamic resource allocation.",
)

#: By the service's name in the chart.
SERVICES: Final[Mapping[str, Permissions]] = MappingProxyType(
    {
        "operator": Permissions(
            cluster=(
                Grant((NODES,), (*_READ, "patch"), reason="The patch sets labels that pods are placed by."),
                Grant((PODS,), _READ),
                _CLAIMS,
                Grant((EVENTS,), ("create",)),
                Grant((NODE_POWER_PROFILES, NODE_TWINS), _OWN),
                Grant((NODE_POWER_PROFILES, NODE_TWINS), ("patch",), subresource="status"),
                Grant((NODE_HARDWARES, TELEMETRY_PROFILES), _READ, reason="What the agents write."),
                Grant((NODE_BMCS,), _READ, reason="Power of whole servers."),
                Grant((NODE_POWER_BUDGETS,), ("list", "delete"), reason="Limits of nodes that are limited no more."),
            ),
            namespace=(Grant((LEASES,), ("get", "create", "update"), reason="Leader election."),),
            sleep=(
                Grant((NODE_SLEEP_POLICIES,), _READ),
                Grant((NODE_SLEEP_POLICIES,), ("patch",), subresource="status"),
                Grant((NODE_BMCS,), ("patch",), reason="The patch powers servers off and on."),
                Grant((NODE_BMCS,), ("patch",), subresource="status", reason="The condition of servers left off."),
                Grant((NODES,), ("patch",), subresource="status", reason="The condition of nodes that sleep."),
                Grant((PODS,), ("create",), subresource="eviction", reason="Within PodDisruptionBudgets."),
                Grant((DAEMON_SETS,), _READ, reason="Whether a roll-out waits for a node."),
                Grant(
                    (PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES), _READ, reason="On which nodes a pod finds its data."
                ),
            ),
            savings=(
                Grant((CONFIG_MAPS,), ("get", "patch"), by_name=True, reason="The ledger of savings."),
                Grant((CONFIG_MAPS,), ("create",), reason="Its first write; a name cannot limit it."),
            ),
            power_domains=(
                Grant((POWER_DOMAINS, POWER_EVENTS), _READ),
                Grant((POWER_DOMAINS, POWER_EVENTS), ("patch",), subresource="status", reason="What is observed."),
                Grant((NODE_POWER_BUDGETS,), ("watch",), reason="What is in force on nodes."),
            ),
            power_budgets=(Grant((NODE_POWER_BUDGETS,), ("create", "patch"), reason="Limits of nodes."),),
        ),
        "agent": Permissions(
            cluster=(
                Grant((NODES,), ("get", *_READ)),
                Grant((NODE_POWER_PROFILES,), _READ),
                Grant((NODE_HARDWARES, TELEMETRY_PROFILES), _OWN),
                Grant((NODE_HARDWARES, TELEMETRY_PROFILES), ("patch",), subresource="status"),
                Grant((NODE_POWER_BUDGETS,), _READ, reason="The limit of the agent's own node."),
                Grant((NODE_POWER_BUDGETS,), ("patch",), subresource="status", reason="What is in force of it."),
            ),
            namespace=(
                Grant(
                    (SECRETS,),
                    ("get",),
                    by_name=True,
                    reason="Headers for HTTP backends. The author of a TelemetryProfile also sets their destination.",
                ),
            ),
            resource_manager=(
                Grant(_CONTAINER_POLICIES, _READ),
                Grant(_CONTAINER_POLICIES, ("patch",), subresource="status"),
                Grant((NODES,), ("patch",), reason="Labels, annotations and taints that a container policy sets."),
                Grant((NODES,), ("patch",), subresource="status", reason="Capacity of extended resources."),
                Grant((NODE_RESOURCE_TOPOLOGIES,), ("get", "create", "patch", "delete")),
            ),
            holders=(Grant((RESOURCE_SLICES,), _READ, reason="Which GPU a device of a claim is."),),
            node_pods=(Grant((PODS,), _READ, reason="Class and workload of the pods on the agent's node."),),
            class_limits=(Grant((NAMESPACES,), _READ, reason="How much longer their pods may run."),),
            pod_events=(Grant((EVENTS,), ("create",), reason="Warnings about pods, and receipts of their energy."),),
        ),
        "extender": Permissions(
            cluster=(Grant((NODES, PODS), _READ), Grant((NODE_HARDWARES, NODE_TWINS), _READ), _CLAIMS)
        ),
        "outofband": Permissions(
            cluster=(
                Grant((NODE_BMCS,), _READ),
                Grant((NODE_BMCS,), ("get",), reason="Whether a power-off is still requested."),
                Grant((NODE_BMCS,), ("patch",), subresource="status"),
                Grant((NODES,), ("get",), reason="Whether a node is tainted, and ready after it was powered on."),
                Grant((PODS,), ("list",), reason="Whether a node has pods that would be lost with its power."),
            ),
            namespace=(
                Grant((LEASES,), ("get", "create", "update"), reason="Leader election."),
                Grant((SECRETS,), ("get",), by_name=True, reason="Credentials of BMCs, and what verifies them."),
            ),
        ),
        "ven": Permissions(cluster=(Grant((POWER_EVENTS,), ("list", "create", "patch", "delete")),)),
    }
)

#: What a user of `kubectl joulie` needs; the role joulie-viewer of the chart.
VIEWER: Final = Permissions(
    cluster=(
        Grant((NODE_POWER_PROFILES, NODE_TWINS, TELEMETRY_PROFILES), ("get", *_READ)),
        Grant(
            (NODE_HARDWARES, NODE_BMCS, NODE_SLEEP_POLICIES, POWER_DOMAINS, POWER_EVENTS, NODE_POWER_BUDGETS),
            ("list",),
        ),
        Grant((NODES, PODS), ("get", "list")),
        Grant((EVENTS,), ("list", "watch")),
        Grant((API_SERVICES,), ("list",), reason="To find the extender."),
        Grant((CLUSTER_ROLES,), ("list",), reason="doctor compares those of the services with what they need."),
    ),
    namespace=(
        Grant(
            (API_SERVICES,),
            ("get", "create"),
            subresource="proxy",
            by_name=True,
            reason="What the extender knows: the create is a POST of a pod to /debug/explain, which changes nothing.",
        ),
    ),
    savings=(Grant((CONFIG_MAPS,), ("get",), by_name=True, reason="The ledger of savings."),),
    energy_factors=(Grant((CONFIG_MAPS,), ("get",), by_name=True, reason="What a kWh costs and emits."),),
)
