"""Energy by namespace and workload in a bounded number of series."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from joulie_core.attribution.energy import EnergyKind, HolderEnergy


@dataclass(frozen=True, slots=True, order=True)
class PodOwner:
    """Namespace of a pod and the name of the workload that owns it."""

    namespace: str
    workload: str


#: What comes past the bound, and pods whose owner is unknown; no namespace of Kubernetes is empty.
OTHER: Final = PodOwner("", "other")


@dataclass(frozen=True, slots=True)
class EnergySum:
    """Energy of one series in joules, with the sums of the bounds."""

    joules: float = 0.0
    lower_joules: float = 0.0
    upper_joules: float = 0.0

    def and_sum(self, other: "EnergySum") -> "EnergySum":
        """Return both sums together."""
        return EnergySum(
            self.joules + other.joules,
            self.lower_joules + other.lower_joules,
            self.upper_joules + other.upper_joules,
        )

    def plus(self, energy: HolderEnergy) -> "EnergySum":
        """Return the sum with one more statement."""
        return self.and_sum(EnergySum(energy.joules, energy.lower_joules, energy.upper_joules))


def add_energy(
    sums: Mapping[tuple[PodOwner, EnergyKind], EnergySum],
    energies: Iterable[HolderEnergy],
    owners: Mapping[str, PodOwner],
    *,
    most_owners: int,
) -> dict[tuple[PodOwner, EnergyKind], EnergySum]:
    """Return the sums with the energy of more holders.

    Args:
        sums: what was added before; its series stay, so that none of them ever decreases.
        energies: of pods, by their name in `owners`.
        owners: by pod.
        most_owners: the most owners with series of their own, beside `OTHER`. New ones are taken by their energy.
    """
    result = dict(sums)
    admitted = {owner for owner, _ in result} - {OTHER}
    ordered = sorted(energies, key=lambda energy: (-energy.joules, energy.holder))
    for energy in ordered:
        owner = owners.get(energy.holder, OTHER)
        if owner not in admitted:
            if len(admitted) >= most_owners or owner == OTHER:
                owner = OTHER
            else:
                admitted.add(owner)
        key = (owner, energy.kind)
        result[key] = result.get(key, EnergySum()).plus(energy)
    return result
