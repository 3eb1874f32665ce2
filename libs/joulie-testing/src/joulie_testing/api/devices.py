"""Builders for dynamic resource allocation: claims, their templates, and the definitions of the API."""

from typing import Any

_GROUP = "resource.k8s.io"


def dra_definitions() -> list[dict[str, Any]]:
    """Return definitions that make the in-process server serve claims; without them it does not, as older clusters."""
    plurals = {"resourceclaims": "ResourceClaim", "resourceclaimtemplates": "ResourceClaimTemplate"}
    namespaced = [_definition(plural, kind, "Namespaced") for plural, kind in plurals.items()]
    return [*namespaced, _definition("deviceclasses", "DeviceClass", "Cluster")]


def make_device_class(name: str, extended_resource: str | None = None) -> dict[str, Any]:
    """Return a DeviceClass for the devices of a driver of its name; pods may request `extended_resource` instead."""
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": f"device.driver == '{name}'"}}]}
    if extended_resource is not None:
        spec["extendedResourceName"] = extended_resource
    return {"apiVersion": f"{_GROUP}/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def make_claim(
    name: str,
    namespace: str = "default",
    *,
    device_class: str = "gpu.nvidia.com",
    count: int = 1,
    template: bool = False,
) -> dict[str, Any]:
    """Return a ResourceClaim for devices of one class, or a template of such claims."""
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ResourceClaimTemplate" if template else "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": spec} if template else spec,
    }


def claiming(pod: dict[str, Any], *, claim: str | None = None, template: str | None = None) -> dict[str, Any]:
    """Add a claim to a pod and its container, an existing one or one from a template, and return the pod."""
    names = {"resourceClaimName": claim, "resourceClaimTemplateName": template}
    claims = pod["spec"].setdefault("resourceClaims", [])
    name = f"claim-{len(claims)}"
    claims.append({"name": name, **{key: value for key, value in names.items() if value is not None}})
    pod["spec"]["containers"][0].setdefault("resources", {}).setdefault("claims", []).append({"name": name})
    return pod


def _definition(plural: str, kind: str, scope: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_GROUP}"},
        "spec": {
            "group": _GROUP,
            "names": {"plural": plural, "kind": kind},
            "scope": scope,
            "versions": [{"name": "v1", "served": True}],
        },
    }
