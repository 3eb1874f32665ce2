"""The RBAC roles of Joulie's services, and their bindings to users.

`rbac.yaml` is the list of what each service may do. The Helm chart renders the same rules; a test compares the two.
"""

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

from joulie_devcluster.control_plane.manifests import load_manifests


def load_roles() -> list[dict[str, Any]]:
    """Return the roles of all services, the namespaced ones without a namespace."""
    return load_manifests(resources.files("joulie_sim.stack") / "rbac.yaml")


def service_roles(namespace: str) -> list[dict[str, Any]]:
    """Return the roles of all services, the namespaced ones in `namespace`."""
    return [
        {**role, "metadata": {**role["metadata"], "namespace": namespace}} if role["kind"] == "Role" else role
        for role in load_roles()
    ]


def bindings(roles: Iterable[Mapping[str, Any]], user: str) -> list[dict[str, Any]]:
    """Return a binding to `user` for each role of that name."""
    return [_binding(role, user) for role in roles if role["metadata"]["name"] == user]


def _binding(role: Mapping[str, Any], user: str) -> dict[str, Any]:
    group, _, _ = role["apiVersion"].partition("/")
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": group, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
