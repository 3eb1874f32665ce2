"""Accounts of energy by class of node and of completed work by class of pod. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import DRAINING, POWER_PROFILE


def supply_of(labels: Mapping[str, str]) -> SchedulableClass:
    """Return the class of a node with these labels; a draining node runs at full power, whatever its plan."""
    if labels.get(DRAINING) == "true":
        return SchedulableClass.DRAINING
    try:
        return SchedulableClass(labels.get(POWER_PROFILE, ""))
    except ValueError:
        return SchedulableClass.UNKNOWN


@dataclass(slots=True)
class EnergyLedger:
    """Joules by the supply class that a node had while it drew them.

    `move` is to be called when a node's class changes, `settle` before reading, both with the joules the node has
    drawn since it appeared.
    """

    joules: dict[SchedulableClass, float] = field(default_factory=lambda: dict.fromkeys(SchedulableClass, 0.0))
    _booked: dict[str, float] = field(default_factory=dict)
    _supplies: dict[str, SchedulableClass] = field(default_factory=dict)

    def move(self, node: str, supply: SchedulableClass, drawn_joules: float) -> None:
        """From here on book a node's joules to this class."""
        self.settle(node, drawn_joules)
        self._supplies[node] = supply

    def settle(self, node: str, drawn_joules: float) -> None:
        """Book what a node has drawn since the last call."""
        self.joules[self.supply(node)] += drawn_joules - self._booked.get(node, 0.0)
        self._booked[node] = drawn_joules

    def close(self, node: str, drawn_joules: float) -> None:
        """Book what a vanished node has drawn and forget it."""
        self.settle(node, drawn_joules)
        self._booked.pop(node, None)
        self._supplies.pop(node, None)

    def supply(self, node: str) -> SchedulableClass:
        """Return the current class of a node."""
        return self._supplies.get(node, SchedulableClass.UNKNOWN)


@dataclass(slots=True)
class WorkLedger:
    """Completed jobs of one workload class."""

    jobs: int = 0
    work_s: float = 0.0
    slowdown_sum: float = 0.0

    def add(self, *, work_s: float, slowdown: float) -> None:
        """Book one completed job."""
        self.jobs += 1
        self.work_s += work_s
        self.slowdown_sum += slowdown

    @property
    def mean_slowdown(self) -> float | None:
        """Mean of time taken over time needed; None before the first job."""
        return self.slowdown_sum / self.jobs if self.jobs else None
