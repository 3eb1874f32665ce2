"""The operator's series. Names and labels are the contract; per-node series exist while the node does.

`joulie_operator_state_transitions_total` counts each transition once, when it is made.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric

from joulie_api.apply import WriteResult
from joulie_api.metrics import NodeSeriesCollector, counter, gauge
from joulie_core.labels import POWER_PROFILE
from joulie_core.names import NodeName
from joulie_core.transition import GuardResult, NodeState, Transition
from joulie_operator.cluster import Cluster
from joulie_operator.planner import NodePlanner
from joulie_operator.twins import TwinTracker

#: Seconds; a plan of 5,000 nodes is to stay under one.
PLAN_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class OperatorMetrics:
    """Counts what happens, and collects what is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._transitions: dict[NodeName, Tally[tuple[NodeState, NodeState, GuardResult]]] = {}
        self._passes = Histogram(
            "joulie_operator_reconcile_duration_seconds", "Time of one plan.", buckets=PLAN_BUCKETS, registry=registry
        )
        self._writes = Counter(
            "joulie_operator_writes", "Intended writes by their result.", ("kind", "result"), registry=registry
        )

    def on_transition(self, name: NodeName, transition: Transition) -> None:
        """Count a transition."""
        change = (transition.from_state, transition.to_state, transition.result)
        self._transitions.setdefault(name, Tally())[change] += 1

    def on_pass(self, duration_s: float) -> None:
        """Count a plan."""
        self._passes.observe(duration_s)

    def on_write(self, kind: str, result: WriteResult) -> None:
        """Count an intended write."""
        self._writes.labels(kind, result).inc()

    def collect(self, cluster: Cluster, planner: NodePlanner, twins: TwinTracker) -> Iterable[Metric]:
        """Return the per-node series of the nodes that are published now."""
        names = planner.managed()
        for gone in self._transitions.keys() - set(names):
            del self._transitions[gone]
        yield _states(planner, names)
        yield _profile_labels(cluster, names)
        yield _densities(cluster, names)
        yield from _power(twins, names)
        yield self._transition_counts()

    def _transition_counts(self) -> Metric:
        return counter(
            "joulie_operator_state_transitions_total",
            "State transitions made.",
            ("node", "from_state", "to_state", "result"),
            (((name, *change), count) for name, tally in self._transitions.items() for change, count in tally.items()),
        )


def register_node_series(
    registry: CollectorRegistry,
    metrics: OperatorMetrics,
    cluster: Cluster,
    planner: NodePlanner,
    twins: TwinTracker,
    *,
    is_leading: Callable[[], bool],
) -> None:
    """Export per-node series, by the leader only: two replicas must not count a node twice."""
    registry.register(NodeSeriesCollector(lambda: metrics.collect(cluster, planner, twins) if is_leading() else ()))


def _states(planner: NodePlanner, names: Iterable[NodeName]) -> Metric:
    states = ((name, planner.state(name)) for name in names)
    return gauge(
        "joulie_operator_node_state",
        "1 for the state that the node is in.",
        ("node", "state"),
        (((name, state), 1) for name, state in states if state is not None),
    )


def _profile_labels(cluster: Cluster, names: Iterable[NodeName]) -> Metric:
    nodes = (cluster.nodes[name] for name in names if name in cluster.nodes)
    return gauge(
        "joulie_operator_node_profile_label",
        "1 for the profile label seen on the node.",
        ("node", "profile"),
        (((node.name, node.labels[POWER_PROFILE]), 1) for node in nodes if POWER_PROFILE in node.labels),
    )


def _densities(cluster: Cluster, names: Iterable[NodeName]) -> Metric:
    known = ((name, cluster.hardware(name)) for name in names)
    return gauge(
        "joulie_operator_node_compute_density",
        "Normalised compute density.",
        ("node", "component"),
        (
            ((name, component), density)
            for name, hardware in known
            if hardware is not None
            for component, density in (("cpu", hardware.density.cpu), ("gpu", hardware.density.gpu))
        ),
    )


def _power(twins: TwinTracker, names: Iterable[NodeName]) -> Iterable[Metric]:
    latest = ((name, twins.latest(name)) for name in names)
    known = [(name, status.power_measurement) for name, status in latest if status and status.power_measurement]
    yield gauge(
        "joulie_operator_node_power_watts",
        "Power of the node as in its twin, in watts; no sample where it is unknown.",
        ("node", "source", "quality"),
        (((name, power.source, power.quality), power.measured_node_power_w) for name, power in known),
    )
    yield gauge(
        "joulie_operator_node_capped_power_watts",
        "Power that the node's caps allow, CPUs and GPUs together, in watts; no sample where it is unknown.",
        ("node",),
        (((name,), power.node_capped_power_w or None) for name, power in known),
    )
