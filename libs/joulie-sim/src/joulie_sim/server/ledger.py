"""Accounts of energy by schedulable class of nodes, and of completed work by workload class of pods. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import DRAINING, POWER_PROFILE


def class_of(labels: Mapping[str, str]) -> SchedulableClass:
    """Return the schedulable class of a node with these labels; a draining node still runs at full power."""
    if labels.get(DRAINING) == "true":
        return SchedulableClass.DRAINING
    try:
        return SchedulableClass(labels.get(POWER_PROFILE, ""))
    except ValueError:
        return SchedulableClass.UNKNOWN


@dataclass(slots=True)
class EnergyLedger:
    """Joules by the schedulable class that a node had while it drew them.

    Call `move` when a node's class changes and `settle` before reading, both with the joules that the node has drawn
    since it was added.
    """

    joules: dict[SchedulableClass, float] = field(default_factory=lambda: dict.fromkeys(SchedulableClass, 0.0))
    _booked: dict[str, float] = field(default_factory=dict)
    _classes: dict[str, SchedulableClass] = field(default_factory=dict)

    def move(self, node: str, node_class: SchedulableClass, drawn_joules: float) -> None:
        """Account a node's joules to this class from now on."""
        self.settle(node, drawn_joules)
        self._classes[node] = node_class

    def settle(self, node: str, drawn_joules: float) -> None:
        """Account what a node has drawn since the last call."""
        self.joules[self.class_of(node)] += drawn_joules - self._booked.get(node, 0.0)
        self._booked[node] = drawn_joules

    def close(self, node: str, drawn_joules: float) -> None:
        """Account what a removed node has drawn, and remove it."""
        self.settle(node, drawn_joules)
        self._booked.pop(node, None)
        self._classes.pop(node, None)

    def class_of(self, node: str) -> SchedulableClass:
        """Return the class that a node is accounted to."""
        return self._classes.get(node, SchedulableClass.UNKNOWN)


@dataclass(slots=True)
class WorkLedger:
    """Completed jobs of one workload class."""

    jobs: int = 0
    work_s: float = 0.0
    slowdown_sum: float = 0.0

    def add(self, *, work_s: float, slowdown: float) -> None:
        """Add one completed job."""
        self.jobs += 1
        self.work_s += work_s
        self.slowdown_sum += slowdown

    @property
    def mean_slowdown(self) -> float | None:
        """Mean of time taken over work; None before the first job."""
        return self.slowdown_sum / self.jobs if self.jobs else None
