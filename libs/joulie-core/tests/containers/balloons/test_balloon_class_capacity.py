"""How many CPUs of a class the balloons of a node can have; the machine has 32 CPUs, of which CPU 0 is reserved."""

from joulie_testing.core.containers import container


def capacity(node, *types, **options):
    return node(*types, **options).policy.class_capacity()


def eco(**options):
    return {"name": "a", "cpuClass": "eco", **options}


def test_a_type_without_bounds_can_have_all_cpus_but_the_reserved_ones(node):
    assert capacity(node, eco()) == {"eco": 31_000}


def test_bounds_of_a_type_bound_its_class(node):
    assert capacity(node, eco(maxCPUs=3, maxBalloons=2)) == {"eco": 6_000}
    assert capacity(node, eco(maxCPUs=3)) == {"eco": 31_000}
    assert capacity(node, eco(maxBalloons=2)) == {"eco": 31_000}


def test_types_of_one_class_add_up_as_far_as_there_are_cpus(node):
    types = [{"name": name, "cpuClass": "eco", "maxCPUs": 10, "maxBalloons": 1} for name in ("a", "b", "c", "d")]
    assert capacity(node, *types[:2]) == {"eco": 20_000}
    assert capacity(node, *types) == {"eco": 31_000}


def test_cpus_that_balloons_of_other_classes_always_have_are_not_counted(node):
    other = {"name": "b", "cpuClass": "performance", "minCPUs": 4, "minBalloons": 2}
    assert capacity(node, eco(), other) == {"eco": 23_000, "performance": 31_000}
    assert capacity(node, other, eco()) == {"eco": 23_000, "performance": 31_000}


def test_a_type_that_can_have_no_cpus_has_none_of_its_class(node):
    assert capacity(node, eco(maxCPUs=-1)) == {"eco": 0}


def test_components_count_within_the_bounds_of_their_composite(node):
    parts = [
        {"name": "fast", "cpuClass": "performance", "maxCPUs": 4, "maxBalloons": 1},
        {"name": "slow", "cpuClass": "eco", "maxCPUs": 6, "maxBalloons": 1},
    ]
    pair = {"name": "pair", "components": [{"balloonType": "fast"}, {"balloonType": "slow"}], "maxBalloons": 2}
    assert capacity(node, *parts, pair) == {"eco": 18_000, "performance": 12_000}


def test_what_runs_changes_nothing(node):
    found = node(eco(namespaces=["*"]))
    before = found.policy.class_capacity()
    assert found.add(container("x", 5000)).policy.class_capacity() == before
