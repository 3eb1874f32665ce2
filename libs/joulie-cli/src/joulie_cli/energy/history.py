"""Energy of a time by the answers of Prometheus to `joulie_cli.energy.queries`.

Labels of series are text of anybody who is scraped. A value that is no energy, such as NaN, is in no sum and is named;
a figure without a series is unknown and not 0.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_api.prometheus import PrometheusSample
from joulie_cli.energy.queries import EXPORTED_NAMESPACE, FIGURE, EnergyFigure, instant_interval_s
from joulie_cli.energy.rows import EnergyRow, largest_first
from joulie_cli.output import CliError
from joulie_core.attribution.energy import EnergyKind
from joulie_core.attribution.totals import EnergyPart, MeteredDevice
from joulie_core.text import first_of, printable

#: Name of the rule by which Kepler splits energy.
KEPLER_RULE: Final = "kepler"
#: Below this share of the instants a node had series for a part of the time only: those at both ends may be missing.
_WHOLE_TIME: Final = 0.98
#: The year 10000, which no timestamp reaches, in seconds since the epoch.
_LAST_S: Final = 253_402_300_800.0
_FIGURES: Final = frozenset(EnergyFigure)
_MOST_NAMED: Final = 3
_LONGEST_NAME: Final = 80


@dataclass(frozen=True, slots=True)
class EnergyHistory:
    """Energy of a time."""

    rows: Sequence[EnergyRow]
    #: End of the time in seconds since the epoch; None without any series.
    until_s: float | None
    #: Share of the time in which a node had series, from 0 to 1, by node.
    seen: Mapping[str, float]
    #: Joules of all nodes by part; a part that is unknown is not in it.
    parts: Mapping[EnergyPart, float] = field(default_factory=dict)
    #: Seconds of which no counter told the energy, added up over devices; None: not known.
    unknown_s: float | None = None
    #: Series whose value is no energy, with the value.
    unusable: Sequence[str] = ()
    #: Kepler before 0.10 has series of the time too, which are in no row.
    earlier_left_out: bool = False

    @property
    def partly_seen(self) -> list[str]:
        """Nodes that had series for a part of the time only, the least seen first."""
        found = [name for name, share in self.seen.items() if share < _WHOLE_TIME]
        return sorted(found, key=lambda name: (self.seen[name], name))


class _Answer:
    """Samples by figure; notes those whose value is no number of joules or seconds."""

    def __init__(self, samples: Iterable[PrometheusSample], where: str) -> None:
        self._by_figure: dict[EnergyFigure, list[PrometheusSample]] = {}
        self.unusable: list[str] = []
        self.until_s: float | None = None
        for sample in samples:
            if sample.labels.get(FIGURE) not in _FIGURES:
                raise CliError(f"Prometheus {where} answers series that were not asked for", "is it a Prometheus?")
            if 0.0 <= sample.at_s < _LAST_S:
                self.until_s = sample.at_s
            self._by_figure.setdefault(EnergyFigure(sample.labels[FIGURE]), []).append(sample)

    def has(self, figure: EnergyFigure) -> bool:
        """Return whether there are series, whatever their values."""
        return figure in self._by_figure

    def values(self, figure: EnergyFigure, *labels: str) -> dict[tuple[str, ...], float]:
        """Return the values of a figure by the values of these labels."""
        return dict(self._usable(figure, labels))

    def _usable(self, figure: EnergyFigure, labels: Sequence[str]) -> Iterator[tuple[tuple[str, ...], float]]:
        for sample in self._by_figure.get(figure, ()):
            if math.isfinite(sample.value) and sample.value >= 0.0:
                yield tuple(sample.labels.get(label, "") for label in labels), sample.value
            else:
                names = [text for label in labels if (text := sample.labels.get(label))]
                self.unusable.append(
                    printable(f"{figure} of {' '.join(names) or 'all'}", _LONGEST_NAME) + f": {sample.value:g}"
                )

    def seen(self, figure: EnergyFigure, label: str, span_s: int) -> dict[str, float]:
        """Return the share of instants by node."""
        instants = span_s // instant_interval_s(span_s)
        return {name: min(1.0, count / instants) for (name,), count in self.values(figure, label).items()}


def agents_history(samples: Iterable[PrometheusSample], span_s: int, where: str) -> EnergyHistory:
    """Return what the agents' series tell.

    Args:
        samples: answer to `agents_query`.
        span_s: seconds of the query.
        where: names Prometheus.

    Raises:
        CliError: namespaces of workloads are not known, or series are others.
    """
    answer = _Answer(samples, where)
    if answer.has(EnergyFigure.REPLACED):
        raise CliError(
            f"Prometheus {where} has put the namespaces of its targets in the place of those of the workloads: the "
            f"agents' series have the label {EXPORTED_NAMESPACE}",
            "scrape the agents with honor_labels: true (honorLabels in a PodMonitor), as the chart's monitors do; "
            "what was scraped without it cannot be told by namespace",
        )
    labels = ("namespace", "workload", "device", "kind")
    lower, upper = answer.values(EnergyFigure.LOWER, *labels), answer.values(EnergyFigure.UPPER, *labels)
    rows = [
        EnergyRow(namespace, workload, device, kind, joules, *_around(joules, lower.get(key), upper.get(key)))
        for key, joules in answer.values(EnergyFigure.ENERGY, *labels).items()
        for namespace, workload, device, kind in (key,)
    ]
    told = answer.values(EnergyFigure.PARTS, "part")
    parts = {part: told[(part.value,)] for part in EnergyPart if (part.value,) in told}
    unknown_s = answer.values(EnergyFigure.UNKNOWN).get(())
    seen = answer.seen(EnergyFigure.SEEN, "node", span_s)
    return EnergyHistory(largest_first(rows), answer.until_s, seen, parts, unknown_s, answer.unusable)


def kepler_history(samples: Iterable[PrometheusSample], span_s: int, where: str) -> EnergyHistory:
    """Return what Kepler's series tell, of the later generation where it has any. Arguments as `agents_history`.

    Raises:
        CliError: series are others.
    """
    answer = _Answer(samples, where)
    later = answer.has(EnergyFigure.ENERGY)
    figure, namespace = (
        (EnergyFigure.ENERGY, "pod_namespace") if later else (EnergyFigure.EARLIER, "container_namespace")
    )
    cpu, allocated = MeteredDevice.CPU.value, EnergyKind.ALLOCATED.value
    rows = [
        EnergyRow(name, pod, cpu, allocated, joules, None, None, KEPLER_RULE)
        for (name, pod), joules in answer.values(figure, namespace, "pod_name").items()
    ]
    seen = answer.seen(
        *((EnergyFigure.SEEN, "node_name") if later else (EnergyFigure.EARLIER_SEEN, "instance")), span_s
    )
    return EnergyHistory(
        largest_first(rows),
        answer.until_s,
        seen,
        unusable=answer.unusable,
        earlier_left_out=later and answer.has(EnergyFigure.EARLIER),
    )


def unusable_error(history: EnergyHistory, where: str) -> CliError | None:
    """Return the error for values that are no energy; None without any. What is usable was shown before."""
    if not history.unusable:
        return None
    named = first_of(list(history.unusable), _MOST_NAMED)
    return CliError(
        f"Prometheus {where} has values that are no energy, and that are in no sum: {named}",
        "look at these series there: a recording rule or another exporter may write them",
    )


def _around(joules: float, lower: float | None, upper: float | None) -> tuple[float | None, float | None]:
    """Return bounds that contain the point: each is extrapolated to the ends of the time for itself."""
    return None if lower is None else min(lower, joules), None if upper is None else max(upper, joules)
