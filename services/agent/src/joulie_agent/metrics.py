"""The agent's per-node series, made at scrape time from the views of the node workers.

A series ends with its node, and a value that was not measured has no sample.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from joulie_agent.enforce.cpu import CpuMode
from joulie_agent.worker import NodeView, NodeWorker
from joulie_core.control.dvfs import DvfsDirection

_Row = tuple[tuple[str, ...], float | None]


class _Families:
    """The families of one scrape."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def gauge(self, name: str, doc: str, labels: tuple[str, ...], rows: Iterable[_Row]) -> None:
        family = self._families.setdefault(name, GaugeMetricFamily(name, doc, labels=labels))
        for values, value in rows:
            if value is not None:
                family.add_sample(name, dict(zip(labels, values, strict=True)), value)

    def counter(self, name: str, doc: str, labels: tuple[str, ...], rows: Iterable[_Row]) -> None:
        family = self._families.setdefault(name, CounterMetricFamily(name, doc, labels=labels))
        for values, value in rows:
            if value is not None:
                family.add_sample(name, dict(zip(labels, values, strict=True)), value)

    def all(self) -> Iterable[Metric]:
        return self._families.values()


_NODE: Final = ("node",)


def families(workers: Mapping[str, NodeWorker]) -> list[Metric]:
    """Return every per-node series of one process."""
    out = _Families()
    for name, worker in workers.items():
        _enforcement(out, name, worker.view)
        _readings(out, name, worker.view)
        _dvfs(out, name, worker.view)
    return list(out.all())


def _enforcement(out: _Families, node: str, view: NodeView) -> None:
    out.gauge(
        "joulie_backend_mode",
        "1 for what holds the node's CPU power, 0 for the others.",
        ("node", "mode"),
        [((node, mode), float(mode is view.cpu_state.mode)) for mode in CpuMode],
    )
    out.gauge(
        "joulie_policy_cap_watts",
        "CPU cap per package that the published target asks for, in watts.",
        ("node", "policy"),
        [((node, view.policy), view.cap_watts)],
    )
    out.counter(
        "joulie_reconcile_errors_total",
        "Passes in which something that should have worked did not.",
        _NODE,
        [((node,), float(view.errors))],
    )


def _readings(out: _Families, node: str, view: NodeView) -> None:
    zones = view.cpu.zones
    out.gauge(
        "joulie_rapl_energy_uj",
        "Energy counter of a RAPL zone, in microjoules; wraps.",
        ("node", "zone"),
        [((node, zone.zone), zone.energy_uj) for zone in zones],
    )
    out.gauge(
        "joulie_rapl_estimated_power_watts",
        "Power of a RAPL zone from its energy counter, in watts.",
        ("node", "zone"),
        [((node, zone.zone), zone.power_watts) for zone in zones],
    )
    out.gauge(
        "joulie_rapl_package_total_power_watts",
        "Power of all CPU packages, in watts.",
        _NODE,
        [((node,), view.cpu.power_watts)],
    )
    out.gauge(
        "joulie_rapl_domain_energy_uj",
        "Energy counter of a RAPL domain beside the packages, such as psys or dram, in microjoules; wraps.",
        ("node", "domain"),
        [((node, domain.zone), domain.energy_uj) for domain in view.cpu.domains],
    )
    out.gauge(
        "joulie_rapl_domain_power_watts",
        "Power of a RAPL domain beside the packages, in watts; not part of the packages' total.",
        ("node", "domain"),
        [((node, domain.zone), domain.power_watts) for domain in view.cpu.domains],
    )
    _constraints(out, node, view)
    out.gauge(
        "joulie_gpu_power_watts",
        "Power of a GPU, in watts; gpu is `all` where the source does not tell them apart.",
        ("node", "gpu"),
        [((node, sample.gpu), sample.power_watts) for sample in view.gpu.gpus],
    )
    out.gauge(
        "joulie_gpu_cap_watts",
        "Power cap of a GPU as read back, in watts.",
        ("node", "gpu"),
        [((node, sample.gpu), sample.cap_watts) for sample in view.gpu.gpus],
    )
    out.counter(
        "joulie_external_writes_overwritten_total",
        "External changes of host limits that were overwritten.",
        ("node", "subsystem"),
        [((node, "cpu"), _count(view.cpu.overwritten)), ((node, "gpu"), _count(view.gpu.overwritten))],
    )


def _constraints(out: _Families, node: str, view: NodeView) -> None:
    out.gauge(
        "joulie_rapl_limit_watts",
        "Power limit of a RAPL package zone as it is set, by whomever, in watts.",
        ("node", "zone", "constraint"),
        [((node, each.zone, each.constraint), each.limit_watts) for each in view.cpu.constraints],
    )
    out.gauge(
        "joulie_rapl_time_window_seconds",
        "Interval over which a power limit of a RAPL package zone bounds the average, in seconds.",
        ("node", "zone", "constraint"),
        [((node, each.zone, each.constraint), each.time_window_s) for each in view.cpu.constraints],
    )


def _count(value: int | None) -> float | None:
    return None if value is None else float(value)


def _dvfs(out: _Families, node: str, view: NodeView) -> None:
    state = view.cpu_state.dvfs
    for name, doc, value in (
        ("joulie_dvfs_observed_power_watts", "Last power sample of the DVFS loop, in watts.", state.observed_watts),
        ("joulie_dvfs_ema_power_watts", "Moving average of the DVFS loop, in watts.", state.ema_watts),
        ("joulie_dvfs_throttle_pct", "Throttle in force, in percent of the frequency policies.", state.throttle_pct),
        ("joulie_dvfs_above_trip_count", "Consecutive samples above the upper threshold.", float(state.above_count)),
        ("joulie_dvfs_below_trip_count", "Consecutive samples below the lower threshold.", float(state.below_count)),
    ):
        out.gauge(name, doc, _NODE, [((node,), value)])
    out.counter(
        "joulie_dvfs_actions_total",
        "Steps that the DVFS loop took.",
        ("node", "action"),
        [((node, action), float(view.actions[action])) for action in DvfsDirection],
    )
    for name, doc, values in (
        ("joulie_dvfs_cpu_cur_freq_khz", "Frequency of a CPU, in kHz.", _current(view)),
        ("joulie_dvfs_cpu_max_freq_khz", "Upper frequency limit in force for a CPU, in kHz.", _maximum(view)),
    ):
        out.gauge(name, doc, ("node", "cpu"), [((node, cpu), value) for cpu, value in values])


def _current(view: NodeView) -> list[tuple[str, float | None]]:
    return [(core.cpu, core.current_khz) for core in view.cpu.frequencies]


def _maximum(view: NodeView) -> list[tuple[str, float | None]]:
    return [(core.cpu, core.max_khz) for core in view.cpu.frequencies]
