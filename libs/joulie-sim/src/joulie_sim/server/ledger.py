"""Who the energy and the completed work are booked to: power profiles of nodes, workload classes of pods. Pure."""

from dataclasses import dataclass, field
from typing import Final

#: Profile of a node whose label says nothing, or nothing known.
NO_PROFILE: Final = "none"
PROFILES: Final = ("performance", "eco", NO_PROFILE)


@dataclass(slots=True)
class EnergyLedger:
    """Joules by the profile that a node had while it drew them.

    `move` is to be called when a node's profile changes, `settle` before reading, both with the joules the node has
    drawn since it appeared.
    """

    joules: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PROFILES, 0.0))
    _booked: dict[str, float] = field(default_factory=dict)
    _profiles: dict[str, str] = field(default_factory=dict)

    def move(self, node: str, profile: str, drawn_joules: float) -> None:
        """From here on book a node's joules to another profile."""
        self.settle(node, drawn_joules)
        self._profiles[node] = profile if profile in PROFILES else NO_PROFILE

    def settle(self, node: str, drawn_joules: float) -> None:
        """Book what a node has drawn since the last call."""
        profile = self._profiles.get(node, NO_PROFILE)
        self.joules[profile] += drawn_joules - self._booked.get(node, 0.0)
        self._booked[node] = drawn_joules

    def close(self, node: str, drawn_joules: float) -> None:
        """Book what a vanished node has drawn and forget it."""
        self.settle(node, drawn_joules)
        self._booked.pop(node, None)
        self._profiles.pop(node, None)

    def profile(self, node: str) -> str:
        """The profile a node is booked to now."""
        return self._profiles.get(node, NO_PROFILE)


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
