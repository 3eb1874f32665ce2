"""The clock that a GPU holds by itself under load: the highest one over its last hours of load.

Only samples under load without a limit of Joulie's count. Time without load and time under a limit say nothing about
it and do not age it: what was measured stays until as many hours of load are newer. Guarantees a bounded size.
Source: docs/decisions/0044-bounded-slowdown.md.
"""

from dataclasses import dataclass, replace
from typing import Final

#: Share of the time in which the GPU is busy from which a sample is one of load.
LOADED_SHARE: Final = 0.5
#: Samples under load before the clock counts as measured.
LEAST_SAMPLES: Final = 12
_HOUR_S: Final = 3600.0
_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One reading of a GPU; None is not measured."""

    clock_mhz: int | None
    #: Share of the time in which the GPU was busy, in [0, 1].
    busy_share: float | None
    #: Whether a limit of Joulie's on its clock or power is in force; None where that is not known.
    limited: bool | None


@dataclass(frozen=True, slots=True)
class HeldClock:
    """Highest clocks by hour in which there was load, the oldest first."""

    #: (hour, highest clock in MHz).
    hours: tuple[tuple[int, int], ...] = ()
    samples: int = 0

    @property
    def mhz(self) -> int | None:
        """The clock; None while too little was seen."""
        return max(mhz for _, mhz in self.hours) if self.samples >= LEAST_SAMPLES else None

    def seen(self, sample: ClockSample, now_s: float) -> "HeldClock":
        """Return the state after a sample; one that says nothing changes nothing.

        Args:
            sample: the reading.
            now_s: seconds of a clock that does not go back.
        """
        if sample.limited is not False or sample.clock_mhz is None or sample.clock_mhz <= 0:
            return self
        if sample.busy_share is None or sample.busy_share < LOADED_SHARE:
            return self
        hour, mhz, hours = int(now_s // _HOUR_S), sample.clock_mhz, self.hours
        if hours and hours[-1][0] == hour:
            mhz, hours = max(mhz, hours[-1][1]), hours[:-1]
        return replace(self, hours=(*hours, (hour, mhz))[-_HOURS:], samples=min(self.samples + 1, LEAST_SAMPLES))
