"""Closeness of a node to its limits: power headroom, cooling stress, PSU stress.

Every figure is a percentage; an input that is not known makes the figure unknown (None), never zero.
Source: docs/decisions/0013-conventions.md.
"""

from typing import Final

#: Ambient temperature at which cooling stress depends on the power alone, degrees Celsius.
REFERENCE_AMBIENT_C: Final = 20.0
#: Cooling capacity lost per degree above the reference.
CAPACITY_LOSS_PER_C: Final = 0.02
#: Cooling capacity never counts as less than this share.
LEAST_CAPACITY: Final = 0.5
#: Power that a rack can be fed with where nothing else is configured, watts.
DEFAULT_RACK_CAPACITY_WATTS: Final = 50_000.0
#: Below this a cap is none: no node runs on less, and headroom relative to it would mean nothing.
LEAST_CAP_WATTS: Final = 1.0


def headroom_pct(capped_watts: float, measured_watts: float | None) -> float | None:
    """Return the free share of the capped power, percent; negative above the cap; None where something is unknown."""
    if measured_watts is None or capped_watts < LEAST_CAP_WATTS:
        return None
    return (capped_watts - measured_watts) / capped_watts * 100


def ambient_factor(ambient_c: float | None) -> float:
    """Return what cooling stress is multiplied by; 1 at 20 degrees Celsius and where the ambient is unknown."""
    if ambient_c is None:
        return 1.0
    return 1 / max(LEAST_CAPACITY, 1 - CAPACITY_LOSS_PER_C * (ambient_c - REFERENCE_AMBIENT_C))


def cooling_stress(measured_watts: float | None, tdp_watts: float, ambient_c: float | None) -> float | None:
    """Return the share of the cooling capacity in use, 0 to 100; None where power or TDP is unknown."""
    if measured_watts is None or tdp_watts <= 0:
        return None
    return _score(measured_watts / tdp_watts * 100 * ambient_factor(ambient_c))


def psu_stress(rack_draw_watts: float | None, rack_capacity_watts: float = DEFAULT_RACK_CAPACITY_WATTS) -> float | None:
    """Return the share of the rack's supply in use, 0 to 100; None for a node without rack or of unknown draw."""
    if rack_draw_watts is None or rack_capacity_watts <= 0:
        return None
    return _score(rack_draw_watts / rack_capacity_watts * 100)


def _score(value: float) -> float:
    return min(max(value, 0.0), 100.0)
