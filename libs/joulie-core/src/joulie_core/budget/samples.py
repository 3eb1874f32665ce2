"""Draws of nodes, by the samples that their agents report, and how old these are at most.

Guarantees that the age of a sample counts from the operator's own write that the agent had seen when it reported the
sample first, so that no clocks are compared and no old sample becomes fresh by a later write; and that the sample of a
node counts with the one before it, since the mean of a sample is only partly that of an overload at its beginning.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.budget.ledger import BudgetNode, held_mw
from joulie_core.names import NodeName

_SAMPLES: Final = 5
_HOLDS: Final = 2


@dataclass(frozen=True, slots=True)
class SampleTimes:
    """Times of samples, in seconds, by the shortest reaction time of a tree."""

    reaction_s: int

    @property
    def sample_s(self) -> int:
        """Between two samples of a node."""
        return max(self.reaction_s // _SAMPLES, 1)

    @property
    def hold_s(self) -> int:
        """After a sample was taken for which it lets a limit be in force."""
        return _HOLDS * self.reaction_s // _SAMPLES

    @property
    def fresh_s(self) -> int:
        """Age up to which a sample counts."""
        return self.reaction_s - self.hold_s


@dataclass(frozen=True, slots=True)
class ReportedSample:
    """A sample as an agent reports it."""

    number: int
    #: Mean since the sample before; None: not all devices were read.
    drawn_mw: int | None
    #: Time of the operator's clock before the renewal that the agent had seen; None: not known.
    renewed_s: float | None


@dataclass(frozen=True, slots=True)
class _Sampled:
    #: As it was reported first.
    sample: ReportedSample
    before_mw: int | None


class NodeSamples:
    """The last two samples of each node."""

    def __init__(self) -> None:
        self._sampled: dict[NodeName, _Sampled] = {}
        #: Times at which nodes had a fresh sample last, or were seen first.
        self._fresh_s: dict[NodeName, float] = {}
        self._now_s = 0.0
        self._times = SampleTimes(0)

    def take(self, found: Mapping[NodeName, ReportedSample | None], now_s: float, times: SampleTimes) -> None:
        """Take what the agents of all nodes report now; None: that of this boot of the node has reported nothing."""
        self._now_s, self._times = now_s, times
        sampled = {}
        for name, sample in found.items():
            if sample is None:
                continue
            before = self._sampled.get(name)
            if before is None or before.sample.number != sample.number:
                before = _Sampled(sample, None if before is None else before.sample.drawn_mw)
            sampled[name] = before
        self._sampled = sampled
        self._fresh_s = {name: now_s if self.is_fresh(name) else self._fresh_s.get(name, now_s) for name in found}

    def is_fresh(self, name: NodeName) -> bool:
        """Return whether the last sample of a node counts now."""
        sampled = self._sampled.get(name)
        if sampled is None or sampled.sample.drawn_mw is None or sampled.sample.renewed_s is None:
            return False
        return self._now_s <= sampled.sample.renewed_s + self._times.fresh_s

    def stale(self, names: Iterable[NodeName], for_s: float) -> list[NodeName]:
        """Return the nodes that have had no fresh sample for a time."""
        return [each for each in names if not self.is_fresh(each) and self._now_s >= self._fresh_s[each] + for_s]

    def counted_mw(self, node: BudgetNode) -> int | None:
        """Return what a node draws: the higher of its last two samples, and without a fresh one its limit."""
        if not self.is_fresh(node.name):
            return held_mw(node)
        sampled = self._sampled[node.name]
        return max(sampled.sample.drawn_mw or 0, sampled.before_mw or 0)
