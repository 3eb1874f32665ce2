"""PowerEvents of one operator from look to look: what they ask, what is stored of drawn power, what is published."""

import json
import math
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.resources import POWER_EVENTS
from joulie_api.wire import decode_kind
from joulie_core.budget import BudgetNode, DomainRest, EventInputs, EventLimit, LoweredShare, ObservedDomain
from joulie_core.budget.transitions import DomainSums
from joulie_core.kinds import PowerDomain, PowerEvent
from joulie_core.kinds.power_domain import BudgetBasis
from joulie_core.kinds.power_event import DrawnQuality
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains import events as events_module
from joulie_operator.power_domains.decision import DomainDecision, DomainInputs, DomainOutcome
from joulie_operator.power_domains.enforcement import EnforcedDomain
from joulie_operator.power_domains.events import PowerEventParts, PowerEvents
from joulie_operator.power_domains.inputs import DomainNode, DrawnReading
from joulie_testing.api import make_power_domain, make_power_event

#: The begin of an hour.
NOW_S = 1_800_000_000.0
SUMS = DomainSums(0, 0, 0, 0, 0)
SEEN = ObservedDomain(SUMS, frozenset({"n1", "n2"}), frozenset(), 0, 0, ())
ENFORCED = EnforcedDomain(0, 0, 0, None)
OUTCOME = DomainOutcome(SEEN, enforced=ENFORCED)
CUT = replace(OUTCOME, event=EventLimit("cut", 700_000))


class Watched:
    """Takes the place of the watch."""

    def __init__(self):
        self.store, self.invalid = {}, {}

    def subscribe(self, handler):
        self.change = handler


class Writer:
    """Records what is applied."""

    def __init__(self):
        self.applied = []

    async def apply(self, resource, name, body, *, status):
        self.applied.append((resource, name, body, status))


class World:
    def __init__(self):
        self.watched, self.writer, self.reason = Watched(), Writer(), None
        self.metrics = CollectorRegistry()
        parts = PowerEventParts(self.watched, lambda: self.reason, self.writer, Failures(self.metrics))
        self.events = PowerEvents(parts)
        self.domains, self.nodes, self.outcomes = {}, {}, {"row": CUT}
        self.domain("row")
        self.draw(n1=200.0, n2=300.0)

    def domain(self, name, *, status=None, **spec):
        made = make_power_domain(name, status=status, **spec)
        made["metadata"]["resourceVersion"] = "1"
        self.domains[name] = decode_kind(PowerDomain)(json.dumps(made).encode())

    def event(self, name="cut", *, after_s=0.0, for_s=3_600.0, **spec):
        times = {"start": rfc3339(NOW_S + after_s), "end": rfc3339(NOW_S + after_s + for_s), "standing": None}
        self.watched.store[name] = stored(name, **{"domain": "row"} | times | spec)

    def draw(self, *, measured=True, servers=None, performance=(), **watts):
        for name, drawn in watts.items():
            self.nodes[name] = DomainNode(
                BudgetNode(name, "boot", 500_000, 100_000),
                DrawnReading(drawn, measured=measured),
                DrawnReading(servers, measured=True),
                performance=name in performance,
            )

    def inputs(self, after_s=0.0):
        return self.events.inputs(self.domains, self.nodes, NOW_S + after_s, after_s)

    def look(self, after_s=0.0, *, is_sample=True, reach_mw=None):
        """Take one decision; return the figures of the events."""
        specs = {name: each.model.spec for name, each in self.domains.items()}
        inputs = DomainInputs(specs, frozenset(), self.nodes, events=self.inputs(after_s))
        decision = DomainDecision(self.outcomes, reach_mw=reach_mw or {})
        self.events.take(inputs, decision, is_sample=is_sample)
        return self.events.figures

    def history(self, after_s, domain="row"):
        return self.events.history(domain, NOW_S + after_s)


def stored(name="cut", *, version="1", status=None, **spec):
    made = make_power_event(name, status=status, **spec)
    made["metadata"] |= {"resourceVersion": version, "uid": f"uid-{name}", "generation": 1}
    return decode_kind(PowerEvent)(json.dumps(made).encode())


@pytest.fixture
def world():
    return World()


# --- looks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, stored(), True),
        (stored(), None, True),
        (stored(), stored(limitWatts=900), True),
        (stored(), stored(version="2", status={"state": "Active"}), False),
    ],
    ids=["created", "deleted", "changed", "status"],
)
def test_what_asks_for_other_limits_is_looked_at_at_once(world, old, new, wakes):
    world.watched.change("cut", old, new)
    woken = []
    world.events.wake = lambda: woken.append(True)
    world.watched.change("cut", old, new)
    assert woken == [True] * wakes


def test_nothing_is_shown_or_waited_for_before_the_first_look(world):
    assert (world.events.figures, world.events.pause_s(NOW_S)) == ({}, math.inf)


