"""Notifications made once the write behind them has succeeded; sent by `joulie_operator.notifier`."""

from dataclasses import dataclass

from joulie_core.hardware.view import GpuView
from joulie_core.node import Node
from joulie_core.transition import NodeState, Transition
from joulie_operator.published import PublishedCondition


@dataclass(frozen=True, slots=True)
class TransitionMade:
    """A node has changed its state."""

    node: Node
    transition: Transition
    performance_pods: int


@dataclass(frozen=True, slots=True)
class PodsUnreadable:
    """A node keeps its state, since its pods cannot be read."""

    node: Node
    state: NodeState


@dataclass(frozen=True, slots=True)
class GpuCapNotListed:
    """The cap of a GPU model is published as a percentage only, though absolute caps are configured."""

    gpu: GpuView


@dataclass(frozen=True, slots=True)
class CapsRefused:
    """The hardware of a node does not take its caps; `enforced` is the condition with the reason."""

    node: Node
    enforced: PublishedCondition


@dataclass(frozen=True, slots=True)
class NodeNotProcessed:
    """The work on a node failed for a reason in Joulie itself; `error` is the type of the exception."""

    node: Node
    error: str


Notification = TransitionMade | PodsUnreadable | GpuCapNotListed | CapsRefused | NodeNotProcessed
