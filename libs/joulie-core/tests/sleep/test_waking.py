"""Which sleeping nodes are woken for pods that have no room."""

from hypothesis import given
from hypothesis import strategies as st

from joulie_core.kinds.node_sleep_policy import SleepSettings
from joulie_core.sleep.bounds import BootRoom
from joulie_core.sleep.fit import NodeRoom, PodGroup, grouped
from joulie_core.sleep.model import SleepNode, SleepPod
from joulie_core.sleep.waking import MAX_CHOSEN, MAX_GROUPS, WakeCandidate, choose


def candidate(name, cpu=4.0, *, silent=False, boots=True, watts=100.0, sleeps=0, labels=None) -> WakeCandidate:
    node = SleepNode(
        name=name,
        group="g",
        labels=labels or {},
        free={"cpu": cpu},
        idle_watts=watts,
        ready=False,
        protected_pods=0,
        power=None,
    )
    return WakeCandidate(node, (silent, boots, watts, sleeps, name))


def pods(count, cpu=1.0, **pod) -> PodGroup:
    return PodGroup(SleepPod(requests={"cpu": cpu}, **pod), count)


def chosen(groups, candidates, *, max_boots=99, turn=0) -> list[str]:
    boots = BootRoom(0.0, SleepSettings(rates={"waking": 100, "waking_per_rack": 100}))
    for _ in range(100 - max_boots):
        boots.take(candidate("another").node)
    return [node.name for node in choose(groups, candidates, boots=boots, turn=turn)]


def test_as_many_nodes_are_woken_as_the_pods_need():
    groups = [pods(9)]
    assert chosen(groups, [candidate(f"n{number}") for number in range(5)]) == ["n0", "n1", "n2"]
    assert groups[0].count == 0


def test_a_node_that_takes_more_pods_is_woken_first():
    assert chosen([pods(9)], [candidate("small"), candidate("large", cpu=8.0)]) == ["large", "small"]


def test_a_node_is_woken_for_pods_of_several_groups():
    assert chosen([pods(2), pods(1, cpu=2.0), pods(1, cpu=3.0)], [candidate("a"), candidate("b")]) == ["a", "b"]


def test_among_equals_those_that_need_no_boot_then_few_watts_then_few_sleeps_come_first():
    candidates = [
        candidate("worn", sleeps=2),
        candidate("fresh", sleeps=1),
        candidate("thrifty", watts=50.0),
        candidate("draining", watts=200.0, boots=False),
    ]
    assert chosen([pods(16)], candidates) == ["draining", "thrifty", "fresh", "worn"]


def test_a_node_whose_bmc_is_silent_is_woken_only_where_no_other_takes_a_pod():
    candidates = [candidate("silent", cpu=8.0, silent=True), candidate("a"), candidate("b")]
    assert chosen([pods(8)], candidates) == ["a", "b"]
    assert chosen([pods(12)], candidates) == ["a", "b", "silent"]


def test_no_more_nodes_boot_than_are_permitted_and_others_are_chosen_all_the_same():
    candidates = [*(candidate(f"off{number}") for number in range(4)), candidate("draining", cpu=1.0, boots=False)]
    assert chosen([pods(40)], candidates, max_boots=2) == ["off0", "off1", "draining"]
    assert chosen([pods(40)], candidates, max_boots=0) == ["draining"]
    assert chosen([pods(40)], candidates, max_boots=-3) == ["draining"]


def test_nothing_is_woken_for_pods_that_fit_nowhere():
    groups = [pods(3, cpu=5.0), pods(3, node_selector={"pool": "x"})]
    assert chosen(groups, [candidate("a"), candidate("b")]) == []
    assert chosen([], [candidate("a")]) == []
    assert chosen([pods(1)], []) == []


def test_nodes_that_a_selector_tells_apart_are_compared_by_it():
    candidates = [candidate(f"n{number}", labels={"host": f"n{number}"}) for number in range(9)]
    groups = [pods(1, node_selector={"host": "n7"}), pods(1, node_selector={"host": "n3"})]
    assert sorted(chosen(groups, candidates)) == ["n3", "n7"]


def test_one_decision_chooses_a_bounded_number_of_nodes():
    candidates = [candidate(f"n{number:03}") for number in range(2 * MAX_CHOSEN)]
    assert len(chosen([pods(9999)], candidates, max_boots=9999)) == MAX_CHOSEN


def test_where_there_are_too_many_groups_they_take_turns():
    groups = [pods(1, cpu=1.0 + number / 1e6, node_selector={"host": "a"}) for number in range(MAX_GROUPS)]
    groups.append(pods(1, node_selector={"host": "b"}))
    candidates = [candidate(name, cpu=1.5, labels={"host": name}) for name in ("a", "b")]

    def woken(turn):
        return chosen([PodGroup(group.pod, group.count) for group in groups], candidates, turn=turn)

    assert woken(0) == ["a"]
    assert woken(1) == ["a", "b"]


def test_groups_that_fit_nowhere_leave_their_turn_to_others():
    groups = [pods(1, cpu=100.0 + number) for number in range(2 * MAX_GROUPS)]
    assert chosen([*groups, pods(1)], [candidate("a")]) == ["a"]


@given(
    st.lists(st.sampled_from([0.5, 1.0, 1.5, 3.0, 5.0]), max_size=12),
    st.lists(st.tuples(st.sampled_from([1.0, 2.0, 4.0]), st.booleans(), st.booleans()), max_size=6),
    st.integers(0, 6),
)
def test_every_chosen_node_takes_a_pod_and_what_is_left_fits_no_other_that_may_boot(requests, nodes, max_boots):
    candidates = [candidate(f"n{at}", cpu, silent=silent, boots=boots) for at, (cpu, silent, boots) in enumerate(nodes)]
    groups = grouped(SleepPod(requests={"cpu": cpu}) for cpu in requests)
    waiting = len(requests)
    names = chosen(groups, candidates, max_boots=max_boots)
    assert len(set(names)) == len(names)
    assert sum(each.boots for each in candidates if each.node.name in names) <= max_boots
    assert waiting - sum(group.count for group in groups) >= len(names)
    if sum(each.boots for each in candidates if each.node.name in names) < max_boots:
        others = [NodeRoom(each.node) for each in candidates if each.node.name not in names]
        assert not any(room.capacity(group.pod, group.count) for room in others for group in groups if group.count)
