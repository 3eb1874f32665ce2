"""Who is planned what, and what each node's published state has to be right now.

Two entries. `plan` runs the policy over the eligible nodes and answers which nodes need attention. `goal` looks at one
node once more, immediately before it is written: the transition machine is stepped here and nowhere else, on the counts
of that very moment, so a plan that is seconds old cannot slow a pod that has arrived since.

A node that is allowed to leave performance is first *announced*: its label and twin say eco, its caps stay. Only when
the announcement has been on the API server for `settle_s`, so that a scheduler acting on the older label has shown its
hand, and still no performance pod is there, is the transition made and are the eco caps published.

What becomes of nodes that are not planned: reserved nodes, nodes that are being deleted and nodes outside the selection
are cleaned; cordoned nodes keep their last target and drain on, and get none if they never had one.

Pure but for its memory: no clock, no I/O. Nothing has to be remembered over a restart, see `transition.recover`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from joulie_core.caps import CapIntent, CapSettings, intent_for
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import NodePowerProfileSpec, OnLostControl, PolicyNote
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.policy import Plan, Policy, PolicyContext
from joulie_core.transition import GuardResult, NodeState, Transition, recover, step
from joulie_core.twin import schedulable_class
from joulie_operator.cluster import Cluster, Eligibility
from joulie_operator.gpu_caps_check import GpuCapsCheck
from joulie_operator.published import PublishedTarget

TransitionListener = Callable[[NodeName, Transition], None]
#: Gets the state that a node keeps because its pods could not be read.
UnknownListener = Callable[[NodeName, NodeState], None]


@dataclass(slots=True)
class NodeRecord:
    """What the operator remembers of a node that it publishes."""

    #: Of the Node; another one under the same name is another node.
    uid: str
    state: NodeState
    planned: Profile
    #: Why the policy chose as it did.
    reason: str
    #: Monotonic time since which the eco announcement is on the API server; None while there is none.
    announced_at: float | None = None
    #: Whether a change has to wait because the pods cannot be read, and that has been told.
    held_up: bool = False
    #: The target as last computed, and what it was computed from.
    target: NodePowerProfileSpec | None = None
    basis: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What is to be published for a node."""

    state: NodeState
    profile_label: Profile
    draining: bool
    schedulable_class: SchedulableClass
    caps: CapIntent
    #: None while the target on the API server is to stay as it is.
    target: NodePowerProfileSpec | None
    #: Seconds after which the node must be looked at again; None if only a change can make that necessary.
    requeue_after_s: float | None = None

    @property
    def announcing(self) -> bool:
        """Whether eco is announced and not yet in force."""
        return self.target is None


