"""Figures of the course of pods, by their times in seconds; of one pod or of arrays over pods.

The work of a pod is the time that it takes alone on the reference model at full speed, whatever model it runs on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Seconds = TypeVar("Seconds", float, npt.NDArray[np.float64])


def wait(created_s: Seconds, bound_s: Seconds) -> Seconds:
    """Return the time from creation until the pod has a node."""
    return bound_s - created_s


def slowdown(started_s: Seconds, ended_s: Seconds, work_s: Seconds) -> Seconds:
    """Return the time from start to end over the work, which is what caps and slow models cost."""
    return (ended_s - started_s) / work_s


def stretch(created_s: Seconds, ended_s: Seconds, work_s: Seconds) -> Seconds:
    """Return the time from creation to end over the work: slowdown and wait together."""
    return (ended_s - created_s) / work_s


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Waits of several pods for a node, in seconds; None, but for the number, where no pod has one."""

    #: Pods that have a node.
    bound: int
    mean_s: float | None
    median_s: float | None
    p95_s: float | None
    p99_s: float | None
    longest_s: float | None

    @staticmethod
    def of(waits_s: Iterable[float | None]) -> "WaitFigures":
        """Return the figures; a wait is None while the pod has no node."""
        known = [each for each in waits_s if each is not None]
        median, p95, p99 = (percentile(known, share) for share in (0.5, 0.95, 0.99))
        return WaitFigures(len(known), mean(known), median, p95, p99, max(known, default=None))


def mean(values: Sequence[float] | npt.NDArray[np.float64]) -> float | None:
    """Return the mean; None without values."""
    return float(np.mean(values)) if len(values) else None


def percentile(values: Sequence[float] | npt.NDArray[np.float64], share: float) -> float | None:
    """Return the value that `share` of all values do not exceed, between two values in proportion; None without any."""
    return float(np.quantile(values, share)) if len(values) else None
