"""Boot times of one node: from the request to power on until the Node is ready. No I/O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from joulie_api.wire.nodes import decode_node_state
from joulie_core import labels
from joulie_core.kinds.node_bmc import MOST_BOOTS, MOST_OF_BOOT_ID, BmcBoot
from joulie_core.text import printable
from joulie_core.timestamps import epoch_seconds

_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class NodeReadiness:
    """Readiness of a Node, and whether pods are kept off it; `since_s` in seconds since the epoch, None if unknown."""

    ready: bool = False
    since_s: float | None = None
    boot_id: str = ""
    #: Whether it has the taint of sleeping nodes.
    tainted: bool = False


def is_complete(boot: BmcBoot, node: NodeReadiness, now_s: float) -> bool:
    """Return whether the node is ready by this boot, and not still by the one before.

    A time ahead of `now_s` is one of a node whose clock is wrong: it is no evidence, another boot ID is.
    """
    booted = bool(node.boot_id) and node.boot_id != boot.boot_id
    requested_s = epoch_seconds(boot.requested_at)
    if requested_s is None or node.since_s is None:
        return node.ready and booted
    # Nodes carry whole seconds.
    return node.ready and (booted or math.floor(requested_s) <= node.since_s <= now_s)


def read_readiness(raw: bytes) -> NodeReadiness:
    """Decode what is needed of a Node.

    Raises:
        DecodeError: not a Node.
    """
    node = decode_node_state(raw)
    ready = node.report.find("Ready")
    return NodeReadiness(
        ready=ready is not None and ready.status == "True",
        since_s=epoch_seconds(ready.last_transition_time) if ready is not None else None,
        boot_id=printable(node.report.boot_id, MOST_OF_BOOT_ID),
        tainted=any(taint.key == labels.ASLEEP_TAINT for taint in node.taints),
    )


def with_boot(recent: Sequence[float], boot_s: float) -> tuple[float, ...]:
    """Return the times of the last boots, oldest first, with one more."""
    return (*recent, round(boot_s, 1))[-MOST_BOOTS:]


def usual_boot_s(recent: Sequence[float]) -> float | None:
    """Return the 95th percentile (nearest rank) of the times; None without any."""
    if not recent:
        return None
    return sorted(recent)[math.ceil(_SHARE * len(recent)) - 1]
