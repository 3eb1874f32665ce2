"""Run time that a pod states, and the part of it in which its node is on for other pods anyway.

Guarantees that a value which cannot be read, is not positive or is longer than a year counts as not stated. What
`spec.activeDeadlineSeconds` allows is an upper bound: it says how long the pod runs at most, and nothing of how long it
keeps its node on. Times are seconds of the wall clock, on whatever hardware the pod runs.
Source: docs/decisions/0051-stated-run-time.md.
"""

from typing import Final, NamedTuple

from joulie_core.durations import DurationError, parse_duration

#: Parts of a pod's run time that a score tells apart.
NINTHS: Final = 9
LONGEST_S: Final = 365 * 86_400.0


class StatedTime(NamedTuple):
    """Seconds that a pod runs, from its start."""

    at_most_s: float
    #: None where the pod states only a bound.
    expected_s: float | None = None


def stated_time(annotation: str | None, deadline_s: float | None) -> StatedTime | None:
    """Return the run time that a pod states; None where it states none.

    Args:
        annotation: its `joulie.io/expected-duration`, a Go duration.
        deadline_s: its `spec.activeDeadlineSeconds`, at which the kubelet ends it.
    """
    expected_s = None if annotation is None else _read(annotation)
    bound_s = _usable(deadline_s)
    if expected_s is None:
        return None if bound_s is None else StatedTime(bound_s)
    if bound_s is not None:
        expected_s = min(expected_s, bound_s)
    return StatedTime(expected_s, expected_s)


def covered_ninths(run_s: float, left_s: float) -> int:
    """Return the whole ninths of a pod's run time for which other pods are stated to run on its node.

    Args:
        run_s: how long the pod runs at most, above 0.
        left_s: how long the others still run by what they state; 0 or less where none does.
    """
    return min(NINTHS, max(0, int(left_s * (NINTHS / run_s))))


def _read(annotation: str) -> float | None:
    try:
        return _usable(parse_duration(annotation))
    except DurationError:
        return None


def _usable(seconds: float | None) -> float | None:
    return seconds if seconds is not None and 0 < seconds <= LONGEST_S else None
