"""Figures of the course of a pod, by its times in seconds; of one pod or of arrays over pods.

The work of a pod is the time that it takes alone on the reference model at full speed, whatever model it runs on.
"""

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
