"""Tells pods that end with their node from others, which would be lost with its power.

Guarantees one rule for the operator, which requests that a node is powered off, and for the out-of-band service, which
does it. The API server is asked for the present state: neither a watch nor its own cache is believed.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from joulie_api.client import KubeClient
from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.resources import PODS
from joulie_api.wire import decode_page
from joulie_api.wire.metadata import WireController, controller_of
from joulie_core.labels import MIRROR
from joulie_core.text import printable

#: Field selector of the pods that have not ended.
ACTIVE_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
#: Kinds of controllers whose pods end with the node.
_NODE_OWN: Final = frozenset({"DaemonSet", "Node"})
#: Pages of 500 pods: many more than a node runs.
_MOST_PAGES: Final = 8
#: Of pages with metadata alone.
_MOST_BYTES: Final = 16 << 20
#: Characters of a name: those of a namespace, a slash and those of a pod.
_MOST_NAME: Final = 63 + 1 + 253


class _Meta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None
    owner_references: list[WireController] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta


_PODS: Final = msgspec.json.Decoder(_Pod)


def ends_with_node(annotations: Mapping[str, str], controller: str) -> bool:
    """Return whether a pod is static or of a DaemonSet, by the kind of its controller (empty without one)."""
    return MIRROR in annotations or controller in _NODE_OWN


async def pod_in_the_way(reads: KubeClient, node: str) -> str | None:
    """Return one pod that would be lost with the power of a node, as `namespace/name`; None where there is none.

    A pod that is being deleted is one until it is gone. So is one whose metadata cannot be read.

    Raises:
        KubeError: the API server did not list the pods of the node completely.
    """
    selector, token = f"spec.nodeName={node},{ACTIVE_PODS}", ""
    for _ in range(_MOST_PAGES):
        raw = await reads.list_page(
            PODS, field_selector=selector, continue_token=token, metadata_only=True, max_bytes=_MOST_BYTES
        )
        page = decode_page(raw)
        found = next((name for item in page.items or () if (name := _lost(bytes(item))) is not None), None)
        token = page.metadata.continue_
        if found is not None or not token:
            return found
    return f"one of more than {_MOST_PAGES} pages of pods"


def _lost(raw: bytes) -> str | None:
    """Return the name of a pod that would be lost."""
    try:
        meta = decode(_PODS.decode, raw, "Pod").metadata
    except DecodeError:
        return "a pod that cannot be read"
    controller = controller_of(meta.owner_references)
    if ends_with_node(meta.annotations or {}, controller.kind if controller else ""):
        return None
    return printable(f"{meta.namespace}/{meta.name}", _MOST_NAME)
