"""Owner references: which objects the garbage collector deletes together with a Node.

Source: Kubernetes, "Garbage Collection". An owner is identified by its UID, so that a new Node of the same name does
not adopt the objects of the old one.
"""

from typing import Any

from joulie_api.resources import NODES
from joulie_core.node import Node


def owned_by(node: Node) -> dict[str, Any]:
    """Return the part of `metadata` that makes the Node an object's owner; empty while its UID is not known."""
    if not node.uid:
        return {}
    owner = {"apiVersion": NODES.api_version, "kind": NODES.kind, "name": node.name, "uid": node.uid}
    return {"ownerReferences": [owner]}
