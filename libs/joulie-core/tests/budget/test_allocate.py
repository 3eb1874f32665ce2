"""Shares of limits: sums, floors, priorities, and the same without starting again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from joulie_core.budget import Allocator, BudgetDomain, NodeWants, floors_of, plant, wants_of


@st.composite
def trees(draw, most_limit=6000):
    """A tree of one to three levels with up to twelve nodes."""
    limits = st.integers(200, most_limit)
    domains = [BudgetDomain("d", draw(limits))]
    leaves = []
    for row in range(draw(st.integers(0, 3))):
        domains.append(BudgetDomain(f"d{row}", draw(limits), "d", draw(st.integers(0, 100))))
        racks = [
            BudgetDomain(f"d{row}{rack}", draw(limits), f"d{row}", priority=draw(st.integers(-1, 1)))
            for rack in range(draw(st.integers(0, 2)))
        ]
        leaves += racks or [domains.pop()]
    leaves = leaves or [domains.pop()]
    number = 0
    for leaf in leaves:
        nodes = tuple(f"n{number + i}" for i in range(draw(st.integers(0, 4))))
        number += len(nodes)
        domains.append(BudgetDomain(leaf.name, leaf.limit_mw, leaf.parent, leaf.reserve_mw, leaf.priority, nodes=nodes))
    (tree,) = plant(domains).trees
    return tree


@st.composite
def wants(draw):
    lowest = draw(st.integers(0, 300))
    highest = lowest + draw(st.integers(0, 700))
    return wants_of(lowest, draw(st.none() | st.integers(0, 1200)), highest)


@st.composite
def problems(draw):
    tree = draw(trees())
    return tree, {node: draw(wants()) for node in sorted(tree.leaf_of)}


def targets(tree, wanted):
    return dict(Allocator(tree, wanted).targets())


def flat(limit_mw, *wanted, reserve_mw=0):
    """The shares of racks of one node each, of priorities 0, 1, 2 ..."""
    names = [f"n{number}" for number in range(len(wanted))]
    racks = [BudgetDomain(f"r{name}", 10**9, "d", priority=i, nodes=(name,)) for i, name in enumerate(names)]
    (tree,) = plant([BudgetDomain("d", limit_mw, reserve_mw=reserve_mw), *racks]).trees
    shares = targets(tree, dict(zip(names, (wants_of(*each) for each in wanted), strict=True)))
    return [shares[name] for name in names]


@given(problems())
def test_no_sum_is_above_a_limit_unless_the_lowest_shares_are(problem):
    tree, wanted = problem
    shares = targets(tree, wanted)
    lowest = tree.sums({node: each.lowest_mw for node, each in wanted.items()})
    for domain, total, least in zip(tree.domains, tree.sums(shares), lowest, strict=True):
        assert total <= max(domain.usable_mw, least)


@given(problems())
def test_every_share_is_within_the_bounds_of_its_node(problem):
    tree, wanted = problem
    for node, share in targets(tree, wanted).items():
        assert wanted[node].lowest_mw <= share <= wanted[node].highest_mw


@given(problems(), st.integers(1, 3000))
def test_a_higher_limit_of_the_root_lowers_no_share(problem, more):
    tree, wanted = problem
    root, *others = tree.domains
    higher = BudgetDomain(root.name, root.limit_mw + more, priority=root.priority, nodes=root.nodes)
    (raised,) = plant([higher, *others]).trees
    before, after = targets(tree, wanted), targets(raised, wanted)
    assert [node for node in before if after[node] < before[node]] == []


@given(problems())
def test_the_root_is_used_up_or_everything_below_it_is(problem):
    tree, wanted = problem
    used = tree.sums(targets(tree, wanted))
    # What each domain can use at most: all that its nodes may have, within its own limit.
    useful = [sum(wanted[node].highest_mw for node in domain.nodes) for domain in tree.domains]
    lowest = tree.sums({node: each.lowest_mw for node, each in wanted.items()})
    for index in reversed(range(len(useful))):
        useful[index] = min(useful[index], max(tree.domains[index].usable_mw, lowest[index]))
        if index:
            useful[tree.parents[index]] += useful[index]
    if all(least <= domain.usable_mw for least, domain in zip(lowest, tree.domains, strict=True)):
        # Each division leaves less than a milliwatt for each of its parts and priorities.
        assert useful[0] - 5 * (len(tree.domains) + len(wanted)) <= used[0] <= useful[0]


@settings(max_examples=200)
@given(problems(), st.lists(st.tuples(st.integers(0, 11), wants()), max_size=6))
def test_shares_after_changes_are_those_of_a_new_allocation(problem, changes):
    tree, wanted = problem
    allocator = Allocator(tree, wanted)
    allocator.targets()
    for number, each in changes:
        if (node := f"n{number}") in wanted:
            wanted[node] = each
            allocator.change(node, each)
            assert allocator.targets() == targets(tree, wanted)


def test_demand_is_served_by_priority_and_the_rest_shared_up_to_the_highest():
    assert flat(1000, (100, 500, 600), (100, 500, 600)) == [500, 500]
    assert flat(800, (100, 500, 600), (100, 500, 600)) == [300, 500]
    assert flat(550, (100, 500, 600), (100, 500, 600)) == [100, 450]
    assert flat(1100, (100, 500, 600), (100, 500, 600)) == [550, 550]
    assert flat(5000, (100, 500, 600), (100, 500, 600)) == [600, 600]


def test_within_a_priority_shares_are_in_proportion_to_what_is_wanted():
    (tree,) = plant([BudgetDomain("d", 600, nodes=("a", "b"))]).trees
    assert targets(tree, {"a": wants_of(100, 200, 900), "b": wants_of(100, 400, 900)}) == {"a": 200, "b": 400}
    (tree,) = plant([BudgetDomain("d", 400, nodes=("a", "b"))]).trees
    assert targets(tree, {"a": wants_of(100, 200, 900), "b": wants_of(100, 400, 900)}) == {"a": 150, "b": 250}


def test_the_reserve_is_given_to_no_node():
    assert flat(1000, (100, 900, 900), reserve_mw=300) == [700]


def test_a_demand_that_is_not_known_counts_as_the_highest():
    assert flat(750, (100, None, 700), (100, 100, 700)) == flat(750, (100, 700, 700), (100, 100, 700)) == [650, 100]


# --- floors -----------------------------------------------------------------------------------------------------------


def test_floors_are_watts_or_a_share_of_the_highest_and_at_least_the_lowest_limit():
    tree = plant([BudgetDomain("d", 10_000, floor_mw=300, floor_pct=50.0, nodes=("a", "b", "c"))]).trees[0]
    floors, refusals = floors_of(tree, {"a": (100, 500), "b": (100, 900), "c": (100, 200)})
    assert (floors, refusals) == ({"a": 300, "b": 450, "c": 200}, [])


def test_a_floor_below_the_minimum_of_the_hardware_is_refused_by_the_node_with_the_number():
    tree = plant([BudgetDomain("d", 10_000_000, floor_mw=300_000, nodes=("a",))]).trees[0]
    floors, (refusal,) = floors_of(tree, {"a": (400_000, 500_000)})
    assert floors == {"a": 400_000}
    assert (refusal.problem, refusal.domain) == ("FloorBelowMinimum", "d")
    assert refusal.message == "the floor of 300 W is below the minimum of a, 400 W"


def test_floors_that_do_not_fit_are_refused_where_they_do_not_with_both_numbers():
    domains = [
        BudgetDomain("d", 3_000_000),
        BudgetDomain("r1", 500_000, "d", floor_mw=300_000, nodes=("a", "b")),
        BudgetDomain("r2", 700_000, "d", floor_mw=300_000, nodes=("c", "e")),
    ]
    ranges = dict.fromkeys("abce", (100_000, 900_000))
    floors, (refusal,) = floors_of(plant(domains).trees[0], ranges)
    assert floors == {"a": 100_000, "b": 100_000, "c": 300_000, "e": 300_000}
    assert (refusal.domain, refusal.problem) == ("r1", "FloorsDoNotFit")
    assert refusal.message == "floors of 600 W do not fit into 500 W"


def test_floors_that_do_not_fit_above_are_refused_below():
    domains = [BudgetDomain("d", 1000)] + [
        BudgetDomain(rack, 900, "d", floor_mw=300, nodes=nodes) for rack, nodes in (("r1", "ab"), ("r2", "ce"))
    ]
    floors, refusals = floors_of(plant(domains).trees[0], dict.fromkeys("abce", (100, 900)))
    assert set(floors.values()) == {100}
    assert [(each.domain, each.problem) for each in refusals] == [("d", "FloorsDoNotFit")]


@given(problems(), st.integers(0, 600), st.integers(0, 100))
def test_floors_fit_into_every_limit_that_the_lowest_limits_fit_into(problem, floor_mw, floor_pct):
    tree, wanted = problem
    domains = [
        BudgetDomain(
            each.name, each.limit_mw, each.parent, priority=each.priority,
            floor_mw=floor_mw, floor_pct=floor_pct, nodes=each.nodes,
        )
        for each in tree.domains
    ]  # fmt: skip
    (tree,) = plant(domains).trees
    ranges = {node: (each.lowest_mw, each.highest_mw) for node, each in wanted.items()}
    floors, _ = floors_of(tree, ranges)
    lowest = tree.sums({node: span[0] for node, span in ranges.items()})
    for domain, total, least in zip(tree.domains, tree.sums(floors), lowest, strict=True):
        assert total <= max(domain.usable_mw, least)


def left_above(tree, allocator, node):
    """What each domain above a node has left for it."""
    index, left = tree.leaf_of[node], []
    priority = tree.domains[index].priority
    while index >= 0:
        left.append(allocator.left_mw(index, priority))
        index = tree.parents[index]
    return left


@given(problems(), st.data())
def test_what_all_domains_above_a_node_have_left_is_given_to_it_where_it_wants_more(problem, data):
    tree, wanted = problem
    if not wanted:
        return
    node = data.draw(st.sampled_from(sorted(wanted)))
    allocator = Allocator(tree, wanted)
    allocator.targets()
    left = min(left_above(tree, allocator, node))
    if left < 0:
        return
    more = data.draw(st.integers(0, left))
    before = wanted[node]
    demand = before.demand_mw + more
    allocator.change(node, NodeWants(before.lowest_mw, demand, max(before.highest_mw, demand)))
    assert allocator.targets()[node] >= demand


@given(problems(), st.data())
def test_what_is_beyond_it_is_not_to_be_had_without_taking_from_its_equals(problem, data):
    tree, wanted = problem
    if not wanted:
        return
    node = data.draw(st.sampled_from(sorted(wanted)))
    allocator = Allocator(tree, wanted)
    allocator.targets()
    left, before = min(left_above(tree, allocator, node)), wanted[node]
    leaf = tree.domains[tree.leaf_of[node]]
    demand = before.demand_mw + max(left, 0) + 1
    allocator.change(node, NodeWants(before.lowest_mw, demand, max(before.highest_mw, demand)))
    shares = allocator.targets()
    names = [name for name in wanted if tree.domains[tree.leaf_of[name]].priority >= leaf.priority]
    after = {**wanted, node: NodeWants(before.lowest_mw, demand, max(before.highest_mw, demand))}
    assert any(shares[name] < after[name].demand_mw for name in names)


def test_demand_of_a_lower_priority_is_not_taken_off_but_its_lowest_shares_are():
    racks = [BudgetDomain(f"r{rank}", 10**9, "d", priority=rank, nodes=(f"n{rank}",)) for rank in (0, 1)]
    (tree,) = plant([BudgetDomain("d", 1000), *racks]).trees
    allocator = Allocator(tree, {"n0": wants_of(100, 700, 800), "n1": wants_of(50, 200, 800)})
    allocator.targets()
    assert left_above(tree, allocator, "n1")[-1] == 1000 - 100 - 200
    assert left_above(tree, allocator, "n0")[-1] == 1000 - 700 - 200
