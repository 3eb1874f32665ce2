"""Planner of nodes: the profile that each is planned, and what has to be published for it right now.

`NodePlanner.plan` runs the policy over the eligible nodes and returns the nodes that need attention.
`NodePlanner.desired` decides about one node immediately before it is written: the transition is stepped on the pods of
that very moment, so a plan that is seconds old cannot slow a pod that has arrived since. A decision changes nothing
until `NodePlanner.commit` is called, when it is on the API server.

A node that may leave performance is first *announced*: its label and twin say eco, its caps stay. Only when the
announcement has been on the API server for `settle_s`, so that a scheduler which acts on the older label has bound its
pod, and still no performance pod is there, is the transition made and are the eco caps published.

Nodes that are not planned: reserved nodes, nodes that are being deleted and nodes outside the selection are cleaned by
the reconciler; cordoned nodes keep their last target and drain on, and get none if they never had one.

There is no clock and no I/O here. Nothing has to be kept over a restart, see `joulie_core.transition.recover` and
docs/decisions/0012-operator-flow.md.
"""

from collections.abc import Callable, Sequence
from typing import Final

from joulie_core.caps import CapIntent, CapSettings, intent_for
from joulie_core.class_caps.gpu_limits import LimitReason
from joulie_core.kinds.base import Profile
from joulie_core.kinds.node_power_profile import (
    ClassLimitTarget,
    NodePowerProfileSpec,
    OnLostControl,
    PolicyNote,
)
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.memo import Memo
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_core.policy import Candidate, Plan, Policy, PolicyContext
from joulie_core.transition import GuardResult, NodeState, StepResult, recover, step
from joulie_core.twin import schedulable_class
from joulie_operator.cluster import Cluster, Eligibility
from joulie_operator.decisions import Decision, DesiredState, NodeRecord
from joulie_operator.gpu_caps_check import is_unlisted
from joulie_operator.notifications import GpuCapNotListed, Notification, PodsUnreadable, TransitionMade
from joulie_operator.published_state import PublishedState

_LIFTED: Final = ClassLimitTarget(lifted=True, reason=LimitReason.GPUS_IN_DEMAND)


def never_lifted(_name: NodeName) -> bool:
    """Return False: for operators that do not lift limits by class."""
    return False


