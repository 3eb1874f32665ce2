"""The breakers of a tree, as warm as they may be by what they were counted to carry.

Guarantees that a breaker of which nothing is known is about to trip, and that a time in which its load is not known
leaves it so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from joulie_core.budget.breaker import TRIPS, BreakerRating
from joulie_core.budget.tree import BudgetDomain, BudgetTree


@dataclass(frozen=True, slots=True)
class BreakerDamage:
    """State of a breaker as it is counted; at `TRIPS` together it would trip."""

    #: By the loads that this leader has counted.
    counted: float = 0.0
    #: What it cannot know of the time before.
    assumed: float = TRIPS

    @property
    def total(self) -> float:
        """The most that it may be."""
        return min(self.counted + self.assumed, TRIPS)


@dataclass(frozen=True, slots=True)
class BreakerState:
    """A breaker, and its load as a multiple of the limit; None: not known."""

    limit_mw: int
    rating: BreakerRating
    damage: BreakerDamage = field(default_factory=BreakerDamage)
    load: float | None = None


class BreakerStates:
    """The breakers of a tree under one leader, by the name of the domain."""

    def __init__(self) -> None:
        self.states: dict[str, BreakerState] = {}
        self._counted_s: float | None = None

    def count(self, tree: BudgetTree, drawn_mw: Mapping[str, Iterable[int | None]], now_s: float) -> None:
        """Count what the breakers have carried since the last call.

        Args:
            tree: with the limits that breakers carry for long.
            drawn_mw: of the nodes below each oversubscribed domain; None: not known.
            now_s: any clock that does not go back.
        """
        elapsed_s = 0.0 if self._counted_s is None else now_s - self._counted_s
        self._counted_s = now_s
        states = {}
        for domain in tree.domains:
            if domain.rating is None:
                continue
            state = self.states.get(domain.name)
            if state is None or (state.limit_mw, state.rating) != (domain.limit_mw, domain.rating):
                state = BreakerState(domain.limit_mw, domain.rating)
            load = _load(domain, drawn_mw[domain.name])
            states[domain.name] = replace(state, damage=_damage(state, load, elapsed_s), load=load)
        self.states = states


def _load(domain: BudgetDomain, drawn_mw: Iterable[int | None]) -> float | None:
    total = domain.withheld_mw
    for each in drawn_mw:
        if each is None or not domain.rest_known:
            return None
        total += each
    return total / domain.limit_mw


def _damage(before: BreakerState, load: float | None, seconds: float) -> BreakerDamage:
    """Return the damage after the higher of the loads at the beginning and at the end of a time."""
    damage, rating = before.damage, before.rating
    if load is None or (before.load is None and seconds > 0.0):
        return replace(damage, assumed=TRIPS)
    highest = max(load, before.load or 0.0)
    assumed = rating.damage_after(damage.assumed, highest, seconds) if highest <= 1.0 else damage.assumed
    return BreakerDamage(rating.damage_after(damage.counted, highest, seconds), assumed)
