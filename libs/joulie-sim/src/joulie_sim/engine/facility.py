"""Power of a facility for the watts of its nodes."""

import csv
import math
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from joulie_core.twin import LinearPue
from joulie_core.twin.economizer import AirsideEconomizer
from joulie_core.twin.pue import FacilityConditions
from joulie_core.twin.stress import ambient_factor
from joulie_sim.engine.arrays import Floats

_HOUR_S: Final = 3600.0
_DAY_S: Final = 24 * _HOUR_S
#: The mean temperature is reached at 9:00, the highest at 15:00, the lowest at 3:00.
_MEAN_AT_S: Final = 9 * _HOUR_S


class OutdoorError(Exception):
    """A file is no list of temperatures; the message has the position and the reason."""


@dataclass(frozen=True, slots=True)
class PoweredNodes:
    """Nodes at a time."""

    #: Mean watts of each node at the wall, over a minute.
    watts: Floats
    #: Thermal design power of each node.
    tdp_watts: Floats
    #: Watts of all nodes at full load, at the wall: what the facility was built for.
    full_watts: float
    at_s: float


class FacilityModel(Protocol):
    """A model of cooling and power distribution."""

    def watts(self, nodes: PoweredNodes) -> float:
        """Return the watts of the whole facility, those of the nodes included."""


@dataclass(frozen=True, slots=True)
class LinearFacility:
    """The twin's model: each node's PUE rises linearly with its cooling stress, at a constant ambient temperature."""

    pue: LinearPue = field(default_factory=LinearPue)
    ambient_c: float | None = None

    def watts(self, nodes: PoweredNodes) -> float:
        """Return the sum of each node's mean watts times its PUE."""
        stress = np.clip(nodes.watts / nodes.tdp_watts * 100.0 * ambient_factor(self.ambient_c), 0.0, 100.0)
        return fsum(nodes.watts * (self.pue.base + self.pue.at_full_stress * stress / 100.0))


class OutdoorTemperature(Protocol):
    """Temperature of the outdoor air."""

    def at(self, at_s: float) -> float:
        """Return degrees Celsius at a time since the start of the simulation, which is at midnight."""


@dataclass(frozen=True, slots=True)
class DailyTemperature:
    """A mean and a daily swing around it."""

    mean_c: float
    swing_c: float = 0.0

    def at(self, at_s: float) -> float:
        """Return the temperature."""
        return self.mean_c + self.swing_c * math.sin(2 * math.pi * (at_s - _MEAN_AT_S) / _DAY_S)


@dataclass(frozen=True, slots=True)
class MeasuredTemperature:
    """Measured temperatures at rising times, linear between them; the first and the last hold outside."""

    times_s: tuple[float, ...]
    celsius: tuple[float, ...]

    def at(self, at_s: float) -> float:
        """Return the temperature."""
        return float(np.interp(at_s, self.times_s, self.celsius))

    @staticmethod
    def read(path: Path) -> "MeasuredTemperature":
        """Read a CSV file with the columns `hour` (since the start) and `celsius`.

        Raises:
            OutdoorError: a line is no temperature, or the hours do not rise.
            OSError: the file cannot be read.
        """
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows: list[tuple[float, float]] = []
            for row in reader:
                try:
                    hour, celsius = float(row["hour"]), float(row["celsius"])
                except (KeyError, TypeError, ValueError) as error:
                    raise OutdoorError(f"{path}, line {reader.line_num}: no hour and celsius: {row}") from error
                if not (math.isfinite(hour) and math.isfinite(celsius)):
                    raise OutdoorError(f"{path}, line {reader.line_num}: a value is not finite")
                if rows and hour * _HOUR_S <= rows[-1][0]:
                    raise OutdoorError(f"{path}, line {reader.line_num}: hours must rise")
                rows.append((hour * _HOUR_S, celsius))
        if not rows:
            raise OutdoorError(f"{path}: there is no temperature")
        return MeasuredTemperature(*(tuple(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True, slots=True)
class EconomizerFacility:
    """Outdoor air where it is cold enough, a mechanical plant behind it: `joulie_core.twin.economizer`."""

    outdoor: OutdoorTemperature
    economizer: AirsideEconomizer = field(default_factory=AirsideEconomizer)

    def watts(self, nodes: PoweredNodes) -> float:
        """Return the IT power times the PUE at its share of the full one and the temperature of the moment."""
        watts = fsum(nodes.watts)
        conditions = FacilityConditions(
            cooling_stress=None, outdoor_c=self.outdoor.at(nodes.at_s), load_share=watts / nodes.full_watts
        )
        pue = self.economizer.estimate(conditions)
        # Without any load there is no PUE, and nothing to cool.
        return watts if pue is None else watts * pue


def idle_watts(facility: FacilityModel, watts: Floats, tdp_watts: Floats, full_watts: float) -> float:
    """Return the facility's watts for idle nodes, as the mean over the hours of the first day."""
    hours = [PoweredNodes(watts, tdp_watts, full_watts, (hour + 0.5) * _HOUR_S) for hour in range(24)]
    return fsum(facility.watts(each) for each in hours) / len(hours)