def test_what_is_not_known_of_events_is_told(world):
    assert (world.events.unreadable, world.events.unknown_reason()) == (0, None)
    world.watched.invalid, world.reason = {"cut": "limitWatts", "other": "start"}, "not read yet"
    assert (world.events.unreadable, world.events.unknown_reason()) == (2, "not read yet")


def test_a_decision_is_given_the_limits_of_all_events_the_nodes_with_performance_pods_and_the_time(world):
    world.event(limitWatts=700)
    world.event("other", limitWatts=900)
    world.draw(n2=300.0, performance=("n2",))
    found = world.inputs(60)
    assert [(each.name, each.domain, each.limit_mw) for each in found.events] == [
        ("cut", "row", 700_000),
        ("other", "row", 900_000),
    ]
    assert (found.performance, found.now_s) == (frozenset({"n2"}), NOW_S + 60)
    world.watched.store.clear()
    assert world.inputs(60) == EventInputs((), frozenset({"n2"}), NOW_S + 60)


def test_the_next_look_is_when_the_first_of_all_limits_changes(world):
    world.inputs()
    assert world.events.pause_s(NOW_S) == math.inf
    world.event(after_s=60)
    world.event("sooner", after_s=40)
    world.event("over", after_s=-100, for_s=50)
    world.inputs()
    assert world.events.pause_s(NOW_S + 10) == 30.0


# --- what was drawn ---------------------------------------------------------------------------------------------------


def test_what_a_domain_draws_is_stored_minute_by_minute_from_samples_alone(world):
    world.outcomes = {"row": OUTCOME}
    world.look()
    world.draw(n1=400.0)
    world.look(10)
    world.draw(n1=9_000.0)
    world.look(20, is_sample=False)
    world.draw(n1=0.0)
    world.look(60)
    found = world.history(60)
    assert (found.minutes, found.event_days, found.basis) == ("600", (), BudgetBasis.DEVICES)
    assert found.until == rfc3339(NOW_S + 60, "seconds")
    assert world.history(60, "other") is None


def test_a_minute_with_an_event_in_force_is_none_of_a_domain_without_it_nor_of_those_below(world):
    world.domain("rack", parent="row")
    world.domain("apart")
    world.outcomes = {"row": CUT, "rack": OUTCOME, "apart": OUTCOME}
    world.look()
    world.look(60)
    assert {name: world.history(60, name).minutes for name in world.domains} == {"row": "", "rack": "", "apart": "500"}
    assert [len(world.history(60, name).event_days) for name in ("row", "rack", "apart")] == [1, 1, 0]


@pytest.mark.parametrize(
    "outcome", [replace(CUT, enforced=None), replace(CUT, event=None)], ids=["not enforced", "no event"]
)
def test_a_domain_that_no_event_lowers_draws_what_it_would_without_events(world, outcome):
    world.outcomes = {"row": outcome}
    world.look()
    world.look(60)
    assert world.history(60).minutes == "500"


def test_a_domain_without_an_outcome_draws_an_unknown_power(world):
    world.outcomes = {}
    world.look()
    world.look(60)
    assert world.history(60).minutes == ""


HOUR = {"until": rfc3339(NOW_S), "basis": "Devices", "minutes": ",".join(["900"] * 60), "eventDays": [20_832]}


def test_the_history_goes_on_from_the_status_and_makes_the_baseline_of_an_event(world):
    world.domain("row", status={"history": {**HOUR, "quarterHours": "800,900"}})
    world.event(baseline="LastHour")
    figures = world.look()["cut"]
    assert (figures.domain, figures.status.baseline_watts) == ("row", 900.0)
    found = world.history(0)
    assert (found.minutes, found.quarter_hours) == (HOUR["minutes"], "800,900")
    assert found.event_days[0] == 20_832
    # What is stored later is not read again.
    world.domain("row", status={"history": {**HOUR, "minutes": "7"}})
    world.look(10)
    assert world.history(10).minutes == HOUR["minutes"]
    (minute,) = world.look(60)["cut"].status.minutes
    assert minute.baseline_watts == 900.0


@pytest.mark.parametrize("status", [{"history": {**HOUR, "basis": "Server"}}, {}], ids=["of another basis", "none"])
def test_a_history_that_does_not_count_makes_no_baseline(world, status):
    world.domain("row", status=status)
    world.event(baseline="LastHour")
    assert world.look()["cut"].status.baseline_watts is None


def test_a_history_ends_with_its_domain_and_with_its_basis(world):
    world.domain("row", status={"history": HOUR})
    world.domain("other", status={"history": HOUR})
    world.look()
    del world.domains["other"]
    world.domain("row", status={"history": HOUR}, basis="Server")
    world.look()
    assert world.history(0, "other") is None
    assert (world.history(0).basis, world.history(0).minutes) == (BudgetBasis.SERVER, "")


