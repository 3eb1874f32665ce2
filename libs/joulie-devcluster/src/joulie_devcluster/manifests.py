"""Apply the manifests that a cluster needs before anything runs on it: RBAC roles, their bindings, CRDs, namespaces."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Final

import yaml

from joulie_api.client import KubeClient
from joulie_api.resources import CRDS, NAMESPACES, Resource

FIELD_MANAGER: Final = "joulie-devcluster"

_RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_RESOURCES: Final = {
    resource.kind: resource
    for resource in (
        CRDS,
        NAMESPACES,
        Resource(_RBAC_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False),
        Resource(_RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        Resource(_RBAC_GROUP, "v1", "roles", "Role", namespaced=True),
        Resource(_RBAC_GROUP, "v1", "rolebindings", "RoleBinding", namespaced=True),
    )
}


def load_manifests(file_name: str) -> list[dict[str, Any]]:
    """The manifests of one file of this package's `data` directory."""
    text = (resources.files("joulie_devcluster") / "data" / file_name).read_text()
    return [document for document in yaml.safe_load_all(text) if document]


def service_roles(namespace: str) -> list[dict[str, Any]]:
    """The roles of all services, the namespaced ones placed in `namespace`."""
    return [_placed(manifest, namespace) for manifest in load_manifests("rbac.yaml")]


def bindings(roles: Iterable[Mapping[str, Any]], user: str) -> list[dict[str, Any]]:
    """A binding to `user` for each role that carries the user's name."""
    return [_binding(role, user) for role in roles if role["metadata"]["name"] == user]


async def apply_manifests(client: KubeClient, manifests: Sequence[Mapping[str, Any]]) -> None:
    """Apply manifests in order (server-side apply); KeyError for a kind that this module does not know."""
    for manifest in manifests:
        resource = _RESOURCES[manifest["kind"]]
        metadata = manifest["metadata"]
        await client.apply(
            resource,
            metadata["name"],
            manifest,
            field_manager=FIELD_MANAGER,
            namespace=metadata.get("namespace") if resource.namespaced else None,
        )


def _placed(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    if not _RESOURCES[manifest["kind"]].namespaced:
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _binding(role: Mapping[str, Any], user: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_RBAC_GROUP}/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": {"apiGroup": _RBAC_GROUP, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": _RBAC_GROUP, "kind": "User", "name": user}],
    }
