"""Power usage effectiveness: what the facility draws for each watt of computing.

`PueModel` is the interface; `LinearPue` is what is used without facility metrics, `MeasuredPue` with them;
`joulie_core.twin.economizer` has a facility that cools with outdoor air where it can. Source:
docs/decisions/0013-conventions.md, docs/models.md.
"""

from dataclasses import dataclass
from typing import Final, Protocol

#: Facilities range from 1.05 to 2; a room that is nearly idle has more, since cooling follows the load only in part.
#: A figure above this is two meters that do not belong together, or one in another unit.
HIGHEST_PLAUSIBLE: Final = 5.0


@dataclass(frozen=True, slots=True)
class FacilityConditions:
    """Conditions that a PUE may depend on; None where one is unknown."""

    #: Of the node, 0 to 100: see `joulie_core.twin.stress`.
    cooling_stress: float | None = None
    outdoor_c: float | None = None
    #: IT power over the IT power that the cooling was built for.
    load_share: float | None = None


class PueModel(Protocol):
    """Estimates the PUE that a node's watts are subject to."""

    def estimate(self, conditions: FacilityConditions) -> float | None:
        """Return the PUE, at least 1, or None where what it depends on is unknown."""


@dataclass(frozen=True, slots=True)
class LinearPue:
    """PUE grows linearly with the node's cooling stress."""

    base: float = 1.05
    at_full_stress: float = 0.35

    def estimate(self, conditions: FacilityConditions) -> float | None:
        """Return base + at_full_stress * stress/100."""
        stress = conditions.cooling_stress
        return None if stress is None else self.base + self.at_full_stress * stress / 100


@dataclass(frozen=True, slots=True)
class MeasuredPue:
    """The facility's own figures, the same for every node; None while they are unknown."""

    it_watts: float | None
    cooling_watts: float | None

    @property
    def plausible(self) -> bool:
        """Whether the figures, as far as they are known, make a PUE from 1 to `HIGHEST_PLAUSIBLE`."""
        return self.it_watts is None or self.cooling_watts is None or self._value() is not None

    def estimate(self, conditions: FacilityConditions) -> float | None:  # noqa: ARG002
        """Return (IT + cooling) / IT; None where that is no PUE that a facility can have."""
        return self._value()

    def _value(self) -> float | None:
        if self.it_watts is None or self.cooling_watts is None or not self.it_watts > 0:
            return None
        pue = 1 + self.cooling_watts / self.it_watts
        return pue if 1 <= pue <= HIGHEST_PLAUSIBLE else None
