"""What a facility draws for the watts of its nodes."""

from dataclasses import dataclass, field
from math import cos, fsum, pi
from typing import Final, Protocol

import numpy as np

from joulie_core.twin import LinearPue
from joulie_core.twin.economizer import AirsideEconomizer
from joulie_core.twin.pue import FacilityConditions
from joulie_core.twin.stress import ambient_factor
from joulie_sim.engine.arrays import Floats

_DAY_S: Final = 86_400.0
_WARMEST_AT_S: Final = 15 * 3_600.0


class FacilityModel(Protocol):
    """Power of the facility."""

    def watts(self, node_watts: Floats, tdp_watts: Floats, time_s: float) -> float:
        """Return the facility's watts for the nodes' mean watts in the minute that ends at `time_s`."""


@dataclass(frozen=True, slots=True)
class LinearFacility:
    """The twin's model: each node's PUE rises linearly with its cooling stress, at a constant ambient temperature."""

    pue: LinearPue = field(default_factory=LinearPue)
    ambient_c: float | None = None

    def watts(self, node_watts: Floats, tdp_watts: Floats, time_s: float) -> float:  # noqa: ARG002
        """Return the sum of each node's watts times its PUE."""
        stress = np.clip(node_watts / tdp_watts * 100.0 * ambient_factor(self.ambient_c), 0.0, 100.0)
        return fsum(node_watts * (self.pue.base + self.pue.at_full_stress * stress / 100.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EconomizerFacility:
    """An airside economizer, under an outdoor temperature with a daily cycle that is highest at 15:00."""

    #: IT power that the cooling was built for.
    built_for_watts: float
    mean_c: float = 18.0
    swing_c: float = 6.0
    economizer: AirsideEconomizer = field(default_factory=AirsideEconomizer)

    def outdoor_c(self, time_s: float) -> float:
        """Return the outdoor temperature; simulations start at midnight."""
        return self.mean_c + self.swing_c * cos(2 * pi * (time_s - _WARMEST_AT_S) / _DAY_S)

    def watts(self, node_watts: Floats, tdp_watts: Floats, time_s: float) -> float:  # noqa: ARG002
        """Return the nodes' watts times the PUE of the facility."""
        it_watts = fsum(node_watts)
        conditions = FacilityConditions(outdoor_c=self.outdoor_c(time_s), load_share=it_watts / self.built_for_watts)
        pue = self.economizer.estimate(conditions)
        # Without any power there is nothing to cool.
        return it_watts * pue if pue is not None else 0.0
