"""What kube-scheduler is answered, as bytes.

Promises answers in the order and from the set of the question, scores that are whole numbers in 0..SCORE_MAX rounded
half away from zero, and full nodes byte for byte as they came. Everything about a node that does not depend on the pod
is prepared in its row.
Source: kube-scheduler's extender API v1, HostPriorityList and ExtenderFilterResult; contracts, decision 10.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from joulie_core.powerest.demand import PodDemand
from joulie_core.scoring.filter import Verdict
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.prepared import NEUTRAL_ROW, AffineRow

#: The opening of the node's entry in the reply, then its AffineRow in points of SCORE_MAX.
Row = tuple[bytes, float, float, float, float]

_ENCODER: Final = msgspec.json.Encoder()
#: Full nodes written at once: about a megabyte.
_OBJECTS_A_PART: Final = 128


class _Answer(msgspec.Struct, rename="pascal"):
    """ExtenderFilterResult without its Nodes, which are put before it.

    What is refused is in both maps: kube-scheduler lets the second overrule the first, people look at the first.
    """

    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


def make_row(name: str, row: AffineRow, score_max: int) -> Row:
    """Prepare what a reply needs of a node."""
    factor = score_max / MAX_SCORE
    opening = b'{"Host":' + _ENCODER.encode(name) + b',"Score":'
    return opening, row.base * factor, row.cpu_points * factor, row.gpu_points * factor, row.pressure_weight * factor


class Rows(dict[str, Row]):
    """Rows by node name; a name that is not there has the neutral row, which is not kept."""

    def __init__(self, score_max: int) -> None:
        super().__init__()
        self.score_max = score_max

    def __missing__(self, name: str) -> Row:
        return make_row(name, NEUTRAL_ROW, self.score_max)


def scores_reply(names: Iterable[str], rows: Rows, *, demand: PodDemand, perf_pressure: float) -> bytes:
    """Score the candidates: a HostPriorityList."""
    cpu, gpus, score_max = demand.cpu_cores, demand.gpus, rows.score_max
    closings = _closings(score_max)
    parts: list[bytes] = []
    add = parts.append
    # The service's hot path: thousands of turns a request, so nothing in it but a sum and two look-ups.
    for opening, base, cpu_points, gpu_points, pressure_weight in map(rows.__getitem__, names):
        add(opening)
        points = base - cpu_points * cpu - gpu_points * gpus - pressure_weight * perf_pressure
        if points <= 0:
            add(closings[0])
        elif points < score_max:
            add(closings[int(points + 0.5)])
        else:
            add(closings[score_max])
    return b"[" + b"".join(parts)[:-1] + b"]"


def names_reply(names: list[str], refusals: Mapping[str, Verdict]) -> bytes:
    """Answer a question asked with names: those that are not refused, and why the others are."""
    failed = {name: refusals[name].message for name in names if name in refusals}
    passed = [name for name in names if name not in failed] if failed else names
    return b'{"Nodes":null,' + _ENCODER.encode(_Answer(passed, failed, failed))[1:]


def objects_reply(passed: Sequence[msgspec.Raw], refusals: Mapping[str, Verdict]) -> Iterator[bytes]:
    """Answer a question asked with full objects, in parts of about a megabyte that make up the reply together."""
    failed = {name: judged.message for name, judged in refusals.items()}
    yield b'{"Nodes":{"metadata":{},"items":['
    for first in range(0, len(passed), _OBJECTS_A_PART):
        yield (b"," if first else b"") + b",".join(passed[first : first + _OBJECTS_A_PART])
    yield b"]}," + _ENCODER.encode(_Answer(None, failed, failed))[1:]


@lru_cache(maxsize=1)
def _closings(score_max: int) -> tuple[bytes, ...]:
    return tuple(b"%d}," % score for score in range(score_max + 1))
