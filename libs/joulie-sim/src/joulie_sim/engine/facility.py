"""What a facility draws for the watts of its nodes."""

from dataclasses import dataclass, field
from math import fsum

import numpy as np

from joulie_core.twin import LinearPue
from joulie_core.twin.stress import ambient_factor
from joulie_sim.engine.arrays import Floats


@dataclass(frozen=True, slots=True)
class LinearFacility:
    """The twin's model: each node's PUE rises linearly with its cooling stress, at a constant ambient temperature."""

    pue: LinearPue = field(default_factory=LinearPue)
    ambient_c: float | None = None

    def watts(self, node_watts: Floats, tdp_watts: Floats) -> float:
        """Return the sum of each node's mean watts times its PUE."""
        stress = np.clip(node_watts / tdp_watts * 100.0 * ambient_factor(self.ambient_c), 0.0, 100.0)
        return fsum(node_watts * (self.pue.base + self.pue.at_full_stress * stress / 100.0))
