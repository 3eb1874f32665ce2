"""CPU seconds of the pods of a node between two readings of their cgroups."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU time of a node and its pods so far, in seconds, at one moment."""

    #: None if unknown.
    node_seconds: float | None
    #: By pod; None for one that is there and could not be read.
    pods: Mapping[str, float | None]
    #: Whether all pods that are there were seen.
    complete: bool = True


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU seconds of one interval."""

    #: Of all processes, by the node; None if unknown.
    node: float | None
    #: Of the pods at its end. One that ended in it is in the node's alone.
    pods: Mapping[str, float | None]


def cpu_seconds_between(before: CpuTimes | None, after: CpuTimes | None) -> CpuSeconds:
    """Return the CPU seconds between two readings; unknown where one is missing or a time went back."""
    if before is None or after is None:
        return CpuSeconds(None, {})
    return CpuSeconds(
        _between(before.node_seconds, after.node_seconds),
        {pod: _between(_start(before, pod), seconds) for pod, seconds in after.pods.items()},
    )


def _start(before: CpuTimes, pod: str) -> float | None:
    """Return the time at the start; a pod that was not there began in the interval, if all were seen."""
    if pod in before.pods:
        return before.pods[pod]
    return 0.0 if before.complete else None


def _between(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None or after < before else after - before
