"""Boot times of one node: from the request to power on until the Node is ready. No I/O."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_core import labels
from joulie_core.kinds.node_bmc import MOST_BOOTS, MOST_OF_BOOT_ID, BmcBoot
from joulie_core.text import printable
from joulie_core.timestamps import epoch_seconds

_SHARE: Final = 0.95


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    status: str
    last_transition_time: str | None = None


class _NodeInfo(msgspec.Struct, rename="camel"):
    boot_id: str = msgspec.field(default="", name="bootID")


class _Taint(msgspec.Struct):
    key: str = ""


class _Spec(msgspec.Struct):
    taints: list[_Taint] = msgspec.field(default_factory=list)


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)


class _Node(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_NODES: Final = msgspec.json.Decoder(_Node)


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
    node = decode(_NODES.decode, raw, "Node")
    status = node.status
    ready = next((each for each in status.conditions if each.type == "Ready"), None)
    return NodeReadiness(
        ready=ready is not None and ready.status == "True",
        since_s=epoch_seconds(ready.last_transition_time) if ready is not None else None,
        boot_id=printable(status.node_info.boot_id, MOST_OF_BOOT_ID),
        tainted=any(taint.key == labels.ASLEEP_TAINT for taint in node.spec.taints),
    )


def with_boot(recent: Sequence[float], boot_s: float) -> tuple[float, ...]:
    """Return the times of the last boots, oldest first, with one more."""
    return (*recent, round(boot_s, 1))[-MOST_BOOTS:]


def usual_boot_s(recent: Sequence[float]) -> float | None:
    """Return the 95th percentile (nearest rank) of the times; None without any."""
    if not recent:
        return None
    return sorted(recent)[math.ceil(_SHARE * len(recent)) - 1]
