"""The RBAC roles of Joulie's services and of the simulator, and their bindings to users.

The services' rules are those of `joulie_api.permissions`, which the Helm chart is generated from as well, and include
those for a resource manager.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from joulie_api.permissions import SERVICES, Grant, Permissions
from joulie_api.resources import NODES, PODS

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_SIMULATOR: Final = Permissions(
    cluster=(
        Grant((NODES,), ("list", "watch")),
        Grant((PODS,), ("list", "watch", "delete")),
        Grant((PODS,), ("patch",), subresource="status"),
    )
)
#: End the names of roles of a service beside a resource manager, where nodes may sleep, where savings are estimated,
#: where power domains are observed, where they are enforced, and where GPUs are limited by the class of their holders.
_RESOURCE_MANAGER: Final = "-resource-manager"
_SLEEP: Final = "-sleep"
_SAVINGS: Final = "-savings"
_POWER_DOMAINS: Final = "-power-domains"
_POWER_BUDGETS: Final = "-power-budgets"
_CLASS_LIMITS: Final = "-class-limits"
#: By the name of the service, which is also that of its user.
PERMISSIONS: Final[Mapping[str, Permissions]] = {
    **{f"joulie-{service}": permissions for service, permissions in SERVICES.items()},
    "joulie-sim": _SIMULATOR,
}


def load_roles() -> list[dict[str, Any]]:
    """Return the roles of all services, the namespaced ones without a namespace."""
    return [
        _role(kind, role, grants)
        for name, permissions in PERMISSIONS.items()
        for kind, role, grants in (
            ("ClusterRole", name, permissions.cluster),
            ("ClusterRole", f"{name}{_RESOURCE_MANAGER}", (*permissions.resource_manager, *permissions.pod_events)),
            ("ClusterRole", f"{name}{_SLEEP}", permissions.sleep),
            ("ClusterRole", f"{name}{_POWER_DOMAINS}", permissions.power_domains),
            ("ClusterRole", f"{name}{_POWER_BUDGETS}", permissions.power_budgets),
            ("ClusterRole", f"{name}{_CLASS_LIMITS}", _of_class_limits(permissions)),
            ("Role", name, permissions.namespace),
            ("Role", f"{name}{_SAVINGS}", permissions.savings),
        )
        if grants
    ]


def service_roles(namespace: str) -> list[dict[str, Any]]:
    """Return the roles of all services, the namespaced ones in `namespace`."""
    return [
        {**role, "metadata": {**role["metadata"], "namespace": namespace}} if role["kind"] == "Role" else role
        for role in load_roles()
    ]


def bindings(roles: Iterable[Mapping[str, Any]], user: str) -> list[dict[str, Any]]:
    """Return a binding to `user` for each of its roles."""
    return [_binding(role, user) for role in roles if user_of(role) == user]


def user_of(role: Mapping[str, Any]) -> str:
    """Return the name of the user whose permissions the role has, which is that of its service."""
    name = str(role["metadata"]["name"])
    for suffix in (_RESOURCE_MANAGER, _SLEEP, _SAVINGS, _POWER_DOMAINS, _POWER_BUDGETS, _CLASS_LIMITS):
        name = name.removesuffix(suffix)
    return name


def _of_class_limits(permissions: Permissions) -> tuple[Grant, ...]:
    return (*permissions.holders, *permissions.node_pods, *permissions.class_limits)


def _role(kind: str, name: str, grants: Iterable[Grant]) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": [grant.rule() for grant in grants],
    }


def _binding(role: Mapping[str, Any], user: str) -> dict[str, Any]:
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": _RBAC_GROUP, "kind": "User", "name": user}],
    }
