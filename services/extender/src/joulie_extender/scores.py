"""Scores of all nodes, and the reply that is made of them.

Guarantees whole numbers in 0..SCORE_MAX, rounded half away from zero, for any set of candidates in any order; a node
that is not known scores what the policy has for such nodes. Thousands of candidates come in another order every time,
so what is kept for a request key is each node's finished entry of the reply: one look-up for each candidate. Bursts
are made of equal pods, which have the same request key. Neither a row nor an entry is made before a request needs it:
most changes of a node concern no workload class, trend scale or pod that is requested before the next change.
Source: kube-scheduler's extender API v1, HostPriorityList; docs/results/cost-per-pod.md.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import filterfalse
from typing import Final

import msgspec

from joulie_core.demand import WorkloadClass
from joulie_core.fnv import fnv1a_32
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.rounding import round_half_away
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.policy import ScorePolicy
from joulie_core.scoring.prepared import AffineRow, PodSize
from joulie_core.scoring.registry import DEFAULT_SCORE
from joulie_core.scoring.state import BURST_TREND_SCALE, STEADY_TREND_SCALE, ClusterTerms

#: What a row holds for: a workload class and a trend scale.
ScoreProfile = tuple[WorkloadClass, float]
SCORE_PROFILES: Final[tuple[ScoreProfile, ...]] = tuple(
    (workload_class, scale) for workload_class in WorkloadClass for scale in (STEADY_TREND_SCALE, BURST_TREND_SCALE)
)

#: Returns a node's row in a profile, in points of 100.
RowMaker = Callable[[ScoreProfile], AffineRow]
#: All that a score depends on beside the node and the pressure.
_RequestKey = PodSize
#: A node's row in points of SCORE_MAX, and its entry in the reply from the host on.
_Row = tuple[float, float, float, float, bytes]
#: Request keys that are remembered for each profile: with 5,000 nodes up to a megabyte each.
_REQUEST_KEYS: Final = 8
#: Records of pressures that are kept for each entry, half of which may be of entries that are no more.
_RECORDS_A_NODE: Final = 4
#: Distance within which points are surely rounded to a score, a little less than half a point.
_SURE: Final = 0.499_999
_ENCODER: Final = msgspec.json.Encoder()
_HOST: Final = msgspec.json.Decoder(dict[str, str | int])


@dataclass(frozen=True, slots=True)
class ScoredNodes:
    """The candidates' entries in the order of the request, and the reply that consists of them."""

    entries: Sequence[bytes]
    body: bytes

    def likely_node(self, uid: str) -> str | None:
        """Name the candidate that the pod will probably get: the best one, by the pod's uid where several are equal.

        kube-scheduler picks among equals by its own plugins and then at random, so this is a guess. The same request
        gets the same guess everywhere, and a burst's guesses are spread over the equals. None without a candidate.
        """
        if not self.entries:
            return None
        # Entries open with scores of equal width, so that they compare as the scores do.
        best, comma, _ = max(self.entries).partition(b",")
        least = best + comma
        equals = [entry for entry in self.entries if entry >= least]
        entry = equals[fnv1a_32(uid) % len(equals)]
        return str(_HOST.decode(entry)["Host"])


