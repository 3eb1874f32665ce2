"""What power domains can still supply to pods, by node, with the pods in flight on all nodes below each of them.

Guarantees that a pod in flight is taken off every domain above its node, for all nodes below that domain: a burst of
pods counts once in each domain. Costs nothing for nodes that no enforced domain is above.
"""

from collections.abc import Iterator
from math import ceil
from typing import Final, NamedTuple

from joulie_core.names import NodeName
from joulie_core.scoring.filter import FilterResult
from joulie_core.scoring.state import Supply
from joulie_core.scoring.supply import short_supply

_MW_PER_WATT: Final = 1000


class _NodeSupply(NamedTuple):
    supplies: tuple[Supply, ...]
    #: Of pods in flight, in whole milliwatts: sums come back to zero.
    in_flight_mw: int
    #: False where the figures are too old.
    known: bool


class DomainSupplies:
    """The nodes below enforced domains; only the table changes it."""

    def __init__(self) -> None:
        self._nodes: dict[str, _NodeSupply] = {}
        self._in_flight_mw: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def put(self, name: NodeName, supplies: tuple[Supply, ...], in_flight_watts: float, *, known: bool = True) -> None:
        """Replace what is known of a node; without domains above it there is nothing."""
        old = self._nodes.get(name)
        if old is None and not supplies:
            return
        if old is not None:
            self._shift(old, -1)
        if not supplies:
            del self._nodes[name]
            return
        new = self._nodes[name] = _NodeSupply(supplies, ceil(in_flight_watts * _MW_PER_WATT), known)
        self._shift(new, 1)

    def judge(self, name: NodeName, watts: float) -> FilterResult | None:
        """Return why a performance pod of these watts is refused on a node that is here; None where it is not."""
        node = self._nodes[name]
        if not node.known:
            return None
        return short_supply(node.supplies, self.in_flight_watts(node.supplies), watts)

    def in_flight_watts(self, supplies: tuple[Supply, ...]) -> dict[str, float]:
        """Return the watts of pods in flight below each of these domains."""
        return {domain: self._in_flight_mw.get(domain, 0) / _MW_PER_WATT for domain, _ in supplies}

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
