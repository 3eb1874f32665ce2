"""Arguments that say how long an arm is simulated, what happens to jobs without room, and in what facility."""

import argparse
from pathlib import Path
from typing import Final

from joulie_sim.engine.facility import (
    DailyTemperature,
    EconomizerFacility,
    FacilityModel,
    LinearFacility,
    MeasuredTemperature,
    OutdoorTemperature,
)
from joulie_sim.engine.simulation import SimulationSettings

_SECONDS_PER_HOUR: Final = 3600.0
_LINEAR: Final = "linear"
_ECONOMIZER: Final = "economizer"

#: For the help of commands.
PROTOCOLS: Final = """\
protocols:
  equal work  as it is: all arms get the same jobs, jobs without room wait, and an arm ends when all work is done
  overload    --load 1.3 --drop-on-arrival --horizon-hours 48: jobs without room are dropped, and every arm ends at the
              same time; arms then do different amounts of work, so compare the energy per unit of work
"""


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    protocol = parser.add_argument_group("protocol")
    protocol.add_argument("--drop-on-arrival", action="store_true", help="jobs without room are dropped, not queued")
    protocol.add_argument("--horizon-hours", type=float, metavar="H", help="end then, whatever still runs")
    facility = parser.add_argument_group("facility")
    facility.add_argument(
        "--facility",
        choices=(_LINEAR, _ECONOMIZER),
        default=_LINEAR,
        help="linear: PUE by the cooling stress of each node, as in the twin; economizer: outdoor air, and a plant "
        "behind it (default linear)",
    )
    facility.add_argument(
        "--outdoor-c", type=float, default=15.0, metavar="C", help="mean outdoor temperature of a day (default 15)"
    )
    facility.add_argument(
        "--outdoor-swing-c",
        type=float,
        default=6.0,
        metavar="C",
        help="the highest, at 15:00, less the mean (default 6); the simulation starts at midnight",
    )
    facility.add_argument(
        "--outdoor", type=Path, metavar="FILE", help="instead: CSV with the columns hour (since the start) and celsius"
    )


def settings_from(arguments: argparse.Namespace, *, seed: int) -> SimulationSettings:
    """Return what all arms have in common.

    Raises:
        OutdoorError: the file of temperatures is not valid.
        OSError: it cannot be read.
    """
    horizon_s = arguments.horizon_hours * _SECONDS_PER_HOUR if arguments.horizon_hours else None
    return SimulationSettings(
        seed=seed, drop_on_arrival=arguments.drop_on_arrival, horizon_s=horizon_s, facility=_facility(arguments)
    )


def _facility(arguments: argparse.Namespace) -> FacilityModel:
    if arguments.facility == _LINEAR:
        return LinearFacility()
    outdoor: OutdoorTemperature = DailyTemperature(arguments.outdoor_c, arguments.outdoor_swing_c)
    if arguments.outdoor:
        outdoor = MeasuredTemperature.read(arguments.outdoor)
    return EconomizerFacility(outdoor)