# --- statuses ---------------------------------------------------------------------------------------------------------


def test_an_event_is_told_what_its_domain_draws_its_target_and_what_can_be_delivered(world):
    world.event(limitWatts=700)
    world.draw(n2=300.0, performance=("n2",))
    status = world.look(reach_mw={"cut": 600_000})["cut"].status
    assert (status.drawn_watts, status.target_watts, status.deliverable_watts) == (500.0, 700.0, 600)
    assert status.binding_event == "cut"
    assert {each.type: each.reason for each in status.conditions} == {"Accepted": "Accepted", "Active": "InForce"}
    # The minute is closed by the next one, with all its samples.
    world.look(20, is_sample=False)
    world.draw(n1=300.0)
    world.look(30)
    (minute,) = world.look(60)["cut"].status.minutes
    assert (minute.drawn_watts, minute.target_watts, minute.samples) == (550.0, 700.0, 2)
    assert minute.quality is DrawnQuality.MEASURED
    assert minute.baseline_watts is None


def test_the_nodes_of_performance_pods_are_counted(world):
    lowered = replace(
        SEEN, lowered=tuple(LoweredShare(each, 500_000, 300_000, "row", 700_000) for each in ("n1", "n2"))
    )
    world.outcomes = {"row": replace(CUT, observed=lowered)}
    world.draw(n2=300.0, performance=("n2",))
    world.event()
    affected = world.look()["cut"].status.affected
    assert (affected.performance_nodes, affected.standard_nodes) == (1, 1)


def test_an_event_of_a_domain_that_is_not_there_says_so(world):
    world.event(domain="gone")
    status = world.look()["cut"].status
    assert {each.type: each.reason for each in status.conditions}["Accepted"] == "DomainUnknown"
    assert status.drawn_watts is None


def test_a_domain_that_was_not_decided_about_is_one_that_cannot_be_used(world):
    world.outcomes = {}
    world.event()
    status = world.look()["cut"].status
    assert {each.type: each.reason for each in status.conditions}["Accepted"] == "TreeSetAside"


@pytest.mark.parametrize(
    ("outcome", "drawn"),
    [
        (OUTCOME, 500.0),
        (replace(OUTCOME, observed=None), None),
        (replace(OUTCOME, observed=replace(SEEN, nodes=frozenset())), None),
        (replace(OUTCOME, unread=("PowerDomain x",)), None),
        (replace(OUTCOME, rest=DomainRest(0, 2, 0, 0, 0, frozenset())), 1_400.0),
    ],
    ids=["nodes", "set aside", "no nodes", "objects unread", "servers"],
)
def test_what_a_domain_draws_is_known_where_that_of_all_its_nodes_is(world, outcome, drawn):
    world.draw(servers=700.0, n1=200.0, n2=300.0)
    world.outcomes = {"row": outcome}
    world.event()
    assert world.look()["cut"].status.drawn_watts == drawn


def test_a_node_that_draws_an_unknown_power_makes_that_of_its_domain_unknown(world):
    world.draw(n2=None)
    world.event()
    assert world.look()["cut"].status.drawn_watts is None


def test_a_sum_with_one_estimate_is_an_estimate(world):
    world.draw(n2=300.0, measured=False)
    world.event()
    world.look()
    (minute,) = world.look(60)["cut"].status.minutes
    assert minute.quality is DrawnQuality.MODELLED


def test_a_defect_in_one_status_hides_no_other(world, monkeypatch):
    status_of = events_module.event_status

    def broken(followed, *given):
        return 1 / 0 if followed.object.name == "bad" else status_of(followed, *given)

    monkeypatch.setattr(events_module, "event_status", broken)
    for name in ("bad", "good"):
        world.event(name)
    assert world.look().keys() == {"good"}
    assert world.metrics.get_sample_value("joulie_internal_errors_total", {"work": "status of power event"}) == 1.0


async def test_statuses_are_published_but_of_objects_that_cannot_be_read_any_more(world):
    for name in ("a", "b", "c"):
        world.event(name)
    world.look()
    world.watched.invalid = {"a": "limitWatts"}
    del world.events.figures["b"]
    await world.events.publish(NOW_S, lambda: False)
    ((resource, name, body, status),) = world.writer.applied
    assert (resource, name, status, body["metadata"]) == (POWER_EVENTS, "c", True, {"resourceVersion": "1"})
    assert body["status"]["lastUpdated"] == rfc3339(NOW_S, "seconds")


async def test_nothing_is_shown_or_published_of_what_may_be_out_of_date(world):
    world.event()
    world.look()
    world.events.forget()
    assert world.events.figures == {}
    await world.events.publish(NOW_S, lambda: False)
    assert world.writer.applied == []
