"""The limit that binds, of those that a profile, a budget or an event sets on the same node or device.

Guarantees that the lowest wins, so that no source can undo another's, and that its name is kept for explanations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class LimitSource(StrEnum):
    """Origin of a limit; of equal ones the first here is named."""

    BUDGET = "budget"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """The limit in milliwatts that applies, and its origin."""

    limit_mw: int
    source: LimitSource


def binding_limit(limits_mw: Mapping[LimitSource, int | None]) -> BindingLimit | None:
    """Return the lowest of the limits of one node or device; None where no source sets one."""
    given = [BindingLimit(limit, source) for source in LimitSource if (limit := limits_mw.get(source)) is not None]
    return min(given, key=lambda each: each.limit_mw, default=None)
