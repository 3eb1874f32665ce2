"""The series about sleeping nodes, exported by the leader."""

from collections import Counter as Counted
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics_core import Metric

from joulie_api.metrics import gauge
from joulie_core.kinds import NodeSleepPolicyStatus
from joulie_core.names import NodeName
from joulie_core.sleep import SleepReason, SleepState
from joulie_core.sleep.model import SleepRecord
from joulie_operator.sleep.left_off import OffReason

#: Seconds; servers take minutes.
WAKE_BUCKETS = (5, 15, 30, 60, 120, 180, 300, 480, 600, 900, 1200, 1800)
#: Transitions that alerts are about.
_FAILURES = (
    (SleepState.CORDONED, SleepState.AWAKE, SleepReason.DRAIN_TIMEOUT),
    (SleepState.DRAINING, SleepState.AWAKE, SleepReason.DRAIN_TIMEOUT),
    (SleepState.WAKING, SleepState.POWERING_OFF, SleepReason.BOOT_TIMEOUT),
    (SleepState.WAKING, SleepState.QUARANTINED, SleepReason.BOOT_TIMEOUT),
)


class SleepMetrics:
    """Counts what happens, and collects what is."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._transitions = Counter(
            "joulie_operator_sleep_transitions",
            "Transitions of nodes between the states of sleep.",
            ("from_state", "to_state", "reason"),
            registry=registry,
        )
        for before, after, reason in _FAILURES:
            # From 0 on: Prometheus sees no increase in a series that begins with its first failure.
            self._transitions.labels(before.value, after.value, reason.value)
        self._wakes = Histogram(
            "joulie_operator_sleep_wake_duration_seconds",
            "Time from the decision to wake a node until it takes pods.",
            buckets=WAKE_BUCKETS,
            registry=registry,
        )
        self._evictions = Counter(
            "joulie_operator_sleep_evictions", "Evictions by their result.", ("result",), registry=registry
        )

    def on_transition(self, before: SleepRecord, after: SleepRecord) -> None:
        """Count a transition, and the time of a wake that is complete."""
        self._transitions.labels(before.state.value, after.state.value, after.reason.value).inc()
        if before.state is SleepState.WAKING and after.reason is SleepReason.READY:
            self._wakes.observe(after.since_s - before.since_s)

    def on_eviction(self, result: str) -> None:
        """Count an eviction."""
        self._evictions.labels(result).inc()


def families(statuses: Mapping[str, NodeSleepPolicyStatus], off: Mapping[NodeName, OffReason]) -> Iterable[Metric]:
    """Return the series of the policies by their statuses, and of the servers that Joulie switched off last."""
    reasons = Counted(off.values())
    yield gauge(
        "joulie_operator_sleep_servers_off",
        "Servers that Joulie switched off last and whose BMC does not read On, by why they are not on.",
        ("reason",),
        (((reason.value,), reasons[reason]) for reason in OffReason),
    )
    counts = {name: status.nodes for name, status in statuses.items() if status.nodes is not None}
    yield gauge(
        "joulie_operator_sleep_nodes",
        "Nodes of a NodeSleepPolicy by their state.",
        ("policy", "state"),
        (((name, state.value), getattr(each, state.field)) for name, each in counts.items() for state in SleepState),
    )
    yield gauge(
        "joulie_operator_sleep_saved_watts",
        "Estimate of the power that sleeping nodes save, in watts; no sample in other modes than Act.",
        ("policy",),
        (((name,), status.saved_watts) for name, status in statuses.items()),
    )
    yield gauge(
        "joulie_operator_sleep_recommended_watts",
        "Estimate of the power that would be saved in mode Act, in watts; no sample in other modes than Recommend.",
        ("policy",),
        (((name,), each.watts) for name, status in statuses.items() if (each := status.recommendation) is not None),
    )
    yield gauge(
        "joulie_operator_sleep_consolidation_watts",
        "Estimate of the power of nodes that consolidation would empty, in watts; only in its mode Recommend.",
        ("policy",),
        (((name,), found.watts) for name, status in statuses.items() if (found := status.consolidation) is not None),
    )
