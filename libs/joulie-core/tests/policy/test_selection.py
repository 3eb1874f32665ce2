"""Which nodes supply performance: docs/decisions/0013-conventions.md, Planning."""

from joulie_core.policy.selection import Choice, plan_densest


def test_denser_nodes_supply_performance_first(node, performance):
    assert performance(plan_densest([node("a", 1), node("b", 4), node("c", 2), node("d", 3)], 2, "")) == {"b", "d"}


def test_equal_density_is_decided_by_name(node, performance):
    assert performance(plan_densest([node("d"), node("b"), node("c"), node("a")], 2, "")) == {"a", "b"}


def test_every_family_keeps_its_densest_node_where_the_count_has_room(node, performance):
    mixed = [
        *(node(f"gpu-{index}", 10 - index / 10, "H100") for index in range(4)),
        *(node(f"new-{index}", 3 - index / 10, "EPYC") for index in range(4)),
        *(node(f"old-{index}", 1 - index / 10, "Xeon") for index in range(4)),
    ]
    plan = plan_densest(mixed, 6, "")
    assert performance(plan) == {"gpu-0", "gpu-1", "gpu-2", "gpu-3", "new-0", "old-0"}
    assert plan.choices["old-0"] is Choice.FAMILY_FLOOR
    assert plan.choices["gpu-1"] is Choice.DENSITY
    assert plan.choices["old-1"] is Choice.SURPLUS


def test_a_count_below_the_number_of_families_is_filled_by_density_alone(node, performance):
    mixed = [node("gpu-0", 10, "H100"), node("gpu-1", 9, "H100"), node("new-0", 3, "EPYC"), node("old-0", 1, "Xeon")]
    assert performance(plan_densest(mixed, 2, "")) == {"gpu-0", "gpu-1"}


def test_a_count_beyond_the_nodes_is_all_of_them(node, performance):
    assert performance(plan_densest([node("a")], 9, "")) == {"a"}
    assert plan_densest([node("a")], -1, "").performance_count == 0
