"""Power domains as the page has them."""

import json

from services.operator.tests.ui.test_feed import Page

from joulie_core.kinds import Condition, ConditionStatus, PowerDomainSpec, PowerDomainStatus
from joulie_core.kinds.power_domain import DomainLostControl, DrawnPower, OversubscriptionStatus
from joulie_operator.power_domains.metrics import DomainState
from joulie_operator.ui.domains import MOST_DOMAINS, RaisedBar, bars_of
from joulie_operator.ui.subscriber import server_sent


def state(parent=None, *, limit=1_000, reserve=0, conditions=(), **status):
    spec = PowerDomainSpec(
        limit_watts=limit, reserve_watts=reserve, parent=parent, on_lost_control=DomainLostControl.KEEP_GUARANTEED
    )
    told = tuple(
        Condition(type=kind, status=ConditionStatus(value), reason=reason, message="m")
        for kind, value, reason in conditions
    )
    return DomainState(spec, PowerDomainStatus(conditions=told, **status))


def test_domains_stand_below_the_one_that_supplies_them_and_those_of_a_cycle_at_the_end():
    states = {"a": state("z"), "b": state("a"), "z": state(), "x": state("y"), "y": state("x"), "c": state("gone")}
    assert [(each.name, each.depth) for each in bars_of(states).bars] == [
        ("c", 0), ("z", 0), ("a", 1), ("b", 2), ("x", 0), ("y", 1),
    ]  # fmt: skip


def test_what_is_not_known_is_none_and_an_object_that_cannot_be_read_has_no_limit():
    drawn = DrawnPower(modelled_watts=80, measured_watts=100.4, unknown_nodes=2)
    states = {
        "a": state(reserve=100, drawn=drawn, in_force_watts=700, allocated_watts=650),
        "b": state(),
        "c": DomainState(None, PowerDomainStatus()),
    }
    first, second, third = bars_of(states).bars
    assert (first.limit_watts, first.usable_watts, first.drawn_watts, first.undrawn_nodes) == (1_000, 900, 180, 2)
    assert (first.in_force_watts, first.allocated_watts) == (700, 650)
    assert (second.drawn_watts, second.in_force_watts, second.allocated_watts) == (None, None, None)
    assert (third.limit_watts, third.usable_watts) == (None, None)


def test_the_first_fault_is_told_and_whether_a_limit_is_enforced():
    states = {
        "a": state(
            conditions=[("Accepted", "True", "Valid"), ("Held", "False", "AboveLimit"), ("Enforced", "True", "x")]
        ),
        "b": state(conditions=[("Accepted", "False", "Cycle"), ("Enforced", "False", "Observe")]),
        "c": state(conditions=[("Accepted", "True", "Valid"), ("Held", "True", "WithinLimit")]),
    }
    assert [(each.enforced, each.problem) for each in bars_of(states).bars] == [
        (True, "AboveLimit: m"), (False, "Cycle: m"), (False, ""),
    ]  # fmt: skip


def test_an_oversubscribed_domain_tells_whether_limits_are_raised_and_what_was_counted_of_its_breaker():
    over = OversubscriptionStatus(
        raised=True, permitted_watts=1_300.4, fallback_watts=990.6, breaker_damage_percent=40,
        assumed_damage_percent=30, reason="measured",
    )  # fmt: skip
    first, second, third = bars_of(
        {
            "a": state(oversubscription=over),
            "b": state(oversubscription=over.model_copy(update={"raised": False, "fallback_watts": None})),
            "c": state(),
        }
    ).bars
    assert first.oversubscribed == RaisedBar(True, 1_300, 991, 10, "measured")
    assert second.oversubscribed == RaisedBar(False, 1_300, None, 10, "measured")
    assert third.oversubscribed is None
    event = server_sent("domains", bars_of({"a": state(oversubscription=over)}))
    (sent,) = json.loads(event.split(b"data: ")[1])["bars"]
    assert sent["oversubscribed"] == {
        "raised": True, "permittedWatts": 1_300, "fallbackWatts": 991, "countedPercent": 10, "reason": "measured",
    }  # fmt: skip


def test_thousands_of_domains_are_counted_and_not_all_sent():
    states = {f"d{number:04}": state(f"d{number - 1:04}" if number else None) for number in range(3_000)}
    found = bars_of(states)
    assert (len(found.bars), found.more) == (MOST_DOMAINS, 3_000 - MOST_DOMAINS)
    assert len(server_sent("domains", found)) < 100_000


async def test_pages_are_sent_domains_when_they_open_and_when_one_has_changed(world):
    states = {"a": state()}
    world.feed._domains = lambda: bars_of(states)
    page = Page(world)
    await page.read()
    assert "domains" in page.events
    await world.feed.deliver()
    assert "domains" not in (await page.read()).events
    states["a"] = state(in_force_watts=7)
    await world.feed.deliver()
    assert "domains" in (await page.read()).events


async def test_where_domains_are_not_observed_nothing_is_sent_of_them(world):
    page = Page(world)
    await world.feed.deliver()
    assert "domains" not in (await page.read()).events
    assert json.loads(server_sent("domains", bars_of({})).split(b"data: ")[1]) == {"bars": [], "more": 0}
