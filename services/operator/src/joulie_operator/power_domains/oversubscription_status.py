"""The status of an oversubscribed PowerDomain. Watts are rounded to the side that shows less room."""

import math
from typing import Final

from joulie_core.kinds import Condition, ConditionStatus, PowerDomainSpec
from joulie_core.kinds.power_domain import OversubscriptionStatus
from joulie_core.text import printable
from joulie_core.units import MW_PER_WATT
from joulie_operator.power_domains.decision import DomainOutcome
from joulie_operator.power_domains.oversubscription import OversubscribedDomain

_PERCENT: Final = 100.0
_MOST_REASON: Final = 1_024


def oversubscription_status(outcome: DomainOutcome) -> OversubscriptionStatus | None:
    """Return the state; None where the domain is not oversubscribed."""
    found = _found(outcome)
    if found is None:
        return None
    fallback_mw = _fallback_mw(outcome, found)
    return OversubscriptionStatus(
        raised=found.raised,
        permitted_watts=math.floor(found.permitted_mw / MW_PER_WATT),
        fallback_watts=None if fallback_mw is None else math.ceil(fallback_mw / MW_PER_WATT),
        breaker_damage_percent=_PERCENT * found.damage.total,
        assumed_damage_percent=_PERCENT * max(found.damage.total - found.damage.counted, 0.0),
        state=found.state,
        reason=printable(found.reason, _MOST_REASON),
    )


def held_by_fallbacks(spec: PowerDomainSpec, outcome: DomainOutcome, in_force_mw: int) -> Condition | None:
    """Return the condition Held of a domain whose limits are above its own; None where no fallbacks hold it.

    Args:
        spec: of the domain, with the limit in force.
        outcome: of the decision.
        in_force_mw: the highest limits that may be in force, with the rest of servers.
    """
    found = _found(outcome)
    fallback_mw = None if found is None else _fallback_mw(outcome, found)
    if found is None or fallback_mw is None or fallback_mw > spec.usable_watts * MW_PER_WATT:
        return None
    # In milliwatts: limits use what is permitted up to the last part of a watt.
    if in_force_mw > found.permitted_mw - spec.reserve_watts * MW_PER_WATT:
        return None
    permitted = math.floor(found.permitted_mw / MW_PER_WATT)
    limits = f"the limits that may be in force exceed {spec.usable_watts} W together, up to {permitted} W"
    if found.raised:
        reason, message = "Oversubscribed", f"{limits}; what the nodes draw is measured, and below it"
    else:
        reason, message = "FallingBack", f"{limits}; nodes fall back, and the limits are lowered"
    return Condition(type="Held", status=ConditionStatus.TRUE, reason=reason, message=message)


def _found(outcome: DomainOutcome) -> OversubscribedDomain | None:
    return None if outcome.enforced is None else outcome.enforced.oversubscription


def _fallback_mw(outcome: DomainOutcome, found: OversubscribedDomain) -> int | None:
    """Return the sum of what nodes fall back to, with the rest of their servers; None: it is not known."""
    rest_mw = 0 if outcome.rest is None else outcome.rest.mw
    return None if found.fallback_mw is None else found.fallback_mw + rest_mw
