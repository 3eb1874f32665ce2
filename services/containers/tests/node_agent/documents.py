"""Objects as users write them."""

from typing import Any

from joulie_core.kinds.base import API_VERSION


def make_policy(name: str, kind: str = "TemplatePolicy", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def make_adjustment(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Adjustment", "metadata": {"name": name}, "spec": spec}
