"""Manifests that a cluster needs before workloads run on it: RBAC roles and bindings, CRDs, namespaces."""

from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

import yaml

from joulie_api.client import KubeClient
from joulie_api.resources import CRDS, NAMESPACES, Resource

FIELD_MANAGER: Final = "joulie-devcluster"
#: Directory of the YAML files of this package.
DATA: Final = resources.files("joulie_devcluster.control_plane") / "data"

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


def load_manifests(file: Traversable) -> list[dict[str, Any]]:
    """Return the manifests of a YAML file, empty documents left out."""
    return [document for document in yaml.safe_load_all(file.read_text()) if document]


async def apply_manifests(client: KubeClient, manifests: Sequence[Mapping[str, Any]]) -> None:
    """Apply manifests in order with server-side apply.

    Raises:
        KeyError: the kind of a manifest is not supported.
    """
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
