"""The reason why a GPU's clock is no higher: a limit that does not bind saves nothing.

Source: docs/decisions/0044-bounded-slowdown.md.
"""

from enum import StrEnum
from typing import Final

#: Between two clocks that NVIDIA's GPUs support since Ampere; less before.
CLOCK_STEP_MHZ: Final = 15


class ClockBound(StrEnum):
    """Reason why the graphics clock of a GPU is no higher."""

    #: A limit on power, of the GPU or of the server.
    POWER_LIMIT = "power-limit"
    #: Joulie's limit on the clock.
    CLOCK_LIMIT = "clock-limit"
    THERMAL = "thermal"
    #: There is no work.
    IDLE = "idle"
    #: Nothing keeps it from its highest clock.
    NONE = "none"
    #: Not reported, or a reason that is none of the others.
    UNKNOWN = "unknown"


def clock_bound(reported: ClockBound, clock_mhz: int | None, limit_mhz: int | None) -> ClockBound:
    """Return what bounds a clock, of what the vendor's library reports and Joulie's limit, which it does not name.

    Args:
        reported: by the library.
        clock_mhz: the clock; None where it is not known.
        limit_mhz: Joulie's limit; None where there is none.
    """
    if reported not in (ClockBound.NONE, ClockBound.UNKNOWN) or limit_mhz is None:
        return reported
    if clock_mhz is None:
        return ClockBound.UNKNOWN
    return ClockBound.CLOCK_LIMIT if clock_mhz >= limit_mhz - CLOCK_STEP_MHZ else reported
