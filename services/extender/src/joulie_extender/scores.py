"""Scores of all nodes, column by column, and the reply that is made of them.

Promises whole numbers in 0..SCORE_MAX, rounded half away from zero, for any set of candidates in any order; a node that
is not known scores neutrally. Thousands of candidates come in another order every time, so what is read of each lies
close together: a slot number, four floats, the opening of its entry. Scores of a demand that was asked for before are
kept, one small list each, and computed again only for the nodes that changed, as bursts are made of equal pods.
Source: kube-scheduler's extender API v1, HostPriorityList.
"""

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from joulie_core.demand import WorkloadClass
from joulie_core.fnv import fnv1a_32
from joulie_core.powerest.demand import PodDemand
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.prepared import NEUTRAL_ROW, AffineRow
from joulie_core.scoring.state import BURST_TREND_SCALE, STEADY_TREND_SCALE, ClusterTerms

#: What a row holds for: a workload class and a trend scale.
Aspect = tuple[WorkloadClass, float]
ASPECTS: Final[tuple[Aspect, ...]] = tuple(
    (workload_class, scale) for workload_class in WorkloadClass for scale in (STEADY_TREND_SCALE, BURST_TREND_SCALE)
)

#: Cores, GPUs and pressure: all that a score depends on beside the node.
_Question = tuple[float, float, float]
#: Questions that are remembered for each aspect.
_QUESTIONS: Final = 16
#: The slot that stands for every node that is not known.
_UNKNOWN: Final = 0
_ENCODER: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Answer:
    """Scores of the candidates, in the order of the question, and the reply that tells them."""

    names: Sequence[str]
    scores: Sequence[int]
    body: bytes

    def likely_node(self, uid: str) -> str | None:
        """Name the candidate that the pod will probably get: the best one, by the pod's uid where several are equal.

        kube-scheduler picks among equals by its own plugins and then at random, so this is a guess. The same question
        gets the same guess everywhere, and a burst's guesses are spread over the equals. None without a candidate.
        """
        best = max(self.scores, default=None)
        equals = [name for name, score in zip(self.names, self.scores, strict=True) if score == best]
        return equals[fnv1a_32(uid) % len(equals)] if equals else None


class ScoreTable:
    """The rows of all nodes in every aspect."""

    def __init__(self, score_max: int) -> None:
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        #: By slot: the node's entry in the reply, up to its score; and by score: the rest of it.
        self._openings: list[bytes] = [b""]
        self._closings = tuple(b"%d}," % score for score in range(score_max + 1))
        self._columns = {
            aspect: _Columns(score_max, competing=aspect[0] is WorkloadClass.STANDARD) for aspect in ASPECTS
        }

    def __len__(self) -> int:
        return len(self._slots)

    def put(self, name: str, rows: Mapping[Aspect, AffineRow]) -> None:
        """Enter a node or change its rows, given for every aspect."""
        slot = self._slots.get(name)
        if slot is None:
            slot = self._slots[name] = self._take_slot()
            self._openings[slot] = _opening(name)
        for aspect, columns in self._columns.items():
            columns.put(slot, rows[aspect])

    def drop(self, name: str) -> None:
        """Forget a node."""
        slot = self._slots.pop(name, None)
        if slot is not None:
            self._free.append(slot)

    def answer(self, names: Sequence[str], demand: PodDemand, terms: ClusterTerms) -> Answer:
        """Score the candidates for a pod."""
        openings: Iterable[bytes]
        try:
            slots = [*map(self._slots.__getitem__, names)]
            openings = map(self._openings.__getitem__, slots)
        except KeyError:
            slots = [self._slots.get(name, _UNKNOWN) for name in names]
            openings = [self._openings[slot] or _opening(name) for slot, name in zip(slots, names, strict=True)]
        scores = self._columns[demand.workload_class, terms.trend_scale].score(slots, demand, terms.perf_pressure)
        parts = [b""] * (2 * len(names))
        parts[0::2] = openings
        parts[1::2] = map(self._closings.__getitem__, scores)
        return Answer(names, scores, b"[" + b"".join(parts)[:-1] + b"]")

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._openings.append(b"")
        return len(self._openings) - 1


@dataclass(slots=True)
class _Kept:
    """Scores of one question by slot."""

    scores: list[int]
    #: Slots whose row has changed since.
    outdated: set[int] = field(default_factory=set)


class _Columns:
    """The rows of one aspect by slot, in points of SCORE_MAX, and the scores that they gave lately."""

    def __init__(self, score_max: int, *, competing: bool) -> None:
        self._score_max = score_max
        self._factor = score_max / MAX_SCORE
        self._competing = competing
        self._base, self._cpu, self._gpu, self._pressure = (array("d") for _ in range(4))
        #: The last questions, and once they were asked twice their scores.
        self._asked: OrderedDict[_Question, _Kept | None] = OrderedDict()
        self.put(_UNKNOWN, NEUTRAL_ROW)

    def put(self, slot: int, row: AffineRow) -> None:
        """Set the row of a slot, which may be one more than there are."""
        columns = (self._base, self._cpu, self._gpu, self._pressure)
        if slot == len(self._base):
            for column in columns:
                column.append(0.0)
        for column, points in zip(columns, row, strict=True):
            column[slot] = points * self._factor
        for kept in self._asked.values():
            if kept is not None:
                kept.outdated.add(slot)

    def score(self, slots: Sequence[int], demand: PodDemand, perf_pressure: float) -> list[int]:
        """Scores of some slots."""
        # Performance pods do not compete for performance nodes: the pressure must not make their questions differ.
        question = (demand.cpu_cores, demand.gpus, perf_pressure if self._competing else 0.0)
        if question not in self._asked:
            self._asked[question] = None
            if len(self._asked) > _QUESTIONS:
                self._asked.popitem(last=False)
            return self._compute(slots, question)
        self._asked.move_to_end(question)
        kept = self._asked[question]
        if kept is None:
            kept = self._asked[question] = _Kept(self._compute(range(len(self._base)), question))
        elif kept.outdated:
            self._follow(kept, question)
        return [*map(kept.scores.__getitem__, slots)]

    def _follow(self, kept: _Kept, question: _Question) -> None:
        kept.scores += [0] * (len(self._base) - len(kept.scores))
        slots = [*kept.outdated]
        for slot, score in zip(slots, self._compute(slots, question), strict=True):
            kept.scores[slot] = score
        kept.outdated.clear()

    def _compute(self, slots: Iterable[int], question: _Question) -> list[int]:
        base, cpu, gpu, weight, most = self._base, self._cpu, self._gpu, self._pressure, self._score_max
        cores, gpus, pressure = question
        # Thousands of turns a request, so nothing in it but a sum.
        return [
            0
            if (points := base[slot] - cpu[slot] * cores - gpu[slot] * gpus - weight[slot] * pressure) <= 0
            else int(points + 0.5)
            if points < most
            else most
            for slot in slots
        ]


def _opening(name: str) -> bytes:
    return b'{"Host":' + _ENCODER.encode(name) + b',"Score":'
