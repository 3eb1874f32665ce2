"""What NodeTwins say of the domains above a node, and how often that changes."""

import random

import pytest

from joulie_core.budget import AvailablePower
from joulie_operator.power_domains.available import AvailableWatts

NODES = 1_000
#: Between two raises of a figure.
RAISE_S = 120.0
HIGHEST = {f"n{number}": 700_000 for number in range(NODES)}


class Clock:
    now_s = 1_000.0

    def __call__(self):
        return self.now_s


def chain(*watts):
    return tuple(
        AvailablePower(name, None if each is None else int(each * 1000))
        for name, each in zip("abc", watts, strict=False)
    )


def shown(world, node):
    """Domains above a node with their watts, as its twin has them."""
    found = world.leader.available.of(node)
    return None if found is None else [(each.domain, each.available_watts) for each in found]


@pytest.fixture
def figures():
    clock = Clock()
    found = AvailableWatts(clock)

    def take(*watts, after_s=10.0, nodes=("n1",), kept=frozenset()):
        clock.now_s += after_s
        above = chain(*watts)
        found.update(dict.fromkeys(nodes, above), HIGHEST, kept)
        return [each.available_watts for each in found.of("n1")]

    take.found = found
    return take


async def test_twins_have_what_each_domain_above_has_left_beside_what_its_nodes_want(enforced):
    enforced.put("feed", 2_000)
    enforced.put("rack-a", 900, parent="feed", nodeSelector={"rack": "a"}, reserveWatts=100)
    enforced.put("rack-b", 900, parent="feed", nodeSelector={"rack": "b"})
    for name, rack, watts in (("n1", "a", 400), ("n2", "a", 150), ("n3", "b", 300)):
        enforced.add(name, rack, demand_watts=watts)
    await enforced.settle()
    assert shown(enforced, "n1") == shown(enforced, "n2") == [("rack-a", 250), ("feed", 1_150)]
    assert shown(enforced, "n3") == [("rack-b", 600), ("feed", 1_150)]
    assert shown(enforced, "other") is None


async def test_what_is_given_out_beyond_demand_is_available_as_it_is_taken_back(enforced):
    """In force is all that the rack has, since its nodes may draw more than that."""
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    for name in ("n1", "n2"):
        enforced.add(name, demand_watts=150)
    await enforced.settle()
    await enforced.look(60)
    assert enforced.leader.status("rack")["headroomWatts"] == 0
    assert shown(enforced, "n1") == [("rack", 300)]
    # What is available is given where it is wanted.
    enforced.demand(n1=450)
    await enforced.settle()
    assert enforced.limits()["n1"] >= 450


async def test_watts_that_a_lower_priority_wants_are_available_to_a_higher_one(enforced):
    enforced.put("feed", 800)
    enforced.put("rack-a", 800, parent="feed", nodeSelector={"rack": "a"}, priority=1)
    enforced.put("rack-b", 800, parent="feed", nodeSelector={"rack": "b"})
    enforced.add("n1", "a", demand_watts=200)
    enforced.add("n2", "b", demand_watts=500)
    await enforced.settle()
    assert shown(enforced, "n1") == [("rack-a", 600), ("feed", 500)]
    assert shown(enforced, "n2") == [("rack-b", 300), ("feed", 100)]


async def test_a_tree_that_is_observed_says_nothing_to_the_scheduler(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, mode="Observe")
    enforced.add("n1")
    await enforced.look()
    assert shown(enforced, "n1") is None
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    await enforced.settle()
    assert shown(enforced, "n1") is not None
    enforced.api.remove("PowerDomain", "rack")
    await enforced.look()
    assert shown(enforced, "n1") is None


