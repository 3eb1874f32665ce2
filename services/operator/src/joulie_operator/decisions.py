"""Decisions about nodes as the planner makes them, and its record of a node between two of them."""

from dataclasses import dataclass, field

from joulie_core.caps import CapIntent
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.memo import Memo
from joulie_core.node import Node
from joulie_core.transition import NodeState
from joulie_operator.notifications import Notification


@dataclass(slots=True)
class NodeRecord:
    """The planner's record of a node that is published."""

    #: Of the Node; another one under the same name is another node.
    uid: str
    #: Of the last decision that was committed.
    state: NodeState
    planned: Profile
    #: Why the policy chose that profile.
    reason: str
    #: Monotonic time since which the eco announcement is on the API server; None while there is none.
    announced_at: float | None = None
    #: Whether a change has to wait because the pods cannot be read, and that was notified.
    pods_unreadable: bool = False
    target: Memo[NodePowerProfileSpec] = field(default_factory=Memo)
    caps: Memo[CapIntent] = field(default_factory=Memo)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Desired state to be published for a node."""

    profile_label: Profile
    draining: bool
    schedulable_class: SchedulableClass
    caps: CapIntent
    #: None while the target on the API server is to stay as it is: eco is announced and not yet in force.
    target: NodePowerProfileSpec | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Desired state to be published for a node, and what follows once it is."""

    node: Node
    record: NodeRecord
    #: That the node is in once this is published.
    state: NodeState
    desired: DesiredState
    notifications: tuple[Notification, ...] = ()
    pods_unreadable: bool = False
    #: Seconds after which the node has to be decided about again; None if only a change can make that necessary.
    requeue_after_s: float | None = None
