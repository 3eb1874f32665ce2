"""Nodes on the wire."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire.metadata import WireConditions, WireMeta, read_annotations
from joulie_api.wire.quantities import WireQuantities, quantities
from joulie_core import labels
from joulie_core.names import NodeName
from joulie_core.node import Node


class WireTaint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A taint; written out again, it is as it was read."""

    key: str = ""
    effect: str = ""
    value: str | None = None
    time_added: str | None = None


class _TaintedSpec(msgspec.Struct):
    taints: list[WireTaint] | None = None


class _NodeInfo(msgspec.Struct):
    boot_id: str = msgspec.field(default="", name="bootID")


class WireNodeReport(WireConditions, rename="camel"):
    """The status of a Node, as far as its kubelet is concerned."""

    node_info: _NodeInfo | None = None

    @property
    def boot_id(self) -> str:
        """Boot of the machine that the kubelet is of, of any length; empty: unknown."""
        return self.node_info.boot_id if self.node_info else ""


class WireNodeState(msgspec.Struct):
    """A Node, as far as its taints and its kubelet are concerned."""

    spec: _TaintedSpec | None = None
    status: WireNodeReport | None = None

    @property
    def taints(self) -> Sequence[WireTaint]:
        """`spec.taints`."""
        return (self.spec.taints if self.spec else None) or ()

    @property
    def report(self) -> WireNodeReport:
        """`status`; empty without one."""
        return self.status or WireNodeReport()


class _NodeSpec(_TaintedSpec):
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct):
    allocatable: WireQuantities | None = None
    capacity: WireQuantities | None = None
    nodeInfo: _NodeInfo | None = None  # noqa: N815 - wire name


class _Node(msgspec.Struct):
    metadata: WireMeta
    spec: _NodeSpec | None = None
    status: _NodeStatus | None = None


#: Prefixes of the taints that Kubernetes itself sets for a condition of a node.
_CONTROLLER_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_KEEP_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
_NODES: Final = msgspec.json.Decoder(_Node)
_STATES: Final = msgspec.json.Decoder(WireNodeState)


def decode_node(raw: bytes) -> Node:
    """Decode a Node.

    Raises:
        DecodeError: not a Node.
    """
    wire = decode(_NODES.decode, raw, "Node")
    meta = wire.metadata
    return Node(
        name=NodeName(meta.name),
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        annotations=read_annotations(meta),
        unschedulable=wire.spec.unschedulable if wire.spec else False,
        allocatable=quantities(wire.status.allocatable if wire.status else None),
        capacity=_extended(wire.status.capacity if wire.status else None),
        deleting=meta.deletion_timestamp is not None,
        boot_id=wire.status.nodeInfo.boot_id if wire.status and wire.status.nodeInfo else "",
        tainted=any(map(_is_lasting, (wire.spec.taints if wire.spec else None) or ())),
    )


def decode_node_state(raw: bytes) -> WireNodeState:
    """Decode taints, conditions and boot of a Node.

    Raises:
        DecodeError: not a Node.
    """
    return decode(_STATES.decode, raw, "Node")


def _is_lasting(taint: WireTaint) -> bool:
    """Return whether a taint keeps pods away and is neither that of a node that sleeps nor the node controller's."""
    own = taint.key == labels.ASLEEP_TAINT or taint.key.startswith(_CONTROLLER_TAINTS)
    return not own and taint.effect in _KEEP_AWAY


def _extended(wire: WireQuantities | None) -> Mapping[str, str]:
    """Return the resources of device plugins, whose names have a domain."""
    return {name: str(value) for name, value in wire.items() if "/" in name} if wire else {}
