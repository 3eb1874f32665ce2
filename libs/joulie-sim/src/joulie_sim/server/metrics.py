"""`joulie_sim_*` metrics, collected at scrape time: a node's series vanish with the node."""

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from joulie_sim.physics.node import SimulatedNode
from joulie_sim.server.control import control_state
from joulie_sim.server.http import HttpBackend
from joulie_sim.server.simulator import Simulator

_CPU: Final = "cpu"
_GPU: Final = "gpu"


def simulator_families(simulator: Simulator, backend: HttpBackend) -> Iterable[Metric]:
    """Return all metric families with current values."""
    nodes = list(simulator.read_all())
    yield _per_part("joulie_sim_power_watts", "Power of all packages or GPUs of a node", nodes, _watts)
    yield _per_part("joulie_sim_cap_watts", "Cap of one package or GPU", nodes, _caps)
    yield _per_part("joulie_sim_relative_performance", "Work per second over that without limits", nodes, _speeds)
    energy = CounterMetricFamily("joulie_sim_energy_joules", "Energy drawn", labels=("node", "part"))
    jobs = GaugeMetricFamily("joulie_sim_running_jobs", "Running pods with work", labels=("node",))
    throttle = GaugeMetricFamily("joulie_sim_throttle_pct", "Share of cores throttled", labels=("node",))
    for node in nodes:
        energy.add_metric((node.name, _CPU), node.energy.cpu_joules)
        energy.add_metric((node.name, _GPU), node.energy.gpu_joules)
        jobs.add_metric((node.name,), sum(1 for _ in node.jobs))
        throttle.add_metric((node.name,), node.controls.throttle_pct)
    yield from (energy, jobs, throttle)
    yield from _totals(simulator, backend)


def _totals(simulator: Simulator, backend: HttpBackend) -> Iterable[Metric]:
    energy = CounterMetricFamily(
        "joulie_sim_class_energy_joules", "Energy by the schedulable class of the node", labels=("class",)
    )
    for node_class, joules in simulator.energy.joules.items():
        energy.add_metric((node_class.value,), joules)
    completed = CounterMetricFamily("joulie_sim_completed_jobs", "Completed pods", labels=("workload_class",))
    slowdown = CounterMetricFamily(
        "joulie_sim_slowdown_sum",
        "Sum of time taken over time at full speed, of completed pods",
        labels=("workload_class",),
    )
    for workload, ledger in simulator.work.items():
        completed.add_metric((workload.value,), ledger.jobs)
        slowdown.add_metric((workload.value,), ledger.slowdown_sum)
    controls = CounterMetricFamily(
        "joulie_sim_control_requests", "Control requests answered", labels=("action", "result")
    )
    for (action, result), count in backend.control_results.items():
        controls.add_metric((action, result), count)
    yield from (energy, completed, slowdown, controls)


def _per_part(
    name: str, text: str, nodes: Iterable[SimulatedNode], read: Callable[[SimulatedNode], dict[str, float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("node", "part"))
    for node in nodes:
        for part, value in read(node).items():
            family.add_metric((node.name, part), value)
    return family


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
