"""Nodes as the decision about sleep reads them."""

from dataclasses import dataclass
from typing import Final

from joulie_api.wire import decode_node
from joulie_api.wire.nodes import WireTaint, decode_node_state
from joulie_core import labels
from joulie_core.kinds.node_bmc import MOST_OF_BOOT_ID
from joulie_core.node import Node
from joulie_core.sleep.model import NodeTaint
from joulie_core.text import printable

#: Type of the condition that nodes get which sleep.
SLEEP_CONDITION: Final = f"{labels.PREFIX}Asleep"
#: Characters of the reason of a maintenance that are shown.
MOST_OF_MAINTENANCE: Final = 256
#: Of the taints that Kubernetes derives from the conditions of a Node.
_NODE_CONDITIONS: Final = "node.kubernetes.io/"
#: Taints of nodes that sleep, are not ready or cordoned, which is known of them otherwise.
_PASSING: Final = frozenset(
    {labels.ASLEEP_TAINT, *(f"{_NODE_CONDITIONS}{each}" for each in ("not-ready", "unreachable", "unschedulable"))}
)


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """A Node."""

    node: Node
    taints: tuple[WireTaint, ...]
    #: Whether the condition Ready is True; False also while the kubelet is silent. None without the condition.
    ready: bool | None
    #: Reason and message of the condition about sleep; empty without it.
    sleep_reason: str
    sleep_message: str
    #: Which boot of the server the kubelet is of; empty: unknown.
    boot_id: str

    @property
    def cordoned(self) -> bool:
        """Whether it has the taint of sleeping nodes."""
        return any(taint.key == labels.ASLEEP_TAINT for taint in self.taints)

    @property
    def maintenance(self) -> str | None:
        """Reason why, and by whom, the server is worked on; None where it is not."""
        text = self.node.annotations.get(labels.MAINTENANCE)
        return None if text is None else printable(text, MOST_OF_MAINTENANCE)

    @property
    def lasting_taints(self) -> tuple[NodeTaint, ...]:
        """The taints that the node has also when it is awake and ready.

        Those of its conditions, such as a full disk, are out of date while it sleeps.
        """
        return tuple(
            NodeTaint(taint.key, taint.value or "", taint.effect)
            for taint in self.taints
            if taint.key not in _PASSING and not (self.cordoned and taint.key.startswith(_NODE_CONDITIONS))
        )


def read_node(raw: bytes) -> WatchedNode:
    """Decode a Node.

    Raises:
        DecodeError: not a Node.
    """
    node = decode_node(raw)
    state = decode_node_state(raw)
    sleeping = state.report.find(SLEEP_CONDITION)
    return WatchedNode(
        node=node,
        taints=tuple(state.taints),
        ready=state.report.holds("Ready"),
        sleep_reason=sleeping.reason if sleeping is not None else "",
        sleep_message=sleeping.message if sleeping is not None else "",
        boot_id=printable(state.report.boot_id, MOST_OF_BOOT_ID),
    )
