"""Energy of one kind of device of a node since the agent's start, as its series show it.

Guarantees that pods, idle and unattributed together are what the counters have told, and that no series decreases.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from joulie_core.attribution.energy import EnergyKind, StatedEnergy
from joulie_core.attribution.sums import EnergySum, PodOwner, add_energy


class MeteredDevice(StrEnum):
    """Kind of device whose energy is stated; the label `device`."""

    CPU = "cpu"
    GPU = "gpu"


class EnergyPart(StrEnum):
    """Part of a node's counters."""

    PODS = "pods"
    IDLE = "idle"
    UNATTRIBUTED = "unattributed"


@dataclass(frozen=True, slots=True)
class EnergyTotals:
    """Sums in joules and seconds."""

    workloads: Mapping[tuple[PodOwner, EnergyKind], EnergySum] = field(default_factory=dict)
    idle_joules: float = 0.0
    unattributed_joules: float = 0.0
    #: Time whose energy a counter did not tell, added up over devices.
    unknown_seconds: float = 0.0

    def plus(self, stated: StatedEnergy, owners: Mapping[str, PodOwner], *, most_owners: int) -> "EnergyTotals":
        """Return the sums with those of one more interval; arguments as of `add_energy`."""
        return EnergyTotals(
            add_energy(self.workloads, stated.pods, owners, most_owners=most_owners),
            self.idle_joules + stated.idle_joules,
            self.unattributed_joules + stated.unattributed_joules,
            self.unknown_seconds + stated.unknown_seconds,
        )

    @property
    def parts(self) -> Mapping[EnergyPart, float]:
        """Joules by part."""
        return {
            EnergyPart.PODS: math.fsum(each.joules for each in self.workloads.values()),
            EnergyPart.IDLE: self.idle_joules,
            EnergyPart.UNATTRIBUTED: self.unattributed_joules,
        }
