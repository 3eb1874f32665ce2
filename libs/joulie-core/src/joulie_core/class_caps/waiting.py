"""Nodes on which limits by class are lifted, since performance pods wait for their GPUs, or soon would.

Limited pods hold GPUs for longer, and performance pods would wait for that. Guarantees that limits are lifted on every
node that a performance pod without a node could take if it were empty; that they come back only after none has waited
for the node for a while, so that pods that come one by one do not switch them; and that what is not known of a pod
makes it wait for more nodes and not for fewer. One decision for the operator and the simulator.
Source: docs/decisions/0062-limits-lifted-while-performance-pods-wait.md.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from joulie_core.pod import Term

_PERCENT: Final = 100.0
#: GPUs as sums of shares of them are rounded.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class LiftRule:
    """Times and shares of the decision."""

    #: A pod waits once it has been without a node for so long; kube-scheduler places most pods within it.
    grace_s: float = 5.0
    #: Time from the last waiting pod until limits come back.
    hold_s: float = 300.0
    #: Limits of a model are lifted as well while less than this share of its GPUs is free, since the next performance
    #: pod may have to wait then; 0: only for pods that wait.
    spare_pct: float = 25.0


DEFAULT_RULE: Final = LiftRule()


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """GPUs and constraints of a pod, which decide which nodes it could take; equal for pods that are alike."""

    #: By extended resource; None where it is not known which GPUs the pod requests: any may do.
    gpus: tuple[tuple[str, float], ...] | None
    node_selector: tuple[tuple[str, str], ...] = ()
    #: Of the required node affinity, ORed; None without one.
    required_terms: tuple[Term, ...] | None = None


#: Of a pod of which nothing could be read.
UNKNOWN_REQUEST: Final = GpuRequest(None)


@dataclass(frozen=True, slots=True)
class GpuNode:
    """A node with GPUs."""

    name: str
    model: str
    #: GPUs that pods can request, by extended resource.
    gpus: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    #: GPUs that pods may get, and those of them that no pod has requested; both 0 for a node that takes no pods.
    total: float = 0.0
    free: float = 0.0


@dataclass(frozen=True, slots=True)
class LiftedNodes:
    """Nodes without limits, and when a performance pod waited for each last, or its model had too few free GPUs."""

    waited_s: Mapping[str, float] = field(default_factory=dict)

    def __contains__(self, node: object) -> bool:
        """Return whether limits of a node are lifted."""
        return node in self.waited_s

    def step(self, waited_for: Collection[str], now_s: float, rule: LiftRule = DEFAULT_RULE) -> "LiftedNodes":
        """Return the state at a time.

        Args:
            waited_for: the nodes that limits are to be lifted on now, see `nodes_to_lift`.
            now_s: seconds of a clock that does not go back.
            rule: the times.
        """
        recent = {node: last_s for node, last_s in self.waited_s.items() if now_s < last_s + rule.hold_s}
        return LiftedNodes({**recent, **dict.fromkeys(waited_for, now_s)})

    def due_s(self, rule: LiftRule = DEFAULT_RULE) -> float:
        """Return when limits of a node come back first, if none is waited for any more; infinity if none is lifted."""
        return min(self.waited_s.values(), default=inf) + rule.hold_s


def nodes_to_lift(
    waiting: Iterable[GpuRequest], nodes: Collection[GpuNode], rule: LiftRule = DEFAULT_RULE
) -> frozenset[str]:
    """Return the nodes on which limits are to be lifted now.

    Args:
        waiting: distinct requests of performance pods that have waited for longer than the grace.
        nodes: all nodes with GPUs.
        rule: the share of free GPUs.
    """
    requests = tuple(waiting)
    waited = {node.name for node in nodes if any(could_take(node, request) for request in requests)}
    short = _short_models(nodes, rule.spare_pct) if rule.spare_pct > 0.0 else frozenset[str]()
    return frozenset(waited | {node.name for node in nodes if node.model in short})


def could_take(node: GpuNode, request: GpuRequest) -> bool:
    """Return whether a node could take a pod if it were empty, by its GPUs and labels alone."""
    if request.gpus is not None and any(node.gpus.get(name, 0.0) < count for name, count in request.gpus):
        return False
    if any(node.labels.get(key) != value for key, value in request.node_selector):
        return False
    return request.required_terms is None or any(term.holds(node.name, node.labels) for term in request.required_terms)


def _short_models(nodes: Iterable[GpuNode], spare_pct: float) -> frozenset[str]:
    totals: dict[str, float] = {}
    free: dict[str, float] = {}
    for node in nodes:
        totals[node.model] = totals.get(node.model, 0.0) + node.total
        free[node.model] = free.get(node.model, 0.0) + node.free
    return frozenset(model for model, total in totals.items() if free[model] + _ROUNDING < total * spare_pct / _PERCENT)
