"""Which balloon of its type a container gets."""

from dataclasses import replace

from joulie_testing.core.containers import container


def of(name, **options):
    return {"name": "t", "namespaces": ["default"], **options} | ({"name": name} if name else {})


def test_balloons_that_always_exist_are_created_at_start_by_priority(node):
    found = node(
        of("low", minBalloons=1, minCPUs=2, allocatorPriority="low"),
        of("high", minBalloons=2, minCPUs=3, allocatorPriority="high"),
    )
    assert found.balloons() == {"default[0]": 0, "high[0]": 3, "high[1]": 3, "low[0]": 2, "reserved[0]": 1}
    # CPU 0 is reserved; the type of high priority had the choice of what is left.
    assert found.balloon("high[0]") | found.balloon("high[1]") <= found.machine.packages[0]


def test_a_container_joins_a_balloon_with_room_before_one_grows_or_is_created(node):
    found = node(of("t", minCPUs=2, maxCPUs=4)).add(container("a", 1500), container("b", 500))
    assert found.zone("b") == "t[0]"
    assert found.balloons()["t[0]"] == 2


def test_a_balloon_grows_up_to_its_limit_before_another_is_created(node):
    found = node(of("t", maxCPUs=4)).add(container("a", 3000), container("b", 1000), container("c", 1000))
    assert (found.zone("b"), found.zone("c")) == ("t[0]", "t[1]")
    assert found.balloons()["t[0]"] == 4


def test_a_balloon_does_not_grow_beyond_its_limit_even_where_more_is_idle(node):
    found = node(of("t", maxCPUs=4, maxBalloons=1)).add(container("a", 3500))
    reason = found.refuse(container("b", 1000))
    assert reason.startswith("no balloon of type t has room for 1000 milli-CPUs: t[0] has 500 milli-CPUs")
    assert "and can grow to 4 CPUs" in reason


def test_new_balloons_are_preferred_where_the_type_says_so(node):
    found = node(of("t", preferNewBalloons=True, maxBalloons=2)).add(
        container("a", 100), container("b", 100), container("c", 100)
    )
    assert [found.zone(name) for name in "abc"] == ["t[0]", "t[1]", "t[0]"]


def test_an_empty_balloon_is_used_before_a_new_one_is_created(node):
    found = node(of("t", preferNewBalloons=True, minBalloons=1, minCPUs=2)).add(container("a", 100))
    assert found.zone("a") == "t[0]"
    assert found.add(container("b", 100)).zone("b") == "t[1]"


def test_the_lowest_free_number_is_used_for_a_new_balloon(node):
    found = node(of("t", preferNewBalloons=True)).add(*(container(name, 100) for name in "abc")).remove("b")
    assert found.add(container("d", 100)).zone("d") == "t[1]"


def test_containers_of_a_pod_share_a_balloon(node):
    found = node(of("t", preferNewBalloons=True)).add(
        container("a", 100, pod="p"), container("b", 100, pod="p"), container("c", 100, pod="q")
    )
    assert [found.zone(name) for name in "abc"] == ["t[0]", "t[0]", "t[1]"]


def test_containers_of_a_pod_are_spread_where_the_type_says_so(node):
    found = node(of("t", preferNewBalloons=True, preferSpreadingPods=True)).add(
        container("a", 100, pod="p"), container("b", 100, pod="p")
    )
    assert found.zone("b") == "t[1]"


def test_a_second_pod_of_the_same_name_is_another_pod(node):
    found = node(of("t", preferNewBalloons=True))
    pods = [replace(container(each, pod=f"sandbox-{each}").pod, name="web", uid="x") for each in "ab"]
    first, second = (replace(container(pod.id[-1], 2000), pod=pod) for pod in pods)
    found.add(first, second)
    assert found.zone("a") != found.zone("b")
    assert found.cpus("a").isdisjoint(found.cpus("b"))


def test_containers_of_a_namespace_share_a_balloon_and_others_get_another(node):
    found = node(of("t", namespaces=["n*"], preferPerNamespaceBalloon=True)).add(
        container("a", 100, namespace="n1"), container("b", 100, namespace="n2"), container("c", 100, namespace="n1")
    )
    assert [found.zone(name) for name in "abc"] == ["t[0]", "t[1]", "t[0]"]


def test_containers_of_a_group_share_a_balloon(node):
    found = node(of("t", groupBy="${pod/labels/app}", preferNewBalloons=True)).add(
        container("a", 100, labels={"app": "x"}),
        container("b", 100, labels={"app": "y"}),
        container("c", 100, labels={"app": "x"}),
    )
    assert [found.zone(name) for name in "abc"] == ["t[0]", "t[1]", "t[0]"]
    groups = {zone.name: zone.attributes["groups"] for zone in found.policy.zones(found.state)}
    assert (groups["t[0]"], groups["t[1]"]) == ("x", "y")


def test_a_group_without_room_in_its_balloon_goes_on_elsewhere(node):
    found = node(of("t", groupBy="${pod/labels/app}", maxCPUs=1)).add(
        container("a", 1000, labels={"app": "x"}), container("b", 500, labels={"app": "x"})
    )
    assert found.zone("b") == "t[1]"


def test_the_balloon_with_the_most_room_is_chosen(node):
    found = node(of("t", minBalloons=2, minCPUs=2, maxCPUs=2)).add(container("a", 500), container("b", 200))
    assert (found.zone("a"), found.zone("b")) == ("t[0]", "t[1]")
    assert found.add(container("c", 200)).zone("c") == "t[1]"


def test_containers_without_a_request_are_spread_by_their_number(node):
    found = node(of("t", minBalloons=2, minCPUs=2, maxCPUs=2)).add(container("a", 1900))
    found.add(*(container(name) for name in "bcd"))
    # Where the numbers are equal, the room counts.
    assert [found.zone(name) for name in "abcd"] == ["t[0]", "t[1]", "t[1]", "t[0]"]


def test_a_limit_of_balloons_counts_components(node):
    found = node(
        of("part", namespaces=["part"], maxBalloons=2),
        of("whole", components=[{"balloonType": "part"}, {"balloonType": "part"}]),
    ).add(container("a", 2000))
    assert "no balloon of type part has room" in found.refuse(container("b", 1, namespace="part"))


def test_a_container_that_fits_nowhere_changes_nothing(node):
    found = node(of("t", maxBalloons=2)).add(container("a", 20_000))
    assert "11 CPUs are idle" in found.refuse(container("b", 12_000))


def test_a_new_balloon_needs_its_least_number_of_idle_cpus(node):
    found = node(of("t", minCPUs=16, maxCPUs=16)).add(container("a", 1))
    assert "there is" not in found.refuse(container("b", 16_000))