class NodePlanner:
    """The operator's decisions, with their memory."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        caps: CapSettings,
        *,
        reconcile_interval_s: float,
        settle_s: float,
        on_lost_control: OnLostControl,
        blocking_pods: Callable[[NodeName], int | None],
        published: Callable[[NodeName], PublishedTarget | None],
        on_transition: TransitionListener,
        on_unknown: UnknownListener,
    ) -> None:
        self._cluster = cluster
        self._policy = policy
        self._caps = caps
        self._gpu_caps_check = GpuCapsCheck(caps)
        self._reconcile_interval_s = reconcile_interval_s
        self._settle_s = settle_s
        self._on_lost_control = on_lost_control
        self._blocking_pods = blocking_pods
        self._published = published
        self._on_transition = on_transition
        self._on_unknown = on_unknown
        self._records: dict[NodeName, NodeRecord] = {}
        self.last_plan: Plan | None = None

    def state(self, name: NodeName) -> NodeState | None:
        """Return the state of a node, None for one that nothing was decided for."""
        record = self._records.get(name)
        return record.state if record is not None else None

    def offered(self, name: NodeName) -> SchedulableClass:
        """Return the supply that is published for a node; from its announcement on, a node going eco offers eco."""
        record = self._records.get(name)
        if record is not None and record.announced_at is not None:
            return SchedulableClass.ECO
        return schedulable_class(record.state if record is not None else None)

    def target(self, name: NodeName) -> NodePowerProfileSpec | None:
        """Return the target that was last decided to be published; None where none was."""
        record = self._records.get(name)
        return record.target if record is not None else None

    def managed(self) -> list[NodeName]:
        """Return the nodes that something was decided for."""
        return list(self._records)

    def plan(self, wall: float) -> list[NodeName]:
        """Run the policy; return the nodes whose publication may have to change."""
        plan = self._policy.plan(
            PolicyContext(
                candidates=self._cluster.candidates(),
                performance_pods=self._cluster.performance_pods,
                now=wall,
                reconcile_interval_s=self._reconcile_interval_s,
            )
        )
        self.last_plan = plan
        return [name for name, profile in plan.profiles.items() if self._assign(name, profile, plan.choices[name])]

    def goal(self, name: NodeName, now: float, wall: float) -> DesiredState | None:
        """Decide about one node, on what is known at this moment.

        Args:
            name: the node.
            now: monotonic time, seconds.
            wall: wall-clock time for what is reported, seconds since the epoch.

        Returns:
            What to publish; None where nothing is to be published, and what is there is to be left alone (`standing`
            tells the nodes that are to be cleaned).

        """
        record = self._record(name)
        if record is None:
            return None
        wanted = self._wanted(name, record)
        outcome = step(record.state, wanted, self._blocking_pods(name), wall)
        changing = wanted is not record.state.profile or record.state.draining
        self._hold_up(name, record, held_up=changing and outcome.verdict is GuardResult.PODS_UNKNOWN)
        going_eco = record.state is NodeState.ACTIVE_PERFORMANCE and outcome.state is NodeState.ACTIVE_ECO
        if going_eco and (record.announced_at is None or now - record.announced_at < self._settle_s):
            return self._announcement(name, record, now)
        record.announced_at = None
        if outcome.transition is not None:
            record.state = outcome.state
            self._on_transition(name, outcome.transition)
        state = record.state
        caps = self._caps_of(name, state)
        return DesiredState(
            state=state,
            profile_label=state.profile,
            draining=state.draining,
            schedulable_class=schedulable_class(state),
            caps=caps,
            target=self._target(name, record, caps),
        )

    def announced(self, name: NodeName, now: float) -> float:
        """Note that the eco announcement is on the API server; return in how many seconds to look again."""
        record = self._records.get(name)
        if record is None:
            return self._settle_s
        if record.announced_at is None:
            record.announced_at = now
        return max(0.0, record.announced_at + self._settle_s - now)

    def caps(self, name: NodeName) -> CapIntent:
        """Return the caps in force, as published."""
        return self._caps_of(name, self.state(name) or NodeState.ACTIVE_PERFORMANCE)

    def forget(self, name: NodeName) -> None:
        """Drop a node that has been cleaned."""
        self._records.pop(name, None)

    def _hold_up(self, name: NodeName, record: NodeRecord, *, held_up: bool) -> None:
        """Tell of a change that has to wait, once."""
        if held_up and not record.held_up:
            self._on_unknown(name, record.state)
        record.held_up = held_up

    def _assign(self, name: NodeName, profile: Profile, reason: str) -> bool:
        node = self._cluster.nodes[name]
        record = self._records.get(name)
        if record is None or record.uid != node.uid:
            self._records[name] = NodeRecord(node.uid, self._recovered(node), profile, reason)
            return True
        moved = record.planned is not profile or record.reason != reason
        record.planned, record.reason = profile, reason
        # A draining node has nothing to be done until its pods change, which is a change of that node's own.
        return moved or record.state.profile is not profile

    def _record(self, name: NodeName) -> NodeRecord | None:
        """Return the node's record, making one for a cordoned node that was published before a restart."""
        node, standing = self._cluster.nodes.get(name), self._cluster.standing(name)
        if node is None or standing is Eligibility.UNMANAGED:
            return None
        record = self._records.get(name)
        if record is None and standing is Eligibility.CORDONED and self._published_for(node) is not None:
            state = self._recovered(node)
            record = self._records[name] = NodeRecord(
                node.uid, state, state.profile, "cordoned: keeps its last profile"
            )
        return record

    def _wanted(self, name: NodeName, record: NodeRecord) -> Profile:
        """Return the planned profile; a cordoned node is not planned and wants to stay what it is."""
        cordoned = self._cluster.standing(name) is Eligibility.CORDONED
        return record.state.profile if cordoned else record.planned

    def _recovered(self, node: Node) -> NodeState:
        spec = self._published_for(node)
        return recover((spec.profile, spec.draining) if spec is not None else None, node.labels)

    def _published_for(self, node: Node) -> NodePowerProfileSpec | None:
        """Return the published target, unless it was made for another node of that name."""
        published = self._published(node.name)
        return published.spec if published is not None and published.owner_uid in {"", node.uid} else None

    def _announcement(self, name: NodeName, record: NodeRecord, now: float) -> DesiredState:
        waited = 0.0 if record.announced_at is None else now - record.announced_at
        return DesiredState(
            state=record.state,
            profile_label=Profile.ECO,
            draining=False,
            schedulable_class=SchedulableClass.ECO,
            caps=self._caps_of(name, record.state),
            target=None,
            requeue_after_s=self._settle_s - waited,
        )

    def _caps_of(self, name: NodeName, state: NodeState) -> CapIntent:
        machine = self._cluster.machine(name)
        view = machine.view if machine is not None else None
        caps = intent_for(state.profile, draining=state.draining, hardware=view, settings=self._caps)
        self._gpu_caps_check.on_caps(view.gpu if view is not None else None, caps)
        return caps

    def _target(self, name: NodeName, record: NodeRecord, caps: CapIntent) -> NodePowerProfileSpec:
        basis = (record.state, record.reason, caps)
        if record.target is None or record.basis != basis:
            record.basis = basis
            record.target = NodePowerProfileSpec(
                node_name=name,
                profile=record.state.profile,
                draining=record.state.draining,
                cpu=caps.cpu_target(),
                gpu=caps.gpu_target(),
                policy=PolicyNote(name=self._policy.name, reason=record.reason, on_lost_control=self._on_lost_control),
            )
        return record.target
