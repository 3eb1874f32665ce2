"""The kubelet of a simulated server: KWOK stands for it while the server is on, and nothing while it is off."""

import time
from typing import Any

from joulie_api.client import KubeClient
from joulie_api.resources import NODES
from joulie_core.timestamps import rfc3339
from joulie_devcluster.control_plane.nodes import KWOK_ANNOTATION, KWOK_ANNOTATION_VALUE


async def set_kubelet(client: KubeClient, node: str, *, runs: bool, boot_id: str) -> None:
    """Have KWOK manage a Node, or leave it alone, and write its readiness.

    `boot_id` is that of the boot in which the kubelet runs. A kubelet that has stopped writes nothing, so that its Node
    keeps the ID of the boot that has ended.

    An API server that hears nothing more of a kubelet finds out by itself, after the grace period of the controller
    manager; here it is told at once.

    Raises:
        KubeError: a write failed.
    """
    value = KWOK_ANNOTATION_VALUE if runs else None
    await client.merge_patch(NODES, node, {"metadata": {"annotations": {KWOK_ANNOTATION: value}}})
    now = rfc3339(time.time(), "seconds")
    ready: dict[str, Any] = {
        "type": "Ready",
        "status": "True" if runs else "Unknown",
        "reason": "KubeletReady" if runs else "NodeStatusUnknown",
        "lastTransitionTime": now,
        "lastHeartbeatTime": now,
    }
    status = {"conditions": [ready], **({"nodeInfo": {"bootID": boot_id}} if runs else {})}
    await client.merge_patch(NODES, node, {"status": status}, subresource="status")
