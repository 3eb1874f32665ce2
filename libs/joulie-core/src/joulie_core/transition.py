"""The transition machine of one node: performance -> (draining) -> eco, and back.

Guarantees that a node which supplies performance goes to eco only when no performance pod is left on it, that a
draining node goes on as soon as the last one has left, and that nothing changes while the pods are unknown. It never
evicts.

It does not promise that an eco node is free of performance pods: one that lands there anyway (the extender was away,
or it was bound by hand) runs under the eco caps until the policy plans the node performance; there is no way back
from ActiveEco but that. If the node is planned eco again later, the guard holds for that pod like for any other.

Source: docs/decisions/0013-conventions.md (draining).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from joulie_core import labels
from joulie_core.kinds.base import Profile


class NodeState(StrEnum):
    """Where a node is between its two profiles."""

    ACTIVE_PERFORMANCE = "ActivePerformance"
    DRAINING_PERFORMANCE = "DrainingPerformance"
    ACTIVE_ECO = "ActiveEco"

    @property
    def profile(self) -> Profile:
        """The profile that is published for the state; a draining node is already published as eco."""
        return Profile.PERFORMANCE if self is NodeState.ACTIVE_PERFORMANCE else Profile.ECO

    @property
    def draining(self) -> bool:
        """Whether the draining flag is published."""
        return self is NodeState.DRAINING_PERFORMANCE


class GuardResult(StrEnum):
    """Result of the guard: the reason of every change and of every non-change."""

    DEFERRED = "deferred"
    ALLOWED = "allowed"
    STILL_BLOCKED = "still_blocked"
    UNBLOCKED = "unblocked"
    REPLANNED_PERFORMANCE = "replanned_performance"
    PLANNED_PERFORMANCE = "planned_performance"
    PODS_UNKNOWN = "pods_unknown"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of state; `at` is the time given to `step`."""

    from_state: NodeState
    to_state: NodeState
    result: GuardResult
    at: float


@dataclass(frozen=True, slots=True)
class StepResult:
    """The state after a step, why, and the transition where there was one."""

    state: NodeState
    result: GuardResult
    transition: Transition | None = None


_PERFORMANCE, _DRAINING, _ECO = NodeState
#: (state, planned profile, blocked by performance pods) -> (next state, result); what is not here stays as it is.
_TABLE: Final[Mapping[tuple[NodeState, Profile, bool], tuple[NodeState, GuardResult]]] = {
    (_PERFORMANCE, Profile.ECO, True): (_DRAINING, GuardResult.DEFERRED),
    (_PERFORMANCE, Profile.ECO, False): (_ECO, GuardResult.ALLOWED),
    (_DRAINING, Profile.ECO, True): (_DRAINING, GuardResult.STILL_BLOCKED),
    (_DRAINING, Profile.ECO, False): (_ECO, GuardResult.UNBLOCKED),
    (_DRAINING, Profile.PERFORMANCE, True): (_PERFORMANCE, GuardResult.REPLANNED_PERFORMANCE),
    (_DRAINING, Profile.PERFORMANCE, False): (_PERFORMANCE, GuardResult.REPLANNED_PERFORMANCE),
    (_ECO, Profile.PERFORMANCE, True): (_PERFORMANCE, GuardResult.PLANNED_PERFORMANCE),
    (_ECO, Profile.PERFORMANCE, False): (_PERFORMANCE, GuardResult.PLANNED_PERFORMANCE),
}


def step(state: NodeState, planned: Profile, blocking_pods: int | None, now: float) -> StepResult:
    """Advance one node by one evaluation of its plan and its pods.

    Args:
        state: where the node is.
        planned: what the policy wants.
        blocking_pods: active performance pods on the node; None where they could not be read.
        now: time of the evaluation, in seconds; only carried into the transition.

    """
    if blocking_pods is None:
        return StepResult(state, GuardResult.PODS_UNKNOWN)
    target, result = _TABLE.get((state, planned, blocking_pods > 0), (state, GuardResult.UNCHANGED))
    if target is state:
        return StepResult(state, result)
    return StepResult(target, result, Transition(state, target, result, now))


def recover(published: tuple[Profile, bool] | None, node_labels: Mapping[str, str]) -> NodeState:
    """Return the state that was last published, so that a restart forgets nothing.

    The published target (profile, draining) decides where there is one: on the way to eco it is written last, on the
    way to performance first, so an interrupted write is judged again from the safe side. Without a target nothing caps
    the node, whatever its profile label is, so it counts as performance and the guard holds for what runs on it; a
    draining label is remembered.
    """
    if published is None:
        eco = node_labels.get(labels.POWER_PROFILE) == Profile.ECO
        if eco and node_labels.get(labels.DRAINING) == "true":
            return NodeState.DRAINING_PERFORMANCE
        return NodeState.ACTIVE_PERFORMANCE
    profile, draining = published
    if profile is Profile.PERFORMANCE:
        return NodeState.ACTIVE_PERFORMANCE
    return NodeState.DRAINING_PERFORMANCE if draining else NodeState.ACTIVE_ECO
