"""The NodePowerBudgets of the cluster: what is known of them, what is looked at at once, written and deleted."""

import json

import pytest

from joulie_api.wire import decode_kind, decode_node
from joulie_core.kinds import NodePowerBudget
from joulie_operator.power_domains.budget_changes import SeenBudgets
from joulie_operator.power_domains.budgets import NodeBudgets
from joulie_operator.power_domains.decision import DomainDecision
from joulie_operator.power_domains.sent import SentLimits
from joulie_testing.api import make_node, make_node_power_budget


class Watched:
    """Takes the place of the watch: keeps the subscriber."""

    def __init__(self):
        self.store, self.invalid, self.reason = {}, {}, None

    def stale_reason(self):
        return self.reason

    def subscribe(self, handler):
        self.change = handler


def stored(version, *, renewal=1, sequence=1, status=None):
    made = make_node_power_budget("n1", renewal=renewal, sequence=sequence, status=status)
    made["metadata"] |= {"resourceVersion": version, "uid": "u"}
    return decode_kind(NodePowerBudget)(json.dumps(made).encode())


ASKED = stored("1")
ANSWERED = stored("2", status={"sequence": 1, "renewal": 1})


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, ASKED, True),
        (ANSWERED, None, True),
        (ASKED, ANSWERED, True),
        (ANSWERED, stored("3", status={"sequence": 1, "renewal": 2}), True),
        # The operator's own writes are no news.
        (ANSWERED, stored("3", sequence=2, renewal=2, status={"sequence": 1, "renewal": 1}), False),
    ],
    ids=["created", "deleted", "answered", "renewal repeated", "asked anew"],
)
def test_reports_and_deletions_are_looked_at_at_once(old, new, wakes):
    watched, sent, woken = Watched(), SentLimits(), []
    budgets = NodeBudgets(watched, sent, None, term=lambda above: 1, enforces=True, clock=lambda: 0.0)
    budgets.wake = lambda: woken.append(True)
    sent.sending("n1", None if old is None else old.metadata.resource_version, ASKED.model.spec, 0.0)
    watched.change("n1", old, new)
    assert woken == [True] * wakes
    # What was sent over the version before is not to come any more.
    assert not sent.seen("n1", new, 0.0).unanswered


# --- what is known, and what is done by it ----------------------------------------------------------------------------


def node_of(name, boot_id="boot"):
    made = make_node(name, boot_id=boot_id)
    made["metadata"] |= {"resourceVersion": "1", "uid": name}
    return decode_node(json.dumps(made).encode())


def of(name, version="1", **fields):
    made = make_node_power_budget(name, **fields)
    made["metadata"] |= {"resourceVersion": version, "uid": f"uid-{name}"}
    return decode_kind(NodePowerBudget)(json.dumps(made).encode())


class Writer:
    """Records what it is given."""

    def __init__(self):
        self.written, self.deleted = [], []

    async def write(self, *given):
        self.written.append(given)

    async def delete(self, budgets):
        self.deleted.append([each.name for each in budgets])


class World:
    """The objects of two nodes, of three."""

    def __init__(self, *, enforces=True):
        self.watched, self.sent, self.writer, self.term = Watched(), SentLimits(), Writer(), 5
        self.above = []
        self.watched.store = {"n1": of("n1", term=4), "n2": of("n2", term=3)}
        self.nodes = {name: node_of(name) for name in ("n1", "n2", "n3")}
        self.budgets = NodeBudgets(
            self.watched, self.sent, self.writer, term=self.own_term, enforces=enforces, clock=lambda: 70.0
        )

    def own_term(self, above):
        self.above.append(above)
        return self.term if self.term is not None and self.term > above else None

    def seen(self):
        return self.budgets.seen(self.nodes)

    async def carry_out(self, kept, unread=frozenset()):
        decision = DomainDecision({}, ("change",), None if kept is None else frozenset(kept))
        await self.budgets.carry_out(decision, self.nodes, unread, 60.0, is_superseded)
        return self.writer.deleted


def is_superseded():
    return False


