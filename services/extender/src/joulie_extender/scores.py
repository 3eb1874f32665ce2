"""Scores of all nodes, and the reply that is made of them.

Guarantees whole numbers in 0..SCORE_MAX, rounded half away from zero, for any set of candidates in any order; a node
that is not known scores neutrally. Thousands of candidates come in another order every time, so what is kept for a
request key is each node's finished entry of the reply: one look-up for each candidate. Bursts are made of equal pods,
which have the same request key; an entry is made anew when its node has changed. Source: kube-scheduler's extender API
v1, HostPriorityList.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_core.demand import WorkloadClass
from joulie_core.fnv import fnv1a_32
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.rounding import round_half_away
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.prepared import NEUTRAL_ROW, AffineRow
from joulie_core.scoring.state import BURST_TREND_SCALE, STEADY_TREND_SCALE, ClusterTerms

#: What a row holds for: a workload class and a trend scale.
ScoreProfile = tuple[WorkloadClass, float]
SCORE_PROFILES: Final[tuple[ScoreProfile, ...]] = tuple(
    (workload_class, scale) for workload_class in WorkloadClass for scale in (STEADY_TREND_SCALE, BURST_TREND_SCALE)
)

#: Cores, GPUs and pressure: all that a score depends on beside the node.
_RequestKey = tuple[float, float, float]
#: A node's row in points of SCORE_MAX, and its entry in the reply from the host on.
_Row = tuple[float, float, float, float, bytes]
#: Request keys that are remembered for each profile: with 5,000 nodes up to a megabyte each.
_REQUEST_KEYS: Final = 8
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
    """The rows of all nodes in every profile."""

    def __init__(self, score_max: int) -> None:
        self._hosts: dict[str, bytes] = {}
        self._profiles = {
            profile: _ProfileTable(score_max, competing=profile[0] is WorkloadClass.STANDARD)
            for profile in SCORE_PROFILES
        }

    def __len__(self) -> int:
        return len(self._hosts)

    def put(self, name: str, rows: Mapping[ScoreProfile, AffineRow]) -> None:
        """Enter a node or change its rows, given for every profile."""
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _host(name)
        for profile, table in self._profiles.items():
            table.put(name, rows[profile], host)

    def drop(self, name: str) -> None:
        """Forget a node."""
        if self._hosts.pop(name, None) is not None:
            for table in self._profiles.values():
                table.drop(name)

    def answer(self, names: Sequence[str], demand: PodDemand, terms: ClusterTerms) -> ScoredNodes:
        """Score the candidates for a pod."""
        table = self._profiles[demand.workload_class, terms.trend_scale]
        entries = table.entries(names, demand, terms.perf_pressure)
        return ScoredNodes(entries, b"[" + b",".join(entries) + b"]")


class _ProfileTable:
    """The rows of one profile, and the entries that were made of them lately."""

    def __init__(self, score_max: int, *, competing: bool) -> None:
        self._factor = score_max / MAX_SCORE
        self._competing = competing
        width = len(str(score_max))
        #: By score: an entry of the reply up to the host.
        self._score_prefixes = tuple(b'{"Score":%*d,' % (width, score) for score in range(score_max + 1))
        self._rows: dict[str, _Row] = {}
        self._kept: OrderedDict[_RequestKey, _Entries] = OrderedDict()

    def put(self, name: str, row: AffineRow, host: bytes) -> None:
        """Enter a node or change its row."""
        base, cpu, gpu, weight = (points * self._factor for points in row)
        self._rows[name] = (base, cpu, gpu, weight, host)
        self._forget(name)

    def drop(self, name: str) -> None:
        """Forget a node."""
        del self._rows[name]
        self._forget(name)

    def entries(self, names: Sequence[str], demand: PodDemand, perf_pressure: float) -> list[bytes]:
        """Entries of the candidates."""
        # Performance pods do not compete for performance nodes: the pressure must not make their keys differ.
        key = (demand.cpu_cores, demand.gpus, perf_pressure if self._competing else 0.0)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Entries(self._rows, self._score_prefixes, key)
            if 2 * len(names) > len(self._rows):
                kept.make_all()
            if len(self._kept) > _REQUEST_KEYS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return [*map(kept.__getitem__, names)]

    def _forget(self, name: str) -> None:
        for kept in self._kept.values():
            kept.pop(name, None)


class _Entries(dict[str, bytes]):
    """Entries of the reply for one request key by node name; what is missing is made when it is looked up."""

    __slots__ = ("_key", "_rows", "_score_prefixes")

    def __init__(self, rows: Mapping[str, _Row], score_prefixes: Sequence[bytes], key: _RequestKey) -> None:
        super().__init__()
        self._rows = rows
        self._score_prefixes = score_prefixes
        self._key = key

    def __missing__(self, name: str) -> bytes:
        if name in self._rows:
            self.update(self._make({name: self._rows[name]}))
            return self[name]
        # Not kept: no event would ever remove an unknown node.
        neutral = round_half_away(NEUTRAL_ROW.base / MAX_SCORE * (len(self._score_prefixes) - 1))
        return self._score_prefixes[neutral] + _host(name)

    def make_all(self) -> None:
        """Make the entries of all nodes: in one go this takes a fraction of the time."""
        self.update(self._make(self._rows))

    def _make(self, rows: Mapping[str, _Row]) -> dict[str, bytes]:
        score_prefixes = self._score_prefixes
        most = len(score_prefixes) - 1
        cores, gpus, pressure = self._key
        # Thousands of turns a request, so nothing in it but a sum.
        return {
            name: score_prefixes[
                0
                if (points := base - cpu * cores - gpu * gpus - weight * pressure) <= 0
                else int(points + 0.5)
                if points < most
                else most
            ]
            + host
            for name, (base, cpu, gpu, weight, host) in rows.items()
        }


def _host(name: str) -> bytes:
    return b'"Host":' + _ENCODER.encode(name) + b"}"
