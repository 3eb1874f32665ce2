"""Speed and power of a GPU at a lower graphics clock, from published sweeps.

A model without a sweep of its own has the typical one, which is a forecast; only a model's own sweep states a lowest
useful clock. Figures and sources: `clock_sweeps.toml`, docs/models.md.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class ClockPoint:
    """Work at one clock; all three are shares of what the same work has at the clock that the GPU holds alone."""

    clock: float
    speed: float
    power: float


@dataclass(frozen=True, slots=True)
class ClockSweep:
    """One sweep; points fall from the full clock."""

    compute: tuple[ClockPoint, ...]
    memory: tuple[ClockPoint, ...]
    #: In percent of the highest clock; below it the energy per unit of work rises, or nothing was measured.
    lowest_useful_pct: int
    source: str

    def at(self, clock: float, *, memory_bound: bool = False) -> ClockPoint:
        """Return the point at a share of the clock, linear between the measured ones.

        Below the lowest one power stays as it is there and speed goes straight to zero; nothing was measured there.
        """
        points = self.memory if memory_bound else self.compute
        if clock >= points[0].clock:
            return points[0]
        for above, below in pairwise(points):
            if clock >= below.clock:
                part = (clock - below.clock) / (above.clock - below.clock)
                return ClockPoint(
                    clock,
                    below.speed + part * (above.speed - below.speed),
                    below.power + part * (above.power - below.power),
                )
        last = points[-1]
        return ClockPoint(clock, last.speed * max(0.0, clock) / last.clock, last.power)


@dataclass(frozen=True, slots=True)
class ClockSweeps:
    """All sweeps."""

    #: By model, as in the inventory.
    models: Mapping[str, ClockSweep]
    typical: ClockSweep

    @staticmethod
    def read(data: Mapping[str, Any]) -> "ClockSweeps":
        """Return the sweeps of the data of `clock_sweeps.toml`."""
        models = {entry["model"]: _sweep(entry) for entry in data["sweep"]}
        return ClockSweeps(models, models[data["typical"]])

    @staticmethod
    @lru_cache(maxsize=1)
    def load() -> "ClockSweeps":
        """Return the sweeps that ship with the package."""
        text = files("joulie_core.hardware").joinpath("clock_sweeps.toml").read_text(encoding="utf-8")
        return ClockSweeps.read(tomllib.loads(text))

    def of(self, model: str) -> ClockSweep:
        """Return the sweep of a model, else the typical one."""
        return self.models.get(model, self.typical)


def _sweep(entry: Mapping[str, Any]) -> ClockSweep:
    return ClockSweep(
        _points(entry["compute"]), _points(entry["memory"]), int(entry["lowest_useful_pct"]), entry["source"]
    )


def _points(rows: Sequence[Sequence[float]]) -> tuple[ClockPoint, ...]:
    return tuple(ClockPoint(*map(float, row)) for row in rows)
