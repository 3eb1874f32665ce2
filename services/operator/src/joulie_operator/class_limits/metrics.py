"""The series about limits by class that are lifted, exported by the leader."""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import gauge


def lifting_families(*, waiting: int, lifted_nodes: int) -> Iterable[Metric]:
    """Yield the series."""
    yield gauge(
        "joulie_operator_class_limit_waiting_pods",
        "Performance pods that wait for GPUs, and pods of which no version could be read.",
        (),
        [((), waiting)],
    )
    yield gauge(
        "joulie_operator_class_limit_lifted_nodes",
        "Nodes whose limits by class are lifted, since performance pods wait for their GPUs or did so lately.",
        (),
        [((), lifted_nodes)],
    )
