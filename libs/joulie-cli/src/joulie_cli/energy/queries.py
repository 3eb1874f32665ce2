"""PromQL of the energy of a time: one expression for all figures, so that they are of one moment.

Each series of its answer has the label `FIGURE` with the figure that it belongs to.
Source: docs/energy-by-pod.md; Kepler, metrics documentation (docs/user/metrics.md).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

#: Label that no metric has.
FIGURE: Final = "joulie_figure"
#: Where a scrape that does not keep the labels of its targets puts the namespace of a workload.
EXPORTED_NAMESPACE: Final = "exported_namespace"
AGENT_METRIC: Final = "joulie_workload_energy_joules_total"
KEPLER_METRIC: Final = "kepler_pod_cpu_joules_total"
EARLIER_KEPLER_METRIC: Final = "kepler_container_package_joules_total"
#: Instants of the time at which a node has series or not.
INSTANTS: Final = 100


class EnergyFigure(StrEnum):
    """Figures of one answer."""

    #: Joules of workloads or pods, with the bounds that the agents state.
    ENERGY = "energy"
    LOWER = "lower"
    UPPER = "upper"
    #: Joules of all nodes, by their part.
    PARTS = "parts"
    #: Seconds of which no counter told the energy.
    UNKNOWN = "unknown"
    #: Number of instants at which a node had series.
    SEEN = "seen"
    #: Number of series whose namespace is not that of the workload.
    REPLACED = "replaced"
    #: Joules of pods by Kepler before 0.10, and the nodes that it ran on.
    EARLIER = "earlier"
    EARLIER_SEEN = "earlier_seen"


def agents_query(span_s: int, *, by_workload: bool, namespace: str | None) -> str:
    """Return the expression over the agents' series of the last `span_s` seconds.

    Args:
        span_s: from 1 second on.
        by_workload: sums by workload; else by namespace.
        namespace: name of the only namespace, a valid one; None for all.
    """
    by = ("namespace", *(("workload",) if by_workload else ()), "device", "kind")
    only = _only("namespace", namespace)
    metrics = {
        EnergyFigure.ENERGY: AGENT_METRIC,
        EnergyFigure.LOWER: "joulie_workload_energy_lower_joules_total",
        EnergyFigure.UPPER: "joulie_workload_energy_upper_joules_total",
    }
    node = "joulie_node_energy_unknown_seconds_total"
    return _together(
        {figure: _increase(metric, [only], by, span_s) for figure, metric in metrics.items()}
        | {
            EnergyFigure.PARTS: _increase("joulie_node_energy_joules_total", [], ("part",), span_s),
            EnergyFigure.UNKNOWN: _increase(node, [], (), span_s),
            EnergyFigure.SEEN: _seen(node, "node", span_s),
            EnergyFigure.REPLACED: f'count(count_over_time({AGENT_METRIC}{{{EXPORTED_NAMESPACE}!=""}}[{span_s}s]))',
        }
    )


def kepler_query(span_s: int, *, by_pod: bool, namespace: str | None) -> str:
    """Return the expression over Kepler's series of CPU packages, those of both its generations.

    Zones overlap, so that only packages are added up. Idle energy, which Kepler before 0.10 gives to containers in
    series of their own, is left out, as later ones and the agents do. Arguments as those of `agents_query`.
    """
    pod = ("pod_name",) if by_pod else ()
    later = ['zone=~"package.*"', _only("pod_namespace", namespace)]
    earlier = ['mode!="idle"', _only("container_namespace", namespace)]
    return _together(
        {
            EnergyFigure.ENERGY: _increase(KEPLER_METRIC, later, ("pod_namespace", *pod), span_s),
            EnergyFigure.SEEN: _seen("kepler_node_cpu_joules_total", "node_name", span_s),
            EnergyFigure.EARLIER: _increase(EARLIER_KEPLER_METRIC, earlier, ("container_namespace", *pod), span_s),
            EnergyFigure.EARLIER_SEEN: _seen("kepler_node_package_joules_total", "instance", span_s),
        }
    )


def instant_interval_s(span_s: int) -> int:
    """Return the seconds between two of the instants at which a node has series or not."""
    return max(1, span_s // INSTANTS)


def _only(label: str, value: str | None) -> str:
    return "" if value is None else f'{label}="{value}"'


def _increase(metric: str, matchers: list[str], by: tuple[str, ...], span_s: int) -> str:
    chosen = ",".join(each for each in matchers if each)
    return f"sum by ({', '.join(by)}) (increase({metric}{{{chosen}}}[{span_s}s]))"


def _seen(metric: str, label: str, span_s: int) -> str:
    return f"count_over_time((group by ({label}) ({metric}))[{span_s}s:{instant_interval_s(span_s)}s])"


def _together(figures: Mapping[EnergyFigure, str]) -> str:
    return " or ".join(f'label_replace({each}, "{FIGURE}", "{figure}", "", "")' for figure, each in figures.items())
