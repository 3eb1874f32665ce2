"""A facility that cools with outdoor air where it can: an airside economizer with a mechanical plant behind it.

By outdoor (dry-bulb) temperature: up to the supply air's less the approach, outdoor air alone is enough (free); from
there to the return air's it takes part of the heat, and the plant the rest (partial); above, the plant takes all of it
and the room's air is recirculated (mechanical). The plant's coefficient of performance falls with the outdoor
temperature and at part load. Fans follow the load by the cube law down to a least speed; the losses of the power
distribution have a constant part. Humidity, which may forbid outdoor air, is not modelled. Constants and sources:
docs/models.md.
"""

from dataclasses import dataclass
from enum import StrEnum

from joulie_core.twin.pue import HIGHEST_PLAUSIBLE, FacilityConditions


class CoolingMode(StrEnum):
    """Where the heat goes."""

    FREE = "free"
    PARTIAL = "partial"
    MECHANICAL = "mechanical"


@dataclass(frozen=True, slots=True)
class AirsideEconomizer:
    """The facility; temperatures in degrees Celsius, shares of the IT power that it was built for."""

    #: ASHRAE TC 9.9 recommends 18 to 27 degrees at the inlet of servers.
    supply_c: float = 24.0
    #: Rise of the air through servers.
    rise_c: float = 12.0
    #: What outdoor air gains on its way through filters and fans.
    approach_c: float = 2.0
    #: Coefficient of performance of the plant at full load with outdoor air at `rated_c`: Moore et al., "Making
    #: Scheduling Cool", USENIX ATC 2005, COP(T) = 0.0068 T^2 + 0.0008 T + 0.458 with supply air at 24 degrees.
    rated_cop: float = 4.39
    rated_c: float = 35.0
    #: Change of the COP per degree of outdoor air, relative; about that of common condensing units.
    cop_per_c: float = 0.02
    #: No colder air improves the COP beyond that at this temperature, for the condenser's least pressure.
    coldest_condenser_c: float = 15.0
    #: Loss at part load: COP * (1 - loss * (1 - load)), the default of EnergyPlus for cooling coils (0.85 + 0.15 load).
    part_load_loss: float = 0.15
    #: Power of the fans at full load, and their least share of full speed.
    fan_share: float = 0.04
    least_fan_speed: float = 0.4
    #: Losses of power distribution: constant, and in proportion to the load.
    fixed_loss_share: float = 0.01
    loss_share: float = 0.04

    def mode(self, outdoor_c: float) -> CoolingMode:
        """Return where the heat goes at this outdoor temperature."""
        if outdoor_c <= self.supply_c - self.approach_c:
            return CoolingMode.FREE
        return (
            CoolingMode.PARTIAL if outdoor_c < self.supply_c + self.rise_c - self.approach_c else CoolingMode.MECHANICAL
        )

    def mechanical_share(self, outdoor_c: float) -> float:
        """Return the share of the heat, 0 to 1, that the mechanical plant takes."""
        return min(max((outdoor_c + self.approach_c - self.supply_c) / self.rise_c, 0.0), 1.0)

    def cop(self, outdoor_c: float, load_share: float) -> float:
        """Return watts of heat that the plant takes per watt it draws, at a share in [0, 1] of its full load."""
        degrees = max(outdoor_c, self.coldest_condenser_c) - self.rated_c
        part_load = 1.0 - self.part_load_loss * (1.0 - min(max(load_share, 0.0), 1.0))
        return self.rated_cop / (1.0 + self.cop_per_c * degrees) * part_load

    def estimate(self, conditions: FacilityConditions) -> float | None:
        """Return the PUE; None where the outdoor temperature or the load is unknown, or no power is drawn."""
        outdoor_c, load = conditions.outdoor_c, conditions.load_share
        if outdoor_c is None or load is None or load <= 0.0:
            return None
        heat = load * self.mechanical_share(outdoor_c)
        fans = self.fan_share * max(min(load, 1.0), self.least_fan_speed) ** 3
        overhead = heat / self.cop(outdoor_c, heat) + fans + self.fixed_loss_share + self.loss_share * load
        return min(1.0 + overhead / load, HIGHEST_PLAUSIBLE)
