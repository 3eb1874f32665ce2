"""The status of an oversubscribed domain, and whether what its nodes fall back to holds it."""

from dataclasses import replace

import pytest

from joulie_core.budget import DomainRest
from joulie_core.budget.breaker_states import BreakerDamage
from joulie_core.kinds import ConditionStatus, PowerDomainSpec
from joulie_core.kinds.power_domain import DomainLostControl
from joulie_core.kinds.raise_state import RaiseState
from joulie_operator.power_domains.decision import DomainOutcome
from joulie_operator.power_domains.enforcement import EnforcedDomain
from joulie_operator.power_domains.oversubscription import OversubscribedDomain
from joulie_operator.power_domains.oversubscription_status import held_by_fallbacks, oversubscription_status

SPEC = PowerDomainSpec(limit_watts=600, reserve_watts=50, on_lost_control=DomainLostControl.KEEP_GUARANTEED)
FOUND = OversubscribedDomain(RaiseState.RAISED, 780_999, 450_001, BreakerDamage(0.25, 0.5), "measured")


def outcome_of(rest_mw=None, **fields):
    rest = None if rest_mw is None else DomainRest(rest_mw, 1, 0, 0, 0, frozenset())
    enforced = EnforcedDomain(0, 0, 0, None, oversubscription=replace(FOUND, **fields))
    return DomainOutcome(enforced=enforced, rest=rest)


def test_watts_are_rounded_to_the_side_that_shows_less_room():
    assert oversubscription_status(outcome_of()).dump() == {
        "raised": True,
        "state": "Raised",
        "permittedWatts": 780,
        "fallbackWatts": 451,
        "breakerDamagePercent": 75.0,
        "assumedDamagePercent": 50.0,
        "reason": "measured",
    }


def test_the_rest_of_servers_is_beside_what_their_nodes_fall_back_to():
    assert oversubscription_status(outcome_of(100_000)).fallback_watts == 551
    assert oversubscription_status(outcome_of(100_000, fallback_mw=None)).fallback_watts is None


@pytest.mark.parametrize(("damage", "percents"), [((1.5, 1.0), (100.0, 0.0)), ((0.9, 0.9), (100.0, 10.0))])
def test_the_damage_is_at_most_that_at_which_a_breaker_trips(damage, percents):
    found = oversubscription_status(outcome_of(damage=BreakerDamage(*damage)))
    assert (found.breaker_damage_percent, found.assumed_damage_percent) == pytest.approx(percents)


def test_a_reason_is_bounded():
    assert len(oversubscription_status(outcome_of(reason="x" * 5_000)).reason) == 1_024


@pytest.mark.parametrize("outcome", [DomainOutcome(), DomainOutcome(enforced=EnforcedDomain(0, 0, 0, None))])
def test_a_domain_that_is_not_oversubscribed_has_none(outcome):
    assert oversubscription_status(outcome) is None
    assert held_by_fallbacks(SPEC, outcome, 600_000) is None


LIMITS = "the limits that may be in force exceed 550 W together, up to 780 W; "


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        (RaiseState.RAISED, "Oversubscribed", "what the nodes draw is measured, and below it"),
        (RaiseState.NEAR_LIMIT, "FallingBack", "nodes fall back, and the limits are lowered"),
    ],
)
def test_a_domain_is_held_by_what_its_nodes_fall_back_to(state, reason, message):
    found = held_by_fallbacks(SPEC, outcome_of(state=state), 730_000)
    assert (found.type, found.status, found.reason) == ("Held", ConditionStatus.TRUE, reason)
    assert found.message == LIMITS + message


@pytest.mark.parametrize(
    ("fallback_mw", "in_force_mw", "held"),
    [
        (550_000, 730_999, True),
        (550_001, 730_999, False),
        (None, 730_999, False),
        (450_000, 731_000, False),
    ],
)
def test_it_is_not_held_where_they_or_the_limits_are_above_what_nodes_may_get(fallback_mw, in_force_mw, held):
    assert (held_by_fallbacks(SPEC, outcome_of(fallback_mw=fallback_mw), in_force_mw) is not None) is held
