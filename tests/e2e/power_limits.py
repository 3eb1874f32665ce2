"""Limits of domains over time, the samples of an observer that are above one, and a picture of both.

A limit that is lowered holds from the first sample on whose caps are within it; until then the one before it does.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from tests.e2e.power_feed import FEED, GROUPS, RACKS, ROWS
from tests.e2e.power_observer import PowerSample

#: Sums of floating point numbers.
_ROUNDING_W = 0.01
_KILO = 1000.0
#: A picture has the highest sample of each second.
_PLOTTED_S = 1.0


def caps(sample: PowerSample) -> Mapping[str, float]:
    """Return the sums of caps."""
    return sample.caps_w


def drawn(sample: PowerSample) -> Mapping[str, float]:
    """Return the sums of drawn power."""
    return sample.drawn_w


@dataclass(slots=True)
class WrittenLimits:
    """The limits of one run, in the order in which they were written; times are those of the loop's clock."""

    written: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def write(self, domain: str, watts: float, at_s: float) -> None:
        """Note a limit, before it is sent."""
        self.written.setdefault(domain, []).append((at_s, watts))

    def holding(self, domain: str, samples: Sequence[PowerSample]) -> list[float | None]:
        """Return the limit that holds at each sample; None before the first is reached."""
        found: list[float | None] = []
        holds: float | None = None
        ahead = list(self.written.get(domain, ()))
        for sample in samples:
            while ahead and ahead[0][0] <= sample.at_s:
                watts = ahead[0][1]
                if (holds is None or watts < holds) and sample.caps_w[domain] > watts + _ROUNDING_W:
                    break
                holds = watts
                del ahead[0]
            found.append(holds)
        return found

    def above(
        self, samples: Sequence[PowerSample], read: Callable[[PowerSample], Mapping[str, float]]
    ) -> dict[str, int]:
        """Return how many samples of each domain are above the limit that holds."""
        return {
            domain: sum(
                limit is not None and read(sample)[domain] > limit + _ROUNDING_W
                for sample, limit in zip(samples, self.holding(domain, samples), strict=True)
            )
            for domain in GROUPS
        }

    def save(self, directory: Path, samples: Sequence[PowerSample], marks: Sequence[tuple[float, str]]) -> None:
        """Write `sums.csv` with every sample, and the picture `sums.svg` with what happened at which time."""
        directory.mkdir(parents=True, exist_ok=True)
        start_s = samples[0].at_s
        held = {domain: self.holding(domain, samples) for domain in GROUPS}
        with (directory / "sums.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(
                ["seconds", *(f"{domain} {name}" for domain in GROUPS for name in ("caps", "drawn", "limit"))]
            )
            for number, each in enumerate(samples):
                values = ((each.caps_w[name], each.drawn_w[name], held[name][number]) for name in GROUPS)
                rows.writerow([round(each.at_s - start_s, 2), *(value for group in values for value in group)])
        self._plot(directory / "sums.svg", _highest(samples), [(at_s - start_s, text) for at_s, text in marks])

    def _plot(self, path: Path, samples: Sequence[PowerSample], marks: Sequence[tuple[float, str]]) -> None:
        times = [each.at_s - samples[0].at_s for each in samples]
        with mpl.rc_context({"font.size": 8, "svg.hashsalt": "joulie"}):
            figure = Figure(figsize=(12, 9), layout="constrained")
            axes = figure.subplot_mosaic([[FEED] * 4, [name for name in ROWS for _ in range(2)], list(RACKS)])
            for domain, ax in axes.items():
                limits = [float("nan") if each is None else each / _KILO for each in self.holding(domain, samples)]
                ax.plot(
                    times, [each.caps_w[domain] / _KILO for each in samples], color="#2166ac", label="limits in force"
                )
                ax.plot(times, [each.drawn_w[domain] / _KILO for each in samples], color="#4d9221", label="drawn")
                ax.step(times, limits, color="#b2182b", where="post", label="limit of the domain")
                ax.set(title=domain, ylim=(0, None), xlabel="s", ylabel="kW")
            for at_s, text in marks:
                axes[FEED].axvline(at_s, color="#bbbbbb", linewidth=0.8)
                axes[FEED].text(
                    at_s, 0.02, f" {text}", rotation=90, va="bottom", transform=axes[FEED].get_xaxis_transform()
                )
            axes[FEED].legend(loc="lower right")
            figure.savefig(path, metadata={"Date": None})


def _highest(samples: Sequence[PowerSample]) -> list[PowerSample]:
    """Return the sample with the highest sum of caps of each second."""
    found: dict[int, PowerSample] = {}
    for each in samples:
        second = int((each.at_s - samples[0].at_s) / _PLOTTED_S)
        found[second] = max(found.get(second, each), each, key=lambda sample: sample.caps_w[FEED])
    return list(found.values())