class ScoreTable:
    """The rows of all nodes in every profile, each made when a request needs it first."""

    def __init__(self, score_max: int, policy: ScorePolicy = DEFAULT_SCORE) -> None:
        self._nodes: dict[str, _Node] = {}
        self._profiles = {
            profile: _ProfileTable(
                profile, self._nodes, score_max, policy, competing=profile[0] is WorkloadClass.STANDARD
            )
            for profile in SCORE_PROFILES
        }
        self._tables = tuple(self._profiles.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def put(self, name: str, row: RowMaker) -> None:
        """Enter a node; `row` returns its row in a profile as the node is when called."""
        self._nodes[name] = _Node(_host(name), row)
        self.forget(name)

    def forget(self, name: str) -> None:
        """Drop what was made of a node, since it has changed."""
        for table in self._tables:
            table.forget(name)

    def drop(self, name: str) -> None:
        """Remove a node."""
        if self._nodes.pop(name, None) is not None:
            self.forget(name)

    def answer(self, names: Sequence[str], demand: PodDemand, terms: ClusterTerms) -> ScoredNodes:
        """Score the candidates for a pod."""
        table = self._profiles[demand.workload_class, terms.trend_scale]
        entries = table.entries(names, demand, terms.perf_pressure)
        return ScoredNodes(entries, b"[" + b",".join(entries) + b"]")


@dataclass(slots=True)
class _Kept:
    """Entries for one request key, of nodes that did not change since they were made.

    Each pod in flight changes the pressure by a little, which changes the rounded scores of a few nodes only. So it is
    recorded up to which pressure, upwards and downwards, an entry has the right score. Records of entries that have
    been dropped since stay; they can only drop an entry that would still do.
    """

    pressure: float
    by_name: dict[str, bytes] = field(default_factory=dict)
    #: Heaps of the highest, and of the negative lowest, pressures of entries that depend on it.
    highest: list[tuple[float, str]] = field(default_factory=list)
    lowest: list[tuple[float, str]] = field(default_factory=list)

    def move(self, pressure: float) -> None:
        """Drop the entries that have another score under another pressure."""
        self._prune()
        if pressure == self.pressure:
            return
        heap, limit = (self.highest, pressure) if pressure > self.pressure else (self.lowest, -pressure)
        while heap and heap[0][0] < limit:
            self.by_name.pop(heappop(heap)[1], None)
        self.pressure = pressure

    def _prune(self) -> None:
        # Start anew where most records are of entries that have been dropped.
        if len(self.highest) + len(self.lowest) > _RECORDS_A_NODE * len(self.by_name) + _REQUEST_KEYS:
            for each in (self.by_name, self.highest, self.lowest):
                each.clear()


@dataclass(slots=True)
class _Node:
    #: Its entry in the reply from the host on.
    host: bytes
    row: RowMaker


class _ProfileTable:
    """The rows of one profile, and the entries that were made of them lately."""

    def __init__(
        self,
        profile: ScoreProfile,
        nodes: Mapping[str, _Node],
        score_max: int,
        policy: ScorePolicy,
        *,
        competing: bool,
    ) -> None:
        self._profile = profile
        self._policy = policy
        self._nodes = nodes
        self._factor = score_max / MAX_SCORE
        self._competing = competing
        width = len(str(score_max))
        #: By score: an entry of the reply up to the host.
        self._score_prefixes = tuple(b'{"Score":%*d,' % (width, score) for score in range(score_max + 1))
        #: Of nodes that did not change since their row was made.
        self._rows: dict[str, _Row] = {}
        self._kept: OrderedDict[_RequestKey, _Kept] = OrderedDict()

    def forget(self, name: str) -> None:
        """Drop what was made of a node."""
        if self._rows.pop(name, None) is not None:
            for kept in self._kept.values():
                kept.by_name.pop(name, None)

    def entries(self, names: Sequence[str], demand: PodDemand, perf_pressure: float) -> list[bytes]:
        """Entries of the candidates."""
        size = self._policy.size(demand)
        kept = self._kept_for(size)
        if self._competing:
            kept.move(perf_pressure)
        by_name = kept.by_name
        missing = [*filterfalse(by_name.__contains__, names)]
        if missing:
            self._make(kept, size, missing)
        try:
            return [*map(by_name.__getitem__, names)]
        except KeyError:
            return [by_name[name] if name in by_name else self._neutral_entry(name) for name in names]

    def _kept_for(self, key: _RequestKey) -> _Kept:
        kept = self._kept.get(key)
        if kept is None:
            # Performance pods do not compete for performance nodes: to them the pressure is always 0.
            kept = self._kept[key] = _Kept(0.0)
            if len(self._kept) > _REQUEST_KEYS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return kept

    def _make(self, kept: _Kept, size: PodSize, names: Iterable[str]) -> None:
        """Make the entries of the nodes that are known."""
        rows = self._rows
        by_name, highest, lowest, pressure = kept.by_name, kept.highest, kept.lowest, kept.pressure
        score_prefixes = self._score_prefixes
        most = len(score_prefixes) - 1
        cpu_size, gpu_size = size
        for name in names:
            if name not in self._nodes:
                continue
            base, cpu, gpu, weight, host = rows[name] if name in rows else self._row(name)
            points = base - cpu * cpu_size - gpu * gpu_size - weight * pressure
            score = 0 if points <= 0 else int(points + 0.5) if points < most else most
            by_name[name] = score_prefixes[score] + host
            if weight > 0:
                if score > 0:
                    heappush(highest, (pressure + (points - score + _SURE) / weight, name))
                if score < most:
                    heappush(lowest, ((score - points + _SURE) / weight - pressure, name))
            elif weight < 0:
                heappush(highest, (pressure, name))
                heappush(lowest, (-pressure, name))

    def _row(self, name: str) -> _Row:
        node = self._nodes[name]
        base, cpu, gpu, weight = node.row(self._profile)
        factor = self._factor
        row = self._rows[name] = (base * factor, cpu * factor, gpu * factor, weight * factor, node.host)
        return row

    def _neutral_entry(self, name: str) -> bytes:
        # Not kept: no event would ever remove an unknown node.
        neutral = round_half_away(self._policy.unknown_row.base / MAX_SCORE * (len(self._score_prefixes) - 1))
        return self._score_prefixes[neutral] + _host(name)


def _host(name: str) -> bytes:
    return b'"Host":' + _ENCODER.encode(name) + b"}"