async def test_one_node_of_unknown_power_leaves_all_domains_above_it_unknown(enforced):
    enforced.put("feed", 2_000)
    for rack in ("a", "b"):
        enforced.put(f"rack-{rack}", 900, parent="feed", nodeSelector={"rack": rack})
    enforced.add("n1", "a", demand_watts=100)
    enforced.add("n2", "b", demand_watts=100)
    del enforced.machines["n2"]
    enforced.describe()
    await enforced.look()
    assert shown(enforced, "n1") == [("rack-a", 800), ("feed", None)]
    assert shown(enforced, "n2") == [("rack-b", None), ("feed", None)]


async def test_what_was_known_is_unknown_while_watches_are_stale_or_the_tree_is_set_aside(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    enforced.add("n1", demand_watts=100)
    await enforced.settle()
    assert shown(enforced, "n1") == [("rack", 500)]
    enforced.leader.stale = "silent"
    await enforced.look()
    assert shown(enforced, "n1") == [("rack", None)]
    enforced.leader.stale = None
    await enforced.look()
    assert shown(enforced, "n1") == [("rack", 500)]
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, parent="gone")
    await enforced.look()
    assert shown(enforced, "n1") == [("rack", None)]


async def test_a_leader_without_a_term_knows_nothing(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    enforced.add("n1", demand_watts=100)
    enforced.leader.term = -1
    await enforced.look()
    assert shown(enforced, "n1") == [("rack", None)]


def test_a_figure_below_zero_is_zero_and_parts_of_a_watt_are_not_there(figures):
    assert figures(-300, 99.9) == [0, 99]


def test_a_figure_falls_at_once_by_more_than_a_step(figures):
    assert figures(100) == [100]
    assert figures(93) == [100], "1 % of 700 W"
    assert figures(92.9) == [92]
    assert figures(1_000, after_s=RAISE_S) == [1_000]
    assert figures(950) == [1_000], "5 % of the figure"
    assert figures(949) == [949]


def test_a_figure_rises_once_in_a_while(figures):
    assert figures(100) == [100]
    assert figures(500, after_s=RAISE_S - 1) == [100]
    assert figures(500, after_s=1) == [500]
    assert figures(0) == [0]
    assert figures(500) == [0]


def test_a_figure_rises_by_more_than_a_step(figures):
    assert figures(100) == [100]
    assert figures(107, after_s=RAISE_S) == [100]
    assert figures(108) == [108]


def test_before_the_first_decision_no_node_has_a_domain():
    assert AvailableWatts(Clock()).of("n1") is None


def test_what_becomes_known_or_unknown_is_shown_at_once(figures):
    assert figures(None, 5) == [None, 5]
    assert figures(100, None) == [100, None]


def test_nodes_that_are_kept_know_their_domains_without_figures_and_others_none(figures):
    figures(100)
    figures.found.update({}, HIGHEST, frozenset({"n1"}))
    assert [(each.domain, each.available_watts) for each in figures.found.of("n1")] == [("a", None)]
    figures.found.update({}, HIGHEST, None)
    assert figures.found.of("n1") is not None
    figures.found.update({}, HIGHEST, frozenset())
    assert figures.found.of("n1") is None


@pytest.mark.parametrize(
    ("center_watts", "noise_watts", "most_a_second"),
    [(100_000.0, 1_500.0, 0.6), (0.0, 2_000.0, 20.0)],
    ids=["with room", "full"],
)
def test_a_feed_of_a_thousand_nodes_that_is_never_still_makes_few_writes(center_watts, noise_watts, most_a_second):
    """One hour of decisions, each ten seconds."""
    clock, rng, writes = Clock(), random.Random(7), 0
    found, names = AvailableWatts(clock), list(HIGHEST)
    before = dict.fromkeys(names)
    for _ in range(360):
        clock.now_s += 10.0
        above = chain(300.0, center_watts + rng.gauss(0.0, noise_watts))
        found.update(dict.fromkeys(names, above), HIGHEST, frozenset())
        after = {name: found.of(name) for name in names}
        writes += sum(after[name] != before[name] for name in names)
        before = after
    assert 0 < writes / 3_600.0 <= most_a_second
