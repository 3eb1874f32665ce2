"""Scores of all nodes for one kind of pods, each ready as its part of the reply.

Promises whole numbers in 0..SCORE_MAX, rounded half away from zero, for any set of candidates in any order; a node that
is not known scores neutrally. Scores of a demand that was asked for before are kept and only computed again for the
nodes that changed since, as bursts are made of equal pods; a demand that comes once costs one sum a node.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from joulie_core.demand import WorkloadClass
from joulie_core.fnv import fnv1a_32
from joulie_core.powerest.demand import PodDemand
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.prepared import NEUTRAL_ROW, AffineRow

#: A node's entry in the reply, with the comma behind it, and the score in it.
Scored = tuple[bytes, int]

#: The opening of the node's entry in the reply, then its AffineRow in points of SCORE_MAX.
_Row = tuple[bytes, float, float, float, float]
#: Cores, GPUs and pressure: all that a score depends on beside the node.
_Question = tuple[float, float, float]

#: Questions that are remembered; the scores of one take about a megabyte at 5,000 nodes.
_QUESTIONS: Final = 8
_ENCODER: Final = msgspec.json.Encoder()


class ScoreBoard:
    """Rows of all nodes for pods of one workload class at one trend scale, and the scores that they gave lately."""

    def __init__(self, workload_class: WorkloadClass, score_max: int) -> None:
        self._competing = workload_class is WorkloadClass.STANDARD
        self._factor = score_max / MAX_SCORE
        self._score_max = score_max
        self._rows = _Rows(self._make_row("", NEUTRAL_ROW)[1:])
        #: The last questions, and once they were asked twice their scores.
        self._asked: OrderedDict[_Question, _Scores | None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, name: str, row: AffineRow) -> None:
        """Enter a node or change its row."""
        self._rows[name] = self._make_row(name, row)
        self._outdate(name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        self._rows.pop(name, None)
        self._outdate(name)

    def score(self, names: Iterable[str], demand: PodDemand, perf_pressure: float) -> list[Scored]:
        """Score the candidates for a pod."""
        # Performance pods do not compete for performance nodes: the pressure must not make their questions differ.
        question = (demand.cpu_cores, demand.gpus, perf_pressure if self._competing else 0.0)
        scores = self._asked.get(question)
        if scores is not None:
            self._asked.move_to_end(question)
            return list(map(scores.__getitem__, names))
        known = question in self._asked
        self._asked[question] = scores = _Scores(self._rows, question, self._score_max) if known else None
        self._asked.move_to_end(question)
        if len(self._asked) > _QUESTIONS:
            self._asked.popitem(last=False)
        if scores is not None:
            return list(map(scores.__getitem__, names))
        return _score_once(map(self._rows.__getitem__, names), question, self._score_max)

    def _outdate(self, name: str) -> None:
        for scores in self._asked.values():
            if scores is not None:
                scores.pop(name, None)

    def _make_row(self, name: str, row: AffineRow) -> _Row:
        factor = self._factor
        base, cpu_points, gpu_points, pressure_weight = row
        return opening(name), base * factor, cpu_points * factor, gpu_points * factor, pressure_weight * factor


class _Rows(dict[str, _Row]):
    """Rows by node name; a name that is not there has the neutral row, which is not kept."""

    def __init__(self, neutral: tuple[float, float, float, float]) -> None:
        super().__init__()
        self._neutral = neutral

    def __missing__(self, name: str) -> _Row:
        return (opening(name), *self._neutral)


class _Scores(dict[str, Scored]):
    """Scores of one question by node name, computed when they are asked for; those of unknown nodes are not kept."""

    def __init__(self, rows: _Rows, question: _Question, score_max: int) -> None:
        super().__init__()
        self._rows = rows
        self._question = question
        self._score_max = score_max

    def __missing__(self, name: str) -> Scored:
        (scored,) = _score_once((self._rows[name],), self._question, self._score_max)
        if name in self._rows:
            self[name] = scored
        return scored


def _score_once(rows: Iterable[_Row], question: _Question, score_max: int) -> list[Scored]:
    cpu, gpus, pressure = question
    closings = _closings(score_max)
    scored: list[Scored] = []
    add = scored.append
    # Thousands of turns a request, so nothing in it but a sum and a look-up.
    for head, base, cpu_points, gpu_points, pressure_weight in rows:
        points = base - cpu_points * cpu - gpu_points * gpus - pressure_weight * pressure
        score = 0 if points <= 0 else int(points + 0.5) if points < score_max else score_max
        add((head + closings[score], score))
    return scored


def likely_node(names: Sequence[str], scored: Sequence[Scored], uid: str) -> str | None:
    """Name the candidate that the pod will probably get: the best one, by the pod's uid where several are equal.

    kube-scheduler picks among equals by its own plugins and then at random, so this is a guess. The same question gets
    the same guess everywhere, and a burst's guesses are spread over the equals. None where there is no candidate.
    """
    best = max((score for _, score in scored), default=None)
    equals = [index for index, (_, score) in enumerate(scored) if score == best]
    return names[equals[fnv1a_32(uid) % len(equals)]] if equals else None


@lru_cache(maxsize=16_384)
def opening(name: str) -> bytes:
    """The beginning of a node's entry in the reply, up to its score."""
    return b'{"Host":' + _ENCODER.encode(name) + b',"Score":'


@lru_cache(maxsize=1)
def _closings(score_max: int) -> tuple[bytes, ...]:
    return tuple(b"%d}," % score for score in range(score_max + 1))
