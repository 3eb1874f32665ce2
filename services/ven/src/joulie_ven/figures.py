"""Figures of one interval for reports, from the status of its PowerEvent. No I/O.

They are of the CPU packages and GPUs of the PowerDomain, not of the site. Minutes that the interval covers in part are
left out; energy is the mean power of the whole minutes times the length of the interval.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.kinds.power_event import DrawnQuality, EventMinute
from joulie_core.timestamps import epoch_seconds
from joulie_ven.objects import OwnEvent
from joulie_ven.wire import ReportDescriptor

_MINUTE_S: Final = 60
#: Watts, or watt-seconds, in a unit.
_POWER: Final[Mapping[str, float]] = {"KW": 1e3, "W": 1.0}
_ENERGY: Final[Mapping[str, float]] = {"KWH": 3.6e6}
#: Units of each payload type, the default first.
HISTORICAL: Final[Mapping[str, Mapping[str, float]]] = {
    "USAGE": _ENERGY,
    "DEMAND": _POWER,
    "BASELINE": {**_POWER, **_ENERGY},
}
FORECASTS: Final[Mapping[str, Mapping[str, float]]] = {"LOAD_SHED_DELTA_AVAILABLE": {**_POWER, **_ENERGY}}
_DATA_QUALITY: Final = "DATA_QUALITY"
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Figure:
    """One payload of a report."""

    payload_type: str
    value: float | str


def units_of(asked: ReportDescriptor) -> str:
    """Return the units of the figure, empty where the requested ones are not supported."""
    units = {**HISTORICAL, **FORECASTS}[asked.payload_type]
    if asked.units is None:
        return next(iter(units))
    return asked.units if asked.units in units else ""


def figures(own: OwnEvent, asked: Iterable[ReportDescriptor]) -> Iterator[Figure]:
    """Yield the figures that are known, and the quality of what was drawn where that was requested."""
    minutes = _whole_minutes(own)
    wants_drawn = False
    for each in asked:
        units = units_of(each)
        scale = {**HISTORICAL, **FORECASTS}[each.payload_type][units]
        watts = _watts(each.payload_type, own, minutes)
        wants_drawn = wants_drawn or each.payload_type in {"USAGE", "DEMAND"}
        if watts is not None and not (units in _ENERGY and own.end_s == math.inf):
            amount = watts * (own.end_s - own.start_s) if units in _ENERGY else watts
            yield Figure(each.payload_type, round(amount / scale, _DIGITS))
    if wants_drawn:
        yield Figure(_DATA_QUALITY, _quality(minutes))


def _watts(payload_type: str, own: OwnEvent, minutes: Sequence[EventMinute] | None) -> float | None:
    status = own.found.model.status
    if payload_type == "LOAD_SHED_DELTA_AVAILABLE":
        if status.baseline_watts is None or status.deliverable_watts is None:
            return None
        # The specification's example has a reduction as a positive number.
        return max(0.0, status.baseline_watts - status.deliverable_watts)
    if payload_type == "BASELINE":
        return status.baseline_watts
    drawn = [each.drawn_watts for each in minutes or () if each.drawn_watts is not None]
    return math.fsum(drawn) / len(drawn) if drawn else None


def _whole_minutes(own: OwnEvent) -> Sequence[EventMinute] | None:
    """Return all whole minutes of the interval; None where what was drawn is not known of each of them."""
    first_s = math.ceil(own.start_s / _MINUTE_S) * _MINUTE_S
    if own.end_s == math.inf:
        return None
    expected = max(0, int((own.end_s - first_s) // _MINUTE_S))
    known = {
        at_s: each
        for each in own.found.model.status.minutes
        if each.drawn_watts is not None
        and (at_s := epoch_seconds(each.start)) is not None
        and first_s <= at_s <= own.end_s - _MINUTE_S
    }
    return list(known.values()) if expected and len(known) == expected else None


def _quality(minutes: Sequence[EventMinute] | None) -> str:
    if minutes is None:
        return "MISSING"
    measured = all(each.quality is DrawnQuality.MEASURED for each in minutes)
    return "OK" if measured else "ESTIMATED"
