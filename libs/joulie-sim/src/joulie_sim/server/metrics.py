"""`joulie_sim_*` metrics, collected at scrape time: a node's series vanish with the node."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import Metric

from joulie_api.metrics import counter, gauge
from joulie_sim.physics.node import SimulatedNode
from joulie_sim.server.control import control_state
from joulie_sim.server.http import HttpBackend
from joulie_sim.server.simulator import Simulator

_CPU: Final = "cpu"
_GPU: Final = "gpu"


def simulator_families(simulator: Simulator, backend: HttpBackend) -> Iterator[Metric]:
    """Yield all metric families with current values."""
    nodes = list(simulator.read_all())
    yield _per_part("joulie_sim_power_watts", "Power of all packages or GPUs of a node", nodes, _watts)
    yield _per_part("joulie_sim_cap_watts", "Cap of one package or GPU", nodes, _caps)
    yield _per_part("joulie_sim_relative_performance", "Work per second over that without limits", nodes, _speeds)
    yield counter(
        "joulie_sim_energy_joules_total",
        "Energy drawn",
        ("node", "part"),
        (
            ((node.name, part), joules)
            for node in nodes
            for part, joules in ((_CPU, node.energy.cpu_joules), (_GPU, node.energy.gpu_joules))
        ),
    )
    yield gauge(
        "joulie_sim_running_jobs",
        "Running pods with work",
        ("node",),
        (((node.name,), sum(1 for _ in node.jobs)) for node in nodes),
    )
    yield gauge(
        "joulie_sim_throttle_pct",
        "Share of cores throttled",
        ("node",),
        (((node.name,), node.controls.throttle_pct) for node in nodes),
    )
    yield from _totals(simulator, backend)


def _totals(simulator: Simulator, backend: HttpBackend) -> Iterator[Metric]:
    yield counter(
        "joulie_sim_class_energy_joules_total",
        "Energy by the schedulable class of the node",
        ("class",),
        (((node_class,), joules) for node_class, joules in simulator.energy.joules.items()),
    )
    work = simulator.work
    yield counter(
        "joulie_sim_completed_jobs_total",
        "Completed pods",
        ("workload_class",),
        (((workload,), ledger.jobs) for workload, ledger in work.items()),
    )
    yield counter(
        "joulie_sim_slowdown_sum_total",
        "Sum of time taken over work, of completed pods",
        ("workload_class",),
        (((workload,), ledger.slowdown_sum) for workload, ledger in work.items()),
    )
    yield counter(
        "joulie_sim_control_requests_total",
        "Control requests answered",
        ("action", "result"),
        backend.control_results.items(),
    )


def _per_part(
    name: str, text: str, nodes: Iterable[SimulatedNode], read: Callable[[SimulatedNode], dict[str, float]]
) -> Metric:
    rows = (((node.name, part), value) for node in nodes for part, value in read(node).items())
    return gauge(name, text, ("node", "part"), rows)


def _watts(node: SimulatedNode) -> dict[str, float]:
    values = {_CPU: node.point.cpu_watts, _GPU: node.point.total_gpu_watts}
    return {part: values[part] for part in _parts(node)}


def _speeds(node: SimulatedNode) -> dict[str, float]:
    values = {_CPU: node.point.cpu_speed, _GPU: node.point.gpu_speed}
    return {part: values[part] for part in _parts(node)}


def _caps(node: SimulatedNode) -> dict[str, float]:
    state = control_state(node.hardware, node.controls)
    values = {_CPU: state.get("capWatts"), _GPU: state.get("capWattsPerGpu")}
    return {part: watts for part, watts in values.items() if watts is not None}


def _parts(node: SimulatedNode) -> tuple[str, ...]:
    return tuple(part for part, there in ((_CPU, node.hardware.cpu), (_GPU, node.hardware.gpu)) if there is not None)
