"""Work per second of one hardware thread and of one GPU, by model, over that of a reference device.

References are a thread of EPYC 7763 with all threads busy, and an A100 SXM 80 GB. A model without a published figure
has no rate; none is derived from clocks or data sheets. Figures, sources and bands: `work_rates.toml`, docs/models.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkRate:
    """Work per second without limits over that of the reference, and the band that published figures leave."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "WorkRate":
        """Return the rate of a device that is faster by a factor."""
        return WorkRate(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class WorkRates:
    """All published rates."""

    #: Generation and model number of a CPU -> rate of integer work of one hardware thread.
    threads: Mapping[tuple[str, str], WorkRate]
    #: GPU model, as in the inventory -> rate.
    gpus: Mapping[str, WorkRate]

    @staticmethod
    def read(data: Mapping[str, Any]) -> "WorkRates":
        """Return the rates of the data of `work_rates.toml`; an empty mapping gives none."""
        band = data.get("thread_band", {"low": 1.0, "high": 1.0})
        unit = WorkRate(1.0, band["low"], band["high"])
        # Behind the integer rate most models have a floating-point one, for people to read.
        threads = {
            (generation, number): unit.times(integer)
            for generation, entry in data.get("thread", {}).items()
            for number, integer, *_ in entry["models"]
        }
        gpus: dict[str, WorkRate] = {}
        for entry in data.get("gpu", ()):
            # Ratios are over a model that comes before.
            base = gpus[entry["over"]].value if "over" in entry else 1.0
            gpus.update(dict.fromkeys(entry["models"], _rate(entry["ratios"], entry.get("range", ())).times(base)))
        return WorkRates(threads, gpus)


def _rate(ratios: Sequence[float], further: Sequence[float]) -> WorkRate:
    published = [*ratios, *further]
    return WorkRate(median(ratios), min(published), max(published))
