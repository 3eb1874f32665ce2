"""What a node counts with while nothing plausible measures it.

Promises that for the same pods only a plausible reading lowers the watts of a node: a reading that stops, that measures
nothing or that is too high to be true leaves the node no freer than it was. The model from pod requests cannot promise
that by itself, as it knows neither what pods draw beyond their requests nor hardware that nobody discovered.
Source: contracts, decisions 9 and 12.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Evidence:
    """The highest that is known of a node since its last plausible reading."""

    watts: float
    #: What the model said at that moment; None where it said nothing.
    modelled_w: float | None


def stand_in(evidence: Evidence | None, modelled_w: float | None, floor_w: float | None = None) -> float | None:
    """Return the watts to count in place of a plausible reading; None where nothing at all is known.

    Pods that have come since the evidence are added as far as the model knows them. Pods that have ended free nothing
    below the evidence: what they really drew, only a meter could tell.

    Args:
        evidence: what was known before; None for a node that was never measured.
        modelled_w: what the model says now; None where it says nothing.
        floor_w: the limit that a reading exceeded that was too high; None where none was.

    """
    known = [watts for watts in (modelled_w, floor_w) if watts is not None]
    if evidence is not None:
        before_w = evidence.modelled_w
        added_w = 0.0 if modelled_w is None or before_w is None else max(0.0, modelled_w - before_w)
        known.append(evidence.watts + added_w)
    return max(known, default=None)
