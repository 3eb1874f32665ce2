"""Rate of change of a node's power: least-squares slope over the good samples of the last five minutes.

A sample that cannot be true is left out, never taken as zero; a change of the source starts anew, because two sources
disagree by more than a node changes in minutes. Until the samples span half a minute there is no trend. Source:
docs/decisions/0013-conventions.md.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from joulie_core.plausible import is_measured

WINDOW_S: Final = 300.0
#: The slope over less time is mostly noise: one watt of jitter in a second would be 60 W/min.
LEAST_SPAN_S: Final = 30.0
_SECONDS_PER_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class PowerWindow:
    """Samples (time in seconds, watts) of one node from one source, oldest first; times rise strictly."""

    source: str = ""
    samples: tuple[tuple[float, float], ...] = ()

    def add(self, source: str, at: float, watts: float, max_watts: float | None = None) -> "PowerWindow":
        """Return the window with one more sample, or the same window where the sample is bad or not new.

        Args:
            source: who measured.
            at: when, in seconds on any clock that does not jump.
            watts: the reading.
            max_watts: the node's maximum power; None where it is unknown or inferred.

        """
        if not is_measured(watts, max_watts):
            return self
        kept = self.samples if source == self.source else ()
        if kept and at <= kept[-1][0]:
            return self
        recent = tuple(sample for sample in kept if sample[0] > at - WINDOW_S)
        return PowerWindow(source, (*recent, (at, watts)))

    def slope_w_per_min(self, now: float) -> float | None:
        """Return the trend in watts per minute, or None where the samples do not carry one."""
        recent = [sample for sample in self.samples if sample[0] > now - WINDOW_S]
        if not recent or recent[-1][0] - recent[0][0] < LEAST_SPAN_S:
            return None
        return least_squares_slope(recent) * _SECONDS_PER_MINUTE


def least_squares_slope(samples: Iterable[tuple[float, float]]) -> float:
    """Return the slope of the line through (time, value) points with the least squared error; times must differ."""
    points = list(samples)
    mean_time = math.fsum(at for at, _ in points) / len(points)
    mean_value = math.fsum(value for _, value in points) / len(points)
    covariance = math.fsum((at - mean_time) * (value - mean_value) for at, value in points)
    variance = math.fsum((at - mean_time) ** 2 for at, _ in points)
    return covariance / variance
