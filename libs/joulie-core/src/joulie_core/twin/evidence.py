"""Watts that a node counts with while nothing plausible measures it.

Guarantees that for the same pods only a plausible reading lowers the watts of a node: a reading that stops, that
measures nothing or that is too high to be true leaves the node no freer than it was. The model from pod requests cannot
promise that by itself, as it knows neither what pods draw beyond their requests nor undiscovered hardware. Source:
docs/decisions/0010-readings-and-demand.md.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """The highest figures of a node since its last plausible reading."""

    watts: float
    #: Modelled watts at that moment; None where the model had none.
    modelled_watts: float | None


def stand_in(evidence: Evidence | None, modelled_watts: float | None, floor_watts: float | None = None) -> float | None:
    """Return the watts to count in place of a plausible reading; None where nothing at all is known.

    Pods that have come since the evidence are added as far as the model knows them. Pods that have ended free nothing
    below the evidence: only a meter could show what they really drew.

    Args:
        evidence: the state before; None for a node that was never measured.
        modelled_watts: modelled watts now; None where the model has none.
        floor_watts: the limit that a reading exceeded that was too high; None where none was.

    """
    known = [watts for watts in (modelled_watts, floor_watts) if watts is not None]
    if evidence is not None:
        before_watts = evidence.modelled_watts
        added_watts = 0.0 if modelled_watts is None or before_watts is None else max(0.0, modelled_watts - before_watts)
        known.append(evidence.watts + added_watts)
    return max(known, default=None)
