"""Where pods have room."""

import pytest

from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_core.sleep.fit import NodeRoom, PodGroup, Rooms, grouped
from joulie_core.sleep.model import NodeTaint, PodToleration, SleepNode, SleepPod


def node(name="n", *, labels=None, taints=(), **free) -> SleepNode:
    return SleepNode(
        name=name,
        group="g",
        labels=labels or {},
        taints=taints,
        free=free or {"cpu": 4.0},
        idle_watts=100.0,
        ready=True,
        protected_pods=0,
        power=None,
    )


def pod(cpu=1.0, **pod) -> SleepPod:
    return SleepPod(requests={"cpu": cpu, **pod.pop("requests", {})}, **pod)


def term(operator, *values, key="pool") -> tuple[Term, ...]:
    return (Term(expressions=(Requirement(key, operator, values),)),)


def named(operator, *values, key="metadata.name") -> tuple[Term, ...]:
    return (Term(fields=(Requirement(key, operator, values),)),)


def names(placed) -> dict[str, int]:
    return {room.node.name: count for room, count in placed}


def test_pods_that_are_alike_are_one_group_in_the_order_of_the_first():
    groups = grouped([pod(1), pod(2), pod(1), pod(1, node_selector={"a": "b"}), pod(1, tolerations=(PodToleration(),))])
    assert [(group.pod.requests["cpu"], group.count) for group in groups] == [(1, 2), (2, 1), (1, 1), (1, 1)]


def test_a_node_takes_as_many_pods_as_its_scarcest_resource_permits():
    room = NodeRoom(node(cpu=10.0, memory=7.0))
    assert room.take(pod(2.0, requests={"memory": 2.0}), 9) == 3
    assert room.free == {"cpu": 4.0, "memory": 1.0}
    assert room.used


@pytest.mark.parametrize("amount", [0.1, 0.3, 1 / 3, 0.7])
def test_amounts_that_are_rounded_fill_a_node_to_its_end(amount):
    room = NodeRoom(node(cpu=10 * amount))
    assert room.take(pod(amount), 99) == 10
    assert room.take(pod(amount)) == 0


def test_a_resource_that_a_node_does_not_have_is_not_there():
    room = NodeRoom(node(cpu=8.0))
    assert room.take(pod(requests={"nvidia.com/gpu": 1.0})) == 0
    assert room.take(pod(requests={"nvidia.com/gpu": 0.0})) == 1
    rooms = Rooms([node("cpus", cpu=8.0), node("gpus", cpu=8.0, **{"nvidia.com/gpu": 2.0})])
    assert names(rooms.place(PodGroup(pod(requests={"nvidia.com/gpu": 1.0}), 3))) == {"gpus": 2}


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({"node_selector": {"pool": "a"}}, ["a"]),
        ({"node_selector": {"pool": "x"}}, []),
        ({"node_selector": {"pool": "a", "team": "x"}}, []),
        ({"required_terms": term(SelectorOperator.IN, "a", "b", "a")}, ["a", "b"]),
        ({"required_terms": term(SelectorOperator.NOT_IN, "a")}, ["b", "none"]),
        ({"required_terms": term(SelectorOperator.DOES_NOT_EXIST)}, ["none"]),
        ({"required_terms": term(SelectorOperator.IN, "a") + term(SelectorOperator.IN, "b")}, ["a", "b"]),
        ({"required_terms": ()}, []),
        ({"required_terms": (Term(),)}, []),
        ({"required_terms": named(SelectorOperator.IN, "b")}, ["b"]),
        ({"required_terms": named(SelectorOperator.IN, "gone")}, []),
        ({"required_terms": named(SelectorOperator.NOT_IN, "b")}, ["a", "none"]),
        ({"required_terms": named(SelectorOperator.IN, "b", key="metadata.namespace")}, []),
        ({"required_terms": named(SelectorOperator.IN, "b") + term(SelectorOperator.IN, "a")}, ["a", "b"]),
    ],
)
def test_a_pod_has_room_where_labels_admit_it(asked, fits):
    rooms = Rooms([node("a", labels={"pool": "a"}), node("b", labels={"pool": "b"}), node("none")])
    assert [rooms.all[at].node.name for at in rooms.fitting(pod(**asked), 9)] == fits


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it_unless_it_is_a_preference():
    taint = NodeTaint("team", "a", "NoExecute")
    rooms = Rooms([node("tainted", taints=(taint,)), node("soft", taints=(NodeTaint("x", effect="PreferNoSchedule"),))])
    assert names(rooms.place(PodGroup(pod(), 9))) == {"soft": 4}
    assert names(rooms.place(PodGroup(pod(tolerations=(PodToleration("team", "b"),)), 9))) == {}
    assert names(rooms.place(PodGroup(pod(tolerations=(PodToleration("team", "a"),)), 9))) == {"tainted": 4}


def test_a_group_fills_the_fullest_nodes_that_have_room_first():
    rooms = Rooms([node("large", cpu=8.0), node("full", cpu=0.5), node("small", cpu=2.0)])
    group = PodGroup(pod(1.0), 5)
    assert names(rooms.place(group)) == {"small": 2, "large": 3}
    assert group.count == 0


def test_what_no_node_takes_stays_in_the_group():
    rooms = Rooms([node("a"), node("b")])
    group = PodGroup(pod(3.0), 5)
    rooms.place(group)
    assert group.count == 3
    rooms.place(group)
    assert group.count == 3, "the nodes are full now"


def test_nodes_that_are_left_out_take_nothing():
    rooms = Rooms([node("a"), node("b")])
    assert names(rooms.place(PodGroup(pod(), 9), without={"a"})) == {"b": 4}


def test_pods_are_placed_all_or_none():
    rooms = Rooms([node("a"), node("b")])
    assert not rooms.place_all([pod(3.0), pod(3.0), pod(2.0)])
    assert [room.free["cpu"] for room in rooms.all] == [4.0, 4.0]
    assert rooms.place_all([pod(3.0), pod(3.0)])
    assert not rooms.place_all([pod(2.0)]), "what was placed before stays"


def test_beyond_the_number_of_looks_no_pod_has_room():
    rooms = Rooms([node(f"n{number}", cpu=1.0) for number in range(5)], looks=3)
    group = PodGroup(pod(), 5)
    rooms.place(group)
    assert group.count == 2
    assert rooms.fitting(pod(), 9) == []


def test_only_nodes_with_the_label_or_the_amount_are_looked_at():
    rooms = Rooms(
        [node(f"n{number}", labels={"host": f"n{number}"}, cpu=float(number)) for number in range(1, 1001)], looks=10
    )
    assert names(rooms.place(PodGroup(pod(node_selector={"host": "n7"}), 1))) == {"n7": 1}
    required = term(SelectorOperator.IN, "n8", "n9", key="host")
    assert names(rooms.place(PodGroup(pod(required_terms=required), 9))) == {"n8": 8, "n9": 1}
    assert names(rooms.place(PodGroup(pod(999.0), 2))) == {"n999": 1, "n1000": 1}