class NodePlanner:
    """The operator's decisions, and what of them is published."""

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        caps: CapSettings,
        *,
        reconcile_interval_s: float,
        settle_s: float,
        on_lost_control: OnLostControl,
        published: PublishedState,
        lifted: Callable[[NodeName], bool] = never_lifted,
    ) -> None:
        """Make a planner; `lifted` returns whether limits by class are lifted on a node."""
        self._lifted = lifted
        self._cluster = cluster
        self._policy = policy
        self._caps = caps
        self._reconcile_interval_s = reconcile_interval_s
        self._settle_s = settle_s
        self._on_lost_control = on_lost_control
        self._published = published
        self._records: dict[NodeName, NodeRecord] = {}
        self.last_plan: Plan | None = None

    def state(self, name: NodeName) -> NodeState | None:
        """Return the published state of a node, None for one that nothing was decided about."""
        record = self._records.get(name)
        return record.state if record is not None else None

    def published_class(self, name: NodeName) -> SchedulableClass:
        """Return the schedulable class that is published; from its announcement on, a node going eco is eco."""
        record = self._records.get(name)
        if record is not None and record.announced_at is not None:
            return SchedulableClass.ECO
        return schedulable_class(record.state if record is not None else None)

    def published_caps(self, name: NodeName) -> CapIntent:
        """Return the caps that are published; those of performance for a node that nothing was decided about."""
        return self._caps_of(name, self.state(name) or NodeState.ACTIVE_PERFORMANCE)

    def managed(self) -> list[NodeName]:
        """Return the nodes that something was decided about."""
        return list(self._records)

    def plan(self, wall: float) -> list[NodeName]:
        """Run the policy; return the nodes whose published objects may have to change."""
        candidates = self._cluster.candidates()
        plan = self._policy.plan(
            PolicyContext(
                candidates=candidates,
                performance_pods=self._cluster.performance_pods,
                now=wall,
                reconcile_interval_s=self._reconcile_interval_s,
                planned=self._planned_performance(candidates),
            )
        )
        self.last_plan = plan
        return [name for name, profile in plan.profiles.items() if self._assign(name, profile, plan.choices[name])]

    def desired(self, name: NodeName, now: float, wall: float) -> Decision | None:
        """Decide about one node, on what is known at this moment.

        Args:
            name: the node.
            now: monotonic time, seconds.
            wall: wall-clock time of a transition, seconds since the epoch.

        Returns:
            The decision; None for a node that nothing is published for and that is not planned yet.

        """
        record = self._record(name)
        if record is None:
            return None
        node, planned = self._cluster.nodes[name], self._planned(name, record)
        blocking_pods = self._cluster.blocking_pods(name)
        guarded = step(record.state, planned, blocking_pods, wall)
        going_eco = record.state is NodeState.ACTIVE_PERFORMANCE and guarded.state is NodeState.ACTIVE_ECO
        if going_eco and (record.announced_at is None or now - record.announced_at < self._settle_s):
            return self._announcement(node, record, now)
        caps = self._caps_of(name, guarded.state)
        changing = planned is not record.state.profile or record.state.draining
        pods_unreadable = changing and guarded.result is GuardResult.PODS_UNKNOWN
        notifications: list[Notification] = self._cap_notifications(name, caps)
        if pods_unreadable and not record.pods_unreadable:
            notifications.append(PodsUnreadable(node, guarded.state))
        return Decision(
            node=node,
            record=record,
            state=guarded.state,
            desired=DesiredState(
                profile_label=guarded.state.profile,
                draining=guarded.state.draining,
                schedulable_class=schedulable_class(guarded.state),
                caps=caps,
                target=self._target(name, record, guarded.state, caps),
            ),
            notifications=(*notifications, *_transition_notifications(node, guarded, blocking_pods)),
            pods_unreadable=pods_unreadable,
        )

    def commit(self, decision: Decision, now: float) -> None:
        """Make a decision the node's state: its target, or the labels that announce it, are on the API server."""
        if self._records.setdefault(decision.node.name, decision.record) is not decision.record:
            # Planned anew meanwhile: the decision was about an earlier node of that name.
            return
        record = decision.record
        record.state = decision.state
        record.pods_unreadable = decision.pods_unreadable
        if decision.desired.target is not None:
            record.announced_at = None
        elif record.announced_at is None:
            record.announced_at = now

    def forget(self, name: NodeName) -> None:
        """Drop a node that has been cleaned."""
        self._records.pop(name, None)

    def _planned_performance(self, candidates: Sequence[Candidate]) -> int | None:
        """Return how many nodes the last plan has in performance; before the first one, how many are published so."""
        if self.last_plan is not None:
            return self.last_plan.performance_count
        specs = [self._published_spec(self._cluster.nodes[candidate.name]) for candidate in candidates]
        published = [spec for spec in specs if spec is not None]
        supplying = sum(spec.profile is Profile.PERFORMANCE and not spec.draining for spec in published)
        return supplying if published else None

    def _assign(self, name: NodeName, profile: Profile, reason: str) -> bool:
        node = self._cluster.nodes[name]
        record = self._records.get(name)
        if record is None or record.uid != node.uid:
            self._records[name] = NodeRecord(node.uid, self._recovered(node), profile, reason)
            return True
        replanned = record.planned is not profile or record.reason != reason
        record.planned, record.reason = profile, reason
        # A draining node has nothing to be done until its pods change, which is a change of that node's own.
        return replanned or record.state.profile is not profile

    def _record(self, name: NodeName) -> NodeRecord | None:
        """Return the node's record, for a cordoned node that was published before a restart a new one."""
        node, eligibility = self._cluster.nodes.get(name), self._cluster.eligibility(name)
        if node is None or eligibility is Eligibility.UNMANAGED:
            return None
        record = self._records.get(name)
        if record is not None and record.uid == node.uid:
            return record
        if eligibility is Eligibility.CORDONED and self._published_spec(node) is not None:
            state = self._recovered(node)
            return NodeRecord(node.uid, state, state.profile, "cordoned: keeps its last profile")
        return None

    def _planned(self, name: NodeName, record: NodeRecord) -> Profile:
        """Return the planned profile; a cordoned node is not planned and stays what it is."""
        cordoned = self._cluster.eligibility(name) is Eligibility.CORDONED
        return record.state.profile if cordoned else record.planned

    def _recovered(self, node: Node) -> NodeState:
        spec = self._published_spec(node)
        return recover((spec.profile, spec.draining) if spec is not None else None, node.labels)

    def _published_spec(self, node: Node) -> NodePowerProfileSpec | None:
        """Return the published target, unless it was made for another node of that name."""
        target = self._published.target(node.name)
        return target.spec if target is not None and target.owner_uid in {"", node.uid} else None

    def _announcement(self, node: Node, record: NodeRecord, now: float) -> Decision:
        caps = self._caps_of(node.name, record.state)
        waited_s = 0.0 if record.announced_at is None else now - record.announced_at
        return Decision(
            node=node,
            record=record,
            state=record.state,
            desired=DesiredState(
                profile_label=Profile.ECO,
                draining=False,
                schedulable_class=SchedulableClass.ECO,
                caps=caps,
                target=None,
            ),
            requeue_after_s=self._settle_s - waited_s,
        )

    def _caps_of(self, name: NodeName, state: NodeState) -> CapIntent:
        view, record = self._cluster.view(name), self._records.get(name)
        memo: Memo[CapIntent] = record.caps if record is not None else Memo()
        return memo.of(
            (state, view),
            lambda: intent_for(state.profile, draining=state.draining, hardware=view, settings=self._caps),
        )

    def _cap_notifications(self, name: NodeName, caps: CapIntent) -> list[Notification]:
        view = self._cluster.view(name)
        gpu = view.gpu if view is not None else None
        return [GpuCapNotListed(gpu)] if gpu is not None and is_unlisted(caps, self._caps) else []

    def _target(self, name: NodeName, record: NodeRecord, state: NodeState, caps: CapIntent) -> NodePowerProfileSpec:
        lifted = self._lifted(name)

        def make() -> NodePowerProfileSpec:
            return NodePowerProfileSpec(
                node_name=name,
                profile=state.profile,
                draining=state.draining,
                cpu=caps.cpu_target(),
                gpu=caps.gpu_target(),
                policy=PolicyNote(name=self._policy.name, reason=record.reason, on_lost_control=self._on_lost_control),
                class_limits=_LIFTED if lifted else None,
            )

        return record.target.of((state, record.reason, caps, lifted), make)


def _transition_notifications(node: Node, result: StepResult, blocking_pods: int | None) -> list[Notification]:
    if result.transition is None:
        return []
    assert blocking_pods is not None, "no transition is made while the pods are unknown"
    return [TransitionMade(node, result.transition, blocking_pods)]
