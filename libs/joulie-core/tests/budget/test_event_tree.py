"""A tree with events: floors and spared nodes are kept, and all of it fits into every limit."""

from hypothesis import given
from hypothesis import strategies as st

from joulie_core.budget import BudgetDomain, EventInputs, EventLimit, TimedLimit, plant, with_events
from joulie_core.demand import WorkloadClass

STANDARD = frozenset({WorkloadClass.STANDARD})
BOTH = frozenset(WorkloadClass)
SHARES = {"p1": 400, "s1": 400, "s2": 400}
FLOORS = {"p1": 100, "s1": 100, "s2": 100}


def tree(row_mw=1_500, rack_mw=1_000, reserve_mw=0):
    domains = [
        BudgetDomain("row", row_mw, reserve_mw=reserve_mw),
        BudgetDomain("rack", rack_mw, "row", nodes=("p1", "s1")),
        BudgetDomain("other", 1_000, "row", nodes=("s2",)),
    ]
    (found,) = plant(domains).trees
    return found


def event(name, domain, limit_mw, may_affect=BOTH):
    return TimedLimit(name, domain, limit_mw, 0.0, may_affect=may_affect)


def evented(*events, found=None):
    inputs = EventInputs(events, frozenset({"p1"}), 10.0)
    return with_events(tree() if found is None else found, inputs, SHARES, FLOORS)


def limits(found):
    return {each.name: each.limit_mw for each in found.tree.domains}


def test_the_limit_of_the_event_replaces_that_of_its_domain():
    found = evented(event("cut", "row", 700))
    assert limits(found) == {"row": 700, "rack": 1_000, "other": 1_000}
    assert (found.limits, found.reach_mw, found.kept_mw) == ({"row": EventLimit("cut", 700)}, {"cut": 300}, {})


def test_a_node_that_may_not_be_affected_keeps_what_it_has_and_the_limit_is_raised_to_what_can_be_reached():
    found = evented(event("cut", "row", 500, STANDARD), found=tree(reserve_mw=50))
    assert found.reach_mw == {"cut": 400 + 100 + 100 + 50}
    assert limits(found)["row"] == 650
    assert found.kept_mw == {"p1": 400}


def test_an_event_for_performance_pods_spares_the_other_nodes():
    found = evented(event("cut", "row", 0, frozenset({WorkloadClass.PERFORMANCE})))
    assert (limits(found)["row"], found.kept_mw) == (900, {"s1": 400, "s2": 400})


def test_an_event_that_may_affect_a_node_is_not_stopped_by_one_that_spares_it():
    found = evented(event("gentle", "row", 1_100, STANDARD), event("deep", "rack", 250))
    assert found.limits == {"row": EventLimit("gentle", 1_100), "rack": EventLimit("deep", 250)}
    assert found.kept_mw == {}


def test_a_node_stays_spared_where_another_event_can_be_held_without_it():
    found = evented(event("gentle", "row", 1_100, STANDARD), event("deep", "rack", 500))
    assert found.kept_mw == {"p1": 400}


def test_of_two_events_of_a_domain_the_lower_says_what_it_may_affect():
    # Alone the one that spares p1 reaches 600; the other asks for 500 of the same domain.
    found = evented(event("gentle", "row", 0, STANDARD), event("deep", "row", 500))
    assert found.limits == {"row": EventLimit("deep", 500)}
    assert found.kept_mw == {}


def test_events_of_other_trees_change_nothing():
    found = evented(event("cut", "elsewhere", 0))
    assert (limits(found), found.limits, found.reach_mw) == (limits(evented()), {}, {})


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["row", "rack", "other"]),
            st.integers(0, 1_500),
            st.sampled_from([BOTH, STANDARD, frozenset({WorkloadClass.PERFORMANCE})]),
        ),
        max_size=5,
    ),
    st.frozensets(st.sampled_from(sorted(SHARES))),
)
def test_what_nodes_keep_fits_into_every_limit_and_no_limit_is_raised(specs, performance):
    events = tuple(event(f"e{number}", *each) for number, each in enumerate(specs))
    plain = tree()
    found = with_events(plain, EventInputs(events, performance, 10.0), SHARES, FLOORS)
    least = found.tree.sums({name: max(floor, found.kept_mw.get(name, 0)) for name, floor in FLOORS.items()})
    for total, before, after in zip(least, plain.domains, found.tree.domains, strict=True):
        assert total <= after.usable_mw <= before.usable_mw