def test_what_is_known_of_all_nodes_and_objects_is_given_to_a_decision():
    world = World()
    world.nodes |= {"n3": node_of("n3", boot_id=""), "n4": node_of("n4", boot_id="x" * 500)}
    world.watched.store["gone"] = of("gone")
    world.watched.store["n2"] = of("n2", term=3)
    world.watched.invalid = {"n2": "limitWatts", "bad": "term"}
    world.sent.sending("n1", "1", of("n1", sequence=9).model.spec, 40.0)
    found = world.seen()
    assert found == SeenBudgets(
        70.0,
        5,
        {name: world.sent.seen(name, world.watched.store.get(name), 70.0) for name in ("n1", "n3", "n4", "gone")},
        bootless=frozenset({"n3", "n4"}),
        unreadable=frozenset({"n2", "bad"}),
        last_s={"n1": 40.0},
    )
    assert (found.seen["n1"].spec.sequence, found.seen["n1"].unanswered, found.seen["n3"].version) == (9, True, None)


def test_a_renewal_that_is_seen_to_be_stored_counts_and_is_none_of_another_object_of_the_name():
    world = World()
    asked, answered = of("n1", "2", renewal=2), of("n1", "3", renewal=2, status={"renewal": 2})
    world.sent.sending("n1", "1", asked.model.spec, 40.0)
    world.watched.change("n1", world.watched.store["n1"], asked)
    world.watched.store["n1"] = answered
    assert world.seen().seen["n1"].renewed_s == 40.0
    world.watched.change("n1", answered, None)
    assert world.seen().seen["n1"].renewed_s is None


def test_what_is_stored_is_on_its_way_until_the_watch_shows_it():
    world = World()
    world.sent.stored("n1", world.sent.sending("n1", "1", of("n1", sequence=9).model.spec, 40.1))
    world.sent.stored("n2", world.sent.sending("n2", "1", of("n2", sequence=9).model.spec, 40.0))
    seen = world.seen().seen
    assert (seen["n1"].in_flight, seen["n2"].in_flight) == (True, False)


def test_what_was_sent_to_nodes_that_are_gone_is_forgotten():
    world = World()
    for name in ("n1", "n3", "gone"):
        world.sent.sending(name, None, ASKED.model.spec, 40.0)
    del world.nodes["n1"]
    world.seen()
    assert [world.sent.last_s(name) for name in ("n1", "n3", "gone")] == [40.0, 40.0, None]


@pytest.mark.parametrize(("term", "stored_term", "own"), [(5, 4, 5), (5, 5, None), (5, 7, None), (None, 4, None)])
def test_the_term_of_this_leader_is_known_where_it_is_above_all_that_others_have_written(term, stored_term, own):
    world = World()
    world.term = term
    world.watched.store["n2"] = of("n2", term=stored_term)
    assert world.seen().term == own
    # The Lease is asked for a term above the highest that others have written.
    assert world.above == ([-1, stored_term] if term is not None and stored_term >= term else [-1])


def test_a_limit_of_this_leader_is_no_foreign_one():
    world = World()
    mine = of("n1", term=5, sequence=3)
    world.sent.sending("n1", "0", mine.model.spec, 1.0)
    world.watched.store = {"n1": mine}
    assert (world.seen().term, world.above) == (5, [-1])
    world.watched.store = {}
    assert world.seen().term == 5


def test_without_the_setting_nothing_is_known_and_nothing_is_out_of_date():
    world = World(enforces=False)
    world.watched.reason = "no contact"
    assert (world.seen(), world.budgets.stale_reason()) == (None, None)
    world = World()
    assert world.budgets.stale_reason() is None
    world.watched.reason = "no contact"
    assert world.budgets.stale_reason() == "no contact"


async def test_what_was_decided_is_written_and_what_is_limited_no_more_is_deleted():
    world = World()
    world.watched.store["n3"] = of("n3")
    assert await world.carry_out({"n1"}, frozenset({"n3"})) == [["n2"]]
    assert world.writer.written == [(("change",), world.nodes, 60.0, is_superseded)]


@pytest.mark.parametrize("cause", ["not known", "stale", "no term"])
async def test_nothing_is_deleted_by_what_is_not_certain(cause):
    world = World()
    world.watched.reason = "no contact" if cause == "stale" else None
    world.term = None if cause == "no term" else 5
    assert await world.carry_out(None if cause == "not known" else ()) == []
    assert len(world.writer.written) == 1


async def test_without_the_setting_objects_are_deleted_by_a_leader_of_whatever_term():
    world = World(enforces=False)
    world.term = None
    assert await world.carry_out(()) == [["n1", "n2"]]


def test_nothing_happens_by_a_change_before_somebody_is_to_be_woken():
    world = World()
    world.watched.change("n1", None, ASKED)
