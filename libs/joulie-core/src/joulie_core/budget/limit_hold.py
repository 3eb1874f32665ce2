"""A limit that counts only while the node is measured: the samples that an agent took, and what they make of the limit.

Guarantees that a limit counts for no longer than its hold after a sample that this process took and the object names,
by the process's own monotonic clock. A sample of another process, one that was forgotten and one that was never taken
are the same: not fresh. Source: docs/decisions/0066-oversubscription.md.
"""

from dataclasses import dataclass, replace
from typing import Final, Self

from joulie_core.budget.objects import milliwatts
from joulie_core.kinds.node_power_budget import OversubscribedLimit

#: Samples that are remembered; an operator names one of the last two or three.
MOST_SAMPLES: Final = 64
#: Seconds between two samples at most: the renewal of a lease is told with a sample, and must not seem unseen.
LONGEST_SAMPLE_S: Final = 30.0
#: First numbers are below it: with all that follow they stay exact where JSON has 64-bit floats.
_FIRST_BELOW: Final = 2**52


@dataclass(frozen=True, slots=True)
class TakenSample:
    """One sample of what a node draws."""

    number: int
    #: When its reading began, by the agent's monotonic clock.
    taken_s: float


@dataclass(frozen=True, slots=True)
class TakenSamples:
    """The samples of one process, oldest first."""

    next_number: int
    taken: tuple[TakenSample, ...] = ()

    @classmethod
    def begin(cls, random_number: int) -> Self:
        """Return no samples; their numbers begin at a random number, so that none is taken for an earlier agent's."""
        return cls(1 + random_number % _FIRST_BELOW)

    @property
    def newest(self) -> TakenSample | None:
        """The last sample; None before the first."""
        return self.taken[-1] if self.taken else None

    def take(self, now_s: float) -> "TakenSamples":
        """Return the samples with one more, without the oldest where they are too many."""
        taken = (*self.taken, TakenSample(self.next_number, now_s))[-MOST_SAMPLES:]
        return replace(self, next_number=self.next_number + 1, taken=taken)

    def taken_s(self, number: int | None) -> float | None:
        """Return when a sample was taken; None where it is not known to this process."""
        return next((each.taken_s for each in self.taken if each.number == number), None)


@dataclass(frozen=True, slots=True)
class LimitHold:
    """Time for which a limit counts, and the fallback that counts in its place afterwards."""

    fallback_mw: int
    #: Between two samples.
    sample_s: float
    #: For which the limit counts after a sample.
    hold_s: float
    #: When the sample was taken that is named; None: none is, or not one that is known.
    taken_s: float | None

    def ends_s(self) -> float | None:
        """Return the time from which the fallback counts; None where it counts already, whatever the time."""
        return None if self.taken_s is None else self.taken_s + self.hold_s

    def is_fresh(self, now_s: float) -> bool:
        """Return whether the limit counts."""
        ends_s = self.ends_s()
        return ends_s is not None and now_s < ends_s


def limit_hold(asked: OversubscribedLimit | None, limit_mw: int | None, samples: TakenSamples) -> LimitHold | None:
    """Return how long a limit counts; None where it counts at any time.

    Args:
        asked: `spec.oversubscription`.
        limit_mw: the limit; None: there is none, and the fallback counts at any time.
        samples: of this process.
    """
    if asked is None:
        return None
    fallback_mw = milliwatts(asked.fallback_watts) or 0
    if limit_mw is not None:
        fallback_mw = min(fallback_mw, limit_mw)
    return LimitHold(
        fallback_mw=fallback_mw,
        sample_s=min(float(asked.sample_seconds), LONGEST_SAMPLE_S),
        hold_s=float(asked.hold_seconds),
        taken_s=None if limit_mw is None else samples.taken_s(asked.sample),
    )
