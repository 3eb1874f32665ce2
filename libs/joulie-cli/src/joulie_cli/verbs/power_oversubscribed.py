"""Oversubscribed domains in `kubectl joulie power`: limits above that of a domain that are no violation."""

from typing import Final

from joulie_cli.layout import Cell, total_watts, watts
from joulie_cli.views.power_domains import DomainView, OversubscriptionView

MAY_BE_ABOVE: Final = (
    "MAY DRAW of an oversubscribed domain may be above LIMIT, up to the watts behind it, while what its nodes draw is "
    "measured; else they fall back to within LIMIT. docs/power-budgets.md#oversubscription"
)
#: Reasons of the condition Held that say whether limits are raised.
_TELLS_RAISED: Final = frozenset({"Oversubscribed", "FallingBack"})
_FAULT, _WARNING = "red", "yellow"
#: Counted damage of a breaker, in percent: limits are withdrawn from the first on, and an alert fires above the second.
_WARM_PCT, _NEAR_TRIP_PCT = 25.0, 50.0


def is_above(domain: DomainView) -> bool:
    """Return whether limits of an oversubscribed domain add up to more than it supplies for long."""
    in_force, limit = domain.status.in_force_watts, domain.limit_watts
    if domain.status.oversubscription is None or in_force is None or limit is None:
        return False
    return in_force > limit - domain.reserve_watts


def may_draw(domain: DomainView) -> str:
    """Return what nodes may draw; where that is above the limit of an oversubscribed domain, with what is permitted."""
    over, in_force = domain.status.oversubscription, watts(domain.status.in_force_watts)
    return in_force if over is None or not is_above(domain) else f"{in_force} of {watts(over.permitted_watts)}"


def raise_state(found: OversubscriptionView) -> Cell:
    """Return whether limits are raised, how far, and the state of the breaker."""
    state = "raised" if found.raised else "not raised"
    text = f"{state} up to {total_watts(found.permitted_watts)}: {found.reason}; nodes fall back to "
    text += f"{total_watts(found.fallback_watts)}; {found.breaker_damage_percent:.0f} % of what trips the breaker"
    if found.assumed_damage_percent:
        counted, assumed = found.counted_damage_percent, found.assumed_damage_percent
        text += f" ({counted:.0f} % counted, {assumed:.0f} % assumed of a time that was not seen)"
    return Cell(text, "" if found.raised else _WARNING)


def held_while_oversubscribed(reason: str, found: OversubscriptionView) -> Cell:
    """Return why a domain is held, whether its limits are raised, and the breaker where that is warm."""
    text = reason if reason in _TELLS_RAISED else f"{reason}, {'raised' if found.raised else 'not raised'}"
    damage = found.counted_damage_percent
    if damage < _WARM_PCT:
        return Cell(text)
    return Cell(f"{text}, breaker at {damage:.0f} %", _FAULT if damage > _NEAR_TRIP_PCT else _WARNING)
