"""Scores of all nodes, and the reply that is made of them.

Guarantees whole numbers in 0..SCORE_MAX, rounded half away from zero, for any set of candidates in any order; a node
that is not known scores what the policy has for such nodes. Nodes of which all that a score takes is equal have one
row: a pod is scored once for each row, and thousands of candidates, which come in another order every time, take a few
look-ups each, whatever the pod. A row is not made before a request needs it: most changes of a node concern no
workload class or trend scale that is requested before the next change.
Source: kube-scheduler's extender API v1, HostPriorityList; docs/results/cost-per-pod.md.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from joulie_core.demand import WorkloadClass
from joulie_core.fnv import fnv1a_32
from joulie_core.powerest.pod_demand import PodDemand
from joulie_core.scoring.formula import MAX_SCORE
from joulie_core.scoring.policy import ScorePolicy
from joulie_core.scoring.prepared import AffineRow
from joulie_core.scoring.registry import DEFAULT_SCORE
from joulie_core.scoring.state import BURST_TREND_SCALE, STEADY_TREND_SCALE, ClusterTerms


class ScoreProfile(NamedTuple):
    """Pods and moments for which a row holds."""

    workload_class: WorkloadClass
    trend_scale: float
    #: Ninths of the pod's run time for which other pods of the node are stated to run, see `NodeSituation`.
    covered: int = 0


#: Of pods that do not state their run time.
SCORE_PROFILES: Final[tuple[ScoreProfile, ...]] = tuple(
    ScoreProfile(workload_class, scale)
    for workload_class in WorkloadClass
    for scale in (STEADY_TREND_SCALE, BURST_TREND_SCALE)
)

#: Returns a node's row in a profile, in points of 100.
RowMaker = Callable[[ScoreProfile], AffineRow]
#: All that a score depends on beside the row: size of the pod in CPUs and GPUs, and the pressure where it counts.
_RequestKey = tuple[float, float, float]
#: Request keys that are remembered for each profile: with 5,000 unlike nodes up to 80 KB each.
_REQUEST_KEYS: Final = 32
#: Rows that are kept for each node, of which all but one may be of no node any more.
_ROWS_A_NODE: Final = 2
#: Position of all nodes that are not known.
_UNKNOWN: Final = 0
_ENCODER: Final = msgspec.json.Encoder()
_NOTHING_COVERED: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScoredNodes:
    """The candidates in the order of the request, what their entries begin with, and the reply."""

    names: Sequence[str]
    prefixes: Sequence[bytes]
    body: bytes

    def likely_node(self, uid: str) -> str | None:
        """Name the candidate that the pod will probably get: the best one, by the pod's uid where several are equal.

        kube-scheduler picks among equals by its own plugins and then at random, so this is a guess. The same request
        gets the same guess everywhere, and a burst's guesses are spread over the equals. None without a candidate.
        """
        if not self.names:
            return None
        # Scores in prefixes are of equal width, so that prefixes compare as the scores do.
        best = max({*self.prefixes})
        equals = [name for name, prefix in zip(self.names, self.prefixes, strict=True) if prefix == best]
        return equals[fnv1a_32(uid) % len(equals)]


class ScoreTable:
    """The rows of all nodes in every profile, each made when a request needs it first."""

    def __init__(self, score_max: int, policy: ScorePolicy = DEFAULT_SCORE) -> None:
        #: Position of each node in all lists.
        self._positions: dict[str, int] = {}
        #: Positions of nodes that are gone.
        self._free: list[int] = []
        self._makers: list[RowMaker] = [lambda _profile: policy.unknown_row]
        #: Of each node, its entry in the reply from the host on.
        self._hosts: list[bytes] = [b""]
        width = len(str(score_max))
        #: By score: an entry of the reply up to the host.
        self._prefixes = tuple(b',{"Score":%*d,' % (width, score) for score in range(score_max + 1))
        self._policy = policy
        #: Those of covered run times are made when a pod needs them first.
        self._profiles: dict[ScoreProfile, _ProfileTable] = {}
        for profile in SCORE_PROFILES:
            self._table(profile)

    def __len__(self) -> int:
        return len(self._positions)

    def put(self, name: str, row: RowMaker) -> None:
        """Enter a node; `row` returns its row in a profile as the node is when called."""
        if name not in self._positions:
            if not self._free:
                self._free.append(len(self._hosts))
                self._hosts.append(b"")
                self._makers.append(row)
                for table in self._profiles.values():
                    table.grow()
            self._positions[name] = self._free.pop()
        position = self._positions[name]
        self._hosts[position], self._makers[position] = _host(name), row
        self.forget(name)

    def forget(self, name: str) -> None:
        """Drop what was made of a node, since it has changed."""
        position = self._positions[name]
        for table in self._profiles.values():
            table.forget(position)

    def drop(self, name: str) -> None:
        """Remove a node."""
        position = self._positions.pop(name, None)
        if position is not None:
            self._free.append(position)

    def answer(
        self,
        names: Sequence[str],
        demand: PodDemand,
        terms: ClusterTerms,
        covered: Mapping[str, int] = _NOTHING_COVERED,
    ) -> ScoredNodes:
        """Score the candidates for a pod; `covered`: ninths of its run time, of the nodes where it is above 0."""
        known, hosts = self._positions, self._hosts
        try:
            positions = [*map(known.__getitem__, names)]
            ends = [hosts[position] for position in positions]
        except KeyError:
            positions = [known.get(name, _UNKNOWN) for name in names]
            ends = [hosts[position] or _host(name) for name, position in zip(names, positions, strict=True)]
        profile = ScoreProfile(demand.workload_class, terms.trend_scale)
        if covered:
            ninths = [covered.get(name, 0) for name in names]
            prefixes = self._covered_prefixes(profile, positions, ninths, demand, terms.perf_pressure)
        else:
            prefixes = self._profiles[profile].prefixes(positions, demand, terms.perf_pressure)
        parts = [*prefixes, *ends]
        parts[::2], parts[1::2] = prefixes, ends
        return ScoredNodes(names, prefixes, b"[" + b"".join(parts)[1:] + b"]")

    def _covered_prefixes(
        self,
        profile: ScoreProfile,
        positions: Sequence[int],
        ninths: Sequence[int],
        demand: PodDemand,
        perf_pressure: float,
    ) -> list[bytes]:
        """Return what the entries of candidates begin with, each by the ninths that are covered on it."""
        places: dict[int, list[int]] = {}
        for place, covered in enumerate(ninths):
            places.setdefault(covered, []).append(place)
        prefixes = [b""] * len(positions)
        for covered, of_these in places.items():
            table = self._table(profile._replace(covered=covered))
            found = table.prefixes([positions[place] for place in of_these], demand, perf_pressure)
            for place, prefix in zip(of_these, found, strict=True):
                prefixes[place] = prefix
        return prefixes

    def _table(self, profile: ScoreProfile) -> "_ProfileTable":
        table = self._profiles.get(profile)
        if table is None:
            table = self._profiles[profile] = _ProfileTable(profile, self._makers, self._prefixes, self._policy)
        return table


class _ProfileTable:
    """The rows of one profile, and what entries begin with that were made of them lately."""

    def __init__(
        self, profile: ScoreProfile, makers: Sequence[RowMaker], prefixes: Sequence[bytes], policy: ScorePolicy
    ) -> None:
        self._profile = profile
        self._makers = makers
        self._prefixes = prefixes
        self._policy = policy
        self._factor = (len(prefixes) - 1) / MAX_SCORE
        #: By position: the number of the node's row; any number where none was made yet.
        self._numbers = [0] * len(makers)
        #: Positions of nodes that have changed since their row was made.
        self._changed = {*range(len(makers))}
        self._start_rows()

    def grow(self) -> None:
        """Add a position."""
        self._numbers.append(0)

    def forget(self, position: int) -> None:
        """Have the row of a node made anew before it is used again."""
        self._changed.add(position)

    def prefixes(self, positions: Sequence[int], demand: PodDemand, perf_pressure: float) -> list[bytes]:
        """Return what the entries of candidates begin with."""
        changed = self._changed.intersection(positions)
        if changed:
            self._make_rows(changed)
        # Performance pods do not compete for performance nodes: to them the pressure is always 0.
        pressure = perf_pressure if self._pressed and demand.workload_class is WorkloadClass.STANDARD else 0.0
        numbers, kept = self._numbers, self._scored((*self._policy.size(demand), pressure))
        return [kept[numbers[position]] for position in positions]

    def _start_rows(self) -> None:
        #: Unlike rows in points of SCORE_MAX by number, and the numbers.
        self._rows: list[AffineRow] = []
        self._number_of: dict[AffineRow, int] = {}
        #: Whether a row depends on the pressure.
        self._pressed = False
        #: By request key and row number: what an entry begins with.
        self._kept: OrderedDict[_RequestKey, list[bytes]] = OrderedDict()

    def _make_rows(self, positions: set[int]) -> None:
        if len(self._rows) > _ROWS_A_NODE * len(self._numbers):
            self._keep_rows_in_use()
        for position in positions:
            base, cpu, gpu, weight = self._makers[position](self._profile)
            factor = self._factor
            row = AffineRow(base * factor, cpu * factor, gpu * factor, weight * factor)
            self._numbers[position] = self._number(row)
        self._changed -= positions

    def _number(self, row: AffineRow) -> int:
        number = self._number_of.get(row)
        if number is None:
            number = self._number_of[row] = len(self._rows)
            self._rows.append(row)
            self._pressed |= row.pressure_weight != 0
        return number

    def _keep_rows_in_use(self) -> None:
        numbers, rows = self._numbers, self._rows
        self._start_rows()
        self._numbers = [self._number(rows[number]) for number in numbers]

    def _scored(self, key: _RequestKey) -> list[bytes]:
        """Return what entries begin with, for every row."""
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = []
            if len(self._kept) > _REQUEST_KEYS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        prefixes, most = self._prefixes, len(self._prefixes) - 1
        cpu_size, gpu_size, pressure = key
        for base, cpu, gpu, weight in self._rows[len(kept) :]:
            points = base - cpu * cpu_size - gpu * gpu_size - weight * pressure
            kept.append(prefixes[0 if points <= 0 else int(points + 0.5) if points < most else most])
        return kept


def _host(name: str) -> bytes:
    return b'"Host":' + _ENCODER.encode(name) + b"}"
