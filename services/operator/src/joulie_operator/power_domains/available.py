"""Power that domains can still supply, as NodeTwins have it.

Guarantees that a figure is never above what was decided last by more than its step, and that a figure that moves to
and fro makes few writes: it is lowered when it falls by more than a step, and raised at most once in `RAISE_S`. A step
is a share of the node's highest power, which pods are compared with, or of the figure where that is more. A new figure
is one write for each node below the domain.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import floor
from typing import Final

from joulie_core.budget import DomainChain, unknown_chain
from joulie_core.kinds.node_twin import DomainSupply
from joulie_core.names import NodeName
from joulie_core.units import MW_PER_WATT

#: Between a change of a figure and the next raise of it.
RAISE_S: Final = 120.0
#: Step of a figure: of the lowest highest power of the domain's nodes, and of the figure.
_OF_NODE: Final = 0.01
_OF_FIGURE: Final = 0.05

Supplies = tuple[DomainSupply, ...]


@dataclass(slots=True)
class _Figure:
    watts: int | None
    changed_s: float


class AvailableWatts:
    """The figures of all nodes below enforced domains, shared with the twins; `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._chains: Mapping[NodeName, DomainChain] = {}
        self._supplies: dict[NodeName, Supplies] = {}
        #: By the domain that selects nodes, and the one that supplies.
        self._figures: dict[tuple[str, str], _Figure] = {}

    def of(self, name: NodeName) -> Supplies | None:
        """Return the domains above a node with what they can supply; None where none is enforced."""
        return self._supplies.get(name)

    def update(
        self,
        chains: Mapping[NodeName, DomainChain],
        highest_mw: Mapping[NodeName, int | None],
        kept: AbstractSet[NodeName] | None,
    ) -> None:
        """Take what was decided.

        Args:
            chains: of all nodes below enforced domains; equal ones are one object.
            highest_mw: power of nodes; None: not known.
            kept: other nodes that belong to an enforced tree: what was supplied to them is not known any more. None:
                which ones those are is not known either.
        """
        gone = self._chains.keys() - chains.keys()
        lost = gone if kept is None else gone & kept
        self._chains = {**chains, **_unknown({name: self._chains[name] for name in lost})}
        self._publish(highest_mw)

    def lose(self) -> None:
        """Note that nothing is known any more."""
        self._chains = _unknown(self._chains)
        self._publish({})

    def _publish(self, highest_mw: Mapping[NodeName, int | None]) -> None:
        groups = _groups(self._chains)
        keys = {(chain[0].domain, each.domain) for chain, _ in groups for each in chain}
        self._figures = {key: each for key, each in self._figures.items() if key in keys}
        self._supplies = {}
        for chain, names in groups:
            highest = min((each for name in names if (each := highest_mw.get(name))), default=0)
            supplies = self._supplies_of(chain, highest / MW_PER_WATT)
            self._supplies |= dict.fromkeys(names, supplies)

    def _supplies_of(self, chain: DomainChain, highest_watts: float) -> Supplies:
        supplies = []
        for each in chain:
            watts = None if each.available_mw is None else max(0, floor(each.available_mw / MW_PER_WATT))
            shown = self._figure((chain[0].domain, each.domain), watts, highest_watts * _OF_NODE)
            supplies.append(DomainSupply(domain=each.domain, available_watts=shown))
        return tuple(supplies)

    def _figure(self, key: tuple[str, str], watts: int | None, node_step: float) -> int | None:
        """Return the figure that is published from now on."""
        now_s, figure = self._clock(), self._figures.get(key)
        if figure is None:
            figure = self._figures[key] = _Figure(watts, now_s)
        elif figure.watts is None or watts is None:
            if figure.watts is not watts:
                figure.watts, figure.changed_s = watts, now_s
        else:
            step = max(node_step, _OF_FIGURE * figure.watts)
            falls = watts < figure.watts - step
            rises = watts > figure.watts + step and now_s >= figure.changed_s + RAISE_S
            if falls or rises:
                figure.watts, figure.changed_s = watts, now_s
        return figure.watts


def _groups(chains: Mapping[NodeName, DomainChain]) -> Iterable[tuple[DomainChain, list[NodeName]]]:
    """Return the nodes by the object that is their chain: thousands share each, and hashing one takes its time."""
    groups: dict[int, tuple[DomainChain, list[NodeName]]] = {}
    for name, chain in chains.items():
        groups.setdefault(id(chain), (chain, []))[1].append(name)
    return groups.values()


def _unknown(chains: Mapping[NodeName, DomainChain]) -> dict[NodeName, DomainChain]:
    return {name: unknown for chain, names in _groups(chains) for unknown in [unknown_chain(chain)] for name in names}
