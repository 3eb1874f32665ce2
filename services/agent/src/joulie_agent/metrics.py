"""The agent's per-node series, made at scrape time from the views of the node workers.

A series ends with its node, and a value that was not measured has no sample.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric

from joulie_agent.budgets.metrics import budget_families
from joulie_agent.class_limits.metrics import limit_families
from joulie_agent.enforce.cpu import CpuMode
from joulie_agent.node_view import NodeView
from joulie_agent.worker import NodeWorker
from joulie_api.metrics import counter, gauge
from joulie_core.control.dvfs import DvfsDirection

_NODE: Final = ("node",)
_Views = Mapping[str, NodeView]


def families(workers: Mapping[str, NodeWorker]) -> Iterator[Metric]:
    """Yield every per-node series of one process."""
    views = {name: worker.view for name, worker in workers.items()}
    yield from _enforcement(views)
    yield from _rapl(views)
    yield from _gpus(views)
    yield from _dvfs(views)
    yield from _frequencies(views)
    yield from _classes(views)
    yield from budget_families({node: view.budget for node, view in views.items() if view.budget is not None})
    yield from limit_families({node: view.shadow for node, view in views.items() if view.shadow is not None})


def _enforcement(views: _Views) -> Iterator[Metric]:
    yield gauge(
        "joulie_backend_mode",
        "1 for what holds the node's CPU power, 0 for the others.",
        ("node", "mode"),
        (((node, mode), float(mode is view.cpu_state.mode)) for node, view in views.items() for mode in CpuMode),
    )
    yield gauge(
        "joulie_policy_cap_watts",
        "CPU cap per package of the published target, in watts.",
        ("node", "policy"),
        (((node, view.policy), view.cap_watts) for node, view in views.items()),
    )
    yield gauge(
        "joulie_control_result",
        "1 for what came of a subsystem's target, as in the status of the TelemetryProfile.",
        ("node", "subsystem", "result", "reason"),
        (
            ((node, subsystem, report.result, report.reason or ""), 1)
            for node, view in views.items()
            for subsystem, report in view.reports.items()
        ),
    )
    yield counter(
        "joulie_reconcile_errors_total",
        "Passes in which something that should have worked did not.",
        _NODE,
        (((node,), view.errors) for node, view in views.items()),
    )
    yield counter(
        "joulie_external_writes_overwritten_total",
        "External changes of host limits that were overwritten.",
        ("node", "subsystem"),
        (
            ((node, subsystem), reading.overwritten)
            for node, view in views.items()
            for subsystem, reading in (("cpu", view.cpu), ("gpu", view.gpu))
        ),
    )


def _rapl(views: _Views) -> Iterator[Metric]:
    zones = [(node, zone) for node, view in views.items() for zone in view.cpu.zones]
    yield gauge(
        "joulie_rapl_energy_uj",
        "Energy counter of a RAPL zone, in microjoules; wraps.",
        ("node", "zone"),
        (((node, zone.zone), zone.energy_uj) for node, zone in zones),
    )
    yield gauge(
        "joulie_rapl_estimated_power_watts",
        "Power of a RAPL zone from its energy counter, in watts.",
        ("node", "zone"),
        (((node, zone.zone), zone.power_watts) for node, zone in zones),
    )
    yield gauge(
        "joulie_rapl_package_total_power_watts",
        "Power of all CPU packages, in watts.",
        _NODE,
        (((node,), view.cpu.power_watts) for node, view in views.items()),
    )
    domains = [(node, domain) for node, view in views.items() for domain in view.cpu.domains]
    yield gauge(
        "joulie_rapl_domain_energy_uj",
        "Energy counter of a RAPL domain beside the packages, such as psys or dram, in microjoules; wraps.",
        ("node", "domain"),
        (((node, domain.zone), domain.energy_uj) for node, domain in domains),
    )
    yield gauge(
        "joulie_rapl_domain_power_watts",
        "Power of a RAPL domain beside the packages, in watts; not part of the packages' total.",
        ("node", "domain"),
        (((node, domain.zone), domain.power_watts) for node, domain in domains),
    )
    constraints = [(node, each) for node, view in views.items() for each in view.cpu.constraints]
    yield gauge(
        "joulie_rapl_limit_watts",
        "Power limit of a RAPL package zone as it is set, by whomever, in watts.",
        ("node", "zone", "constraint"),
        (((node, each.zone, each.constraint), each.limit_watts) for node, each in constraints),
    )
    yield gauge(
        "joulie_rapl_time_window_seconds",
        "Interval over which a power limit of a RAPL package zone bounds the average, in seconds.",
        ("node", "zone", "constraint"),
        (((node, each.zone, each.constraint), each.time_window_s) for node, each in constraints),
    )


def _gpus(views: _Views) -> Iterator[Metric]:
    samples = [(node, sample) for node, view in views.items() for sample in view.gpu.gpus]
    yield gauge(
        "joulie_gpu_power_watts",
        "Power of a GPU, in watts; gpu is `all` where the source does not distinguish them.",
        ("node", "gpu"),
        (((node, sample.gpu), sample.power_watts) for node, sample in samples),
    )
    yield gauge(
        "joulie_gpu_cap_watts",
        "Power cap of a GPU as read back, in watts.",
        ("node", "gpu"),
        (((node, sample.gpu), sample.cap_watts) for node, sample in samples),
    )


def _dvfs(views: _Views) -> Iterator[Metric]:
    states = [((node,), view.cpu_state.dvfs) for node, view in views.items()]
    yield gauge(
        "joulie_dvfs_observed_power_watts",
        "Last power sample of the DVFS loop, in watts.",
        _NODE,
        ((node, state.observed_watts) for node, state in states),
    )
    yield gauge(
        "joulie_dvfs_ema_power_watts",
        "Moving average of the DVFS loop, in watts.",
        _NODE,
        ((node, state.ema_watts) for node, state in states),
    )
    yield gauge(
        "joulie_dvfs_throttle_pct",
        "Throttle in force, in percent of the frequency policies.",
        _NODE,
        ((node, state.throttle_pct) for node, state in states),
    )
    yield gauge(
        "joulie_dvfs_above_trip_count",
        "Consecutive samples above the upper threshold.",
        _NODE,
        ((node, state.above_count) for node, state in states),
    )
    yield gauge(
        "joulie_dvfs_below_trip_count",
        "Consecutive samples below the lower threshold.",
        _NODE,
        ((node, state.below_count) for node, state in states),
    )
    yield counter(
        "joulie_dvfs_actions_total",
        "Steps that the DVFS loop took.",
        ("node", "action"),
        (((node, action), view.actions[action]) for node, view in views.items() for action in DvfsDirection),
    )


def _classes(views: _Views) -> Iterator[Metric]:
    yield gauge(
        "joulie_dvfs_throttled_cpus",
        "CPUs of a CPU class that are throttled.",
        ("node", "class"),
        (((node, name), cpus) for node, view in views.items() for name, cpus in view.cpu.throttled_by_class.items()),
    )


def _frequencies(views: _Views) -> Iterator[Metric]:
    cores = [((node, core.cpu), core) for node, view in views.items() for core in view.cpu.frequencies]
    yield gauge(
        "joulie_dvfs_cpu_cur_freq_khz",
        "Frequency of a CPU, in kHz.",
        ("node", "cpu"),
        ((labels, core.current_khz) for labels, core in cores),
    )
    yield gauge(
        "joulie_dvfs_cpu_max_freq_khz",
        "Upper frequency limit in force for a CPU, in kHz.",
        ("node", "cpu"),
        ((labels, core.max_khz) for labels, core in cores),
    )
