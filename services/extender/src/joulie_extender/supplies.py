"""Power that domains can still supply to pods, by node, with the pods in flight on all nodes below each of them.

Guarantees that a pod in flight is taken off every domain above its node, for all nodes below that domain: a burst of
pods counts once in each domain. Costs nothing for nodes that no enforced domain is above.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, NamedTuple

from joulie_core.names import NodeName
from joulie_core.scoring.filter import FilterResult
from joulie_core.scoring.state import SupplyFigure
from joulie_core.scoring.supply import short_supply
from joulie_core.units import MW_PER_WATT, milliwatts_up

#: Share of a difference that is left to the exact comparison: products of floats are not exact.
_MARGIN: Final = 1e-6


class _NodeSupply(NamedTuple):
    supplies: tuple[SupplyFigure, ...]
    #: Of pods in flight, in whole milliwatts: sums come back to zero.
    in_flight_mw: int
    #: False where the figures are too old.
    known: bool
    #: Of one CPU and of one GPU of a performance pod.
    unit_watts: tuple[float, float]


class DomainSupplies:
    """The nodes below enforced domains; only the table changes it."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeSupply] = {}
        self._in_flight_mw: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def put(
        self,
        name: NodeName,
        supplies: tuple[SupplyFigure, ...],
        in_flight_watts: float,
        unit_watts: tuple[float, float],
        *,
        known: bool,
    ) -> None:
        """Replace what is known of a node, see `_NodeSupply`."""
        old = self._nodes.get(name)
        if old is not None:
            self._shift(old, -1)
        new = self._nodes[name] = _NodeSupply(supplies, milliwatts_up(in_flight_watts), known, unit_watts)
        self._shift(new, 1)

    def drop(self, name: NodeName) -> None:
        """Forget a node that no enforced domain is above, if it is here."""
        old = self._nodes.pop(name, None)
        if old is not None:
            self._shift(old, -1)

    def doubtful(self, names: Sequence[str], cpu_cores: float, gpus: float) -> Iterator[str]:
        """Yield the candidates that `judge` may refuse to a performance pod; most are told apart without it."""
        nodes = self._nodes
        left: dict[int, float] = {}
        for name in names:
            node = nodes.get(name)
            if node is None or not node.known:
                continue
            key = id(node.supplies)
            least = left.get(key)
            if least is None:
                least = left[key] = self._least(node.supplies)
            per_cpu, per_gpu = node.unit_watts
            if (per_cpu * cpu_cores + per_gpu * gpus) * (1.0 + _MARGIN) >= least:
                yield name

    def judge(self, name: NodeName, watts: float) -> FilterResult | None:
        """Return why a performance pod of these watts is refused on a node that is here; None where it is not."""
        node = self._nodes[name]
        if not node.known:
            return None
        return short_supply(node.supplies, self.in_flight_watts(node.supplies), watts)

    def in_flight_watts(self, supplies: tuple[SupplyFigure, ...]) -> dict[str, float]:
        """Return the watts of pods in flight below each of these domains."""
        return {domain: self._in_flight_mw.get(domain, 0) / MW_PER_WATT for domain, _ in supplies}

    def _least(self, supplies: tuple[SupplyFigure, ...]) -> float:
        in_flight = self.in_flight_watts(supplies)
        left = (watts - in_flight[domain] for domain, watts in supplies if watts is not None)
        return min(left, default=inf)

    def _shift(self, node: _NodeSupply, sign: int) -> None:
        for domain in _domains(node):
            left = self._in_flight_mw.get(domain, 0) + sign * node.in_flight_mw
            if left:
                self._in_flight_mw[domain] = left
            else:
                self._in_flight_mw.pop(domain, None)


def _domains(node: _NodeSupply) -> Iterator[str]:
    """Yield each domain once, however often an object names it."""
    return iter(dict.fromkeys(domain for domain, _ in node.supplies))
