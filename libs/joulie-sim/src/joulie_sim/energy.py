"""Energies of runs that end at different times, and of their work. No I/O."""

from typing import Final

SECONDS_PER_HOUR: Final = 3600.0


def kwh_until(end_s: float, own_kwh: float, own_end_s: float, *, idle_kw: float) -> float:
    """Return the energy up to a common end, with idle power from the run's own end on, should that be earlier."""
    return own_kwh + idle_kw * max(0.0, end_s - own_end_s) / SECONDS_PER_HOUR


def per_core_second(joules: float, core_s: float) -> float:
    """Return the energy per second of work of one hardware thread; 0 without work."""
    return joules / core_s if core_s else 0.0
