"""Which nodes wake for pods that have rules about others, or that ask for more than is simulated."""

import pytest

from joulie_core.kinds.node_bmc import PowerState
from joulie_core.pod import Requirement, SelectorOperator
from joulie_core.sleep import (
    NodePowerFacts,
    SleepCluster,
    SleepNode,
    SleepPod,
    SleepRecord,
    SleepSettings,
    SleepState,
    decide,
)
from joulie_core.sleep.neighbours import MAX_RULES
from joulie_core.sleep.pod_terms import PodSelector, PodSpread, PodTerm

NOW = 100_000.0
SETTINGS = SleepSettings(min_awake={"count": 0, "spare": 0}, rates={"waking": 10})
HOST, ZONE = "host", "zone"


def term(key=HOST, app="web") -> PodTerm:
    return PodTerm(PodSelector((Requirement("app", SelectorOperator.IN, (app,)),), frozenset({"x"})), key)


def pod(app="web", cpu=1.0, **fields) -> SleepPod:
    return SleepPod({"cpu": cpu}, namespace="x", labels={"app": app}, **fields)


APART = pod(anti_affinity=(term(),))
ZONES_APART = pod(anti_affinity=(term(ZONE),))
EVEN = pod(spreads=(PodSpread(term().selector, HOST),))
UNCERTAIN = SleepPod({"cpu": 1.0}, uncertain=True)


def node(name, pods=(), *, zone="a", asleep=False, **fields) -> SleepNode:
    return SleepNode(
        name=name,
        group="cpu",
        labels={HOST: name, ZONE: zone},
        free={"cpu": 8.0},
        idle_watts=100.0,
        ready=not asleep,
        cordoned=asleep,
        protected_pods=len(pods),
        pods=tuple(pods),
        power=NodePowerFacts(
            state=PowerState.OFF if asleep else PowerState.ON,
            sampled_at_s=NOW,
            reachable=True,
            wake_proven=True,
            off_allowed=True,
        ),
        **fields,
    )


def sleeping(*names, **fields) -> list[SleepNode]:
    return [node(name, asleep=True, **fields) for name in names]


def decided(nodes, pending, *, settings=SETTINGS, now_s=NOW, **states) -> dict[str, SleepState]:
    records = {
        each.name: SleepRecord(state=SleepState.ASLEEP if each.cordoned else SleepState.AWAKE, since_s=NOW - 5000)
        for each in nodes
    } | {name: SleepRecord(state=state, since_s=NOW - 10) for name, state in states.items()}
    found = decide(SleepCluster(nodes=nodes, pending=pending), records, now_s, settings)
    return {name: record.state for name, record in found.items()}


def woken(nodes, pending, **options) -> list[str]:
    return sorted(name for name, state in decided(nodes, pending, **options).items() if state is SleepState.WAKING)


def test_a_node_is_woken_for_a_pod_that_may_not_be_beside_another_though_there_is_room():
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], [APART]) == ["a"]


def test_as_many_nodes_are_woken_as_pods_keep_each_other_away():
    assert woken([node("busy", [pod()]), *sleeping("a", "b", "c")], [APART] * 2) == ["a", "b"]


def test_no_more_boot_than_are_permitted_for_pods_with_rules_either():
    settings = SETTINGS.model_copy(update={"rates": SETTINGS.rates.model_copy(update={"waking": 1})})
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], [APART] * 2, settings=settings) == ["a"]
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], [APART, pod(cpu=8.0)], settings=settings) == ["a"]


def test_no_more_boot_in_a_rack_than_are_permitted_for_pods_with_rules_either():
    settings = SETTINGS.model_copy(
        update={"rates": SETTINGS.rates.model_copy(update={"waking_per_rack": 1}), "rack_label": ZONE}
    )
    nodes = [node("busy", [pod()]), *sleeping("a", "b"), *sleeping("c", zone="c")]
    assert woken(nodes, [APART] * 3, settings=settings) == ["a", "c"]


def test_nothing_is_woken_for_a_pod_that_no_domain_permits():
    nodes = [node("busy", [pod()]), node("other", [pod()], zone="b"), *sleeping("a"), *sleeping("b", zone="b")]
    assert woken(nodes, [ZONES_APART] * 5) == []
    assert woken([*nodes, *sleeping("c", zone="c")], [ZONES_APART] * 5) == ["c"]


def test_nothing_is_woken_for_a_pod_that_wants_to_be_beside_one_that_is_nowhere():
    assert woken([node("busy"), *sleeping("a")], [pod(affinity=(term(app="db"),))]) == []


def test_a_node_is_woken_in_the_domain_of_the_pod_that_another_wants_to_be_beside():
    nodes = [node("busy", [pod("db")], zone="b", unschedulable=True), *sleeping("a"), *sleeping("z", zone="b")]
    assert woken(nodes, [pod(affinity=(term(ZONE, "db"),))]) == ["z"]


def test_a_sleeping_node_is_a_domain_that_a_spread_has_to_fill():
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], [EVEN]) == ["a"]
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], [EVEN] * 3) == ["a", "b"]


def test_a_pod_without_rules_wakes_a_node_where_others_keep_it_away():
    guard = pod("guard", anti_affinity=(term(app="web"),))
    nodes = [node("busy", [guard]), *sleeping("a", "b")]
    assert woken(nodes, [pod("web")]) == ["a"]
    assert woken(nodes, [pod("db")]) == []


def test_a_pod_that_has_room_by_the_rules_keeps_its_node_awake_and_wakes_none():
    assert decided([node("free"), *sleeping("a")], [APART]) == {"free": SleepState.AWAKE, "a": SleepState.ASLEEP}


def test_what_pods_with_rules_leave_of_a_node_is_for_the_others():
    nodes = [node("busy", [pod()], unschedulable=True), *sleeping("a", "b")]
    assert woken(nodes, [APART, pod("db", 8.0), pod("db", 7.0)]) == ["a", "b"]


def test_pods_with_rules_take_turns_where_they_are_too_many():
    pending = [pod(f"app{number}", cpu=9.0, anti_affinity=(term(),)) for number in range(MAX_RULES)]
    pending.append(pod("last", anti_affinity=(term(),)))
    nodes = [node("busy", unschedulable=True), *sleeping("a")]
    assert {bool(woken(nodes, pending, now_s=NOW + turn)) for turn in range(MAX_RULES + 1)} == {True, False}


@pytest.mark.parametrize("asked", [UNCERTAIN, SleepPod({"cpu": 1.0}, overdue=True)])
def test_one_node_is_tried_for_a_pod_that_kube_scheduler_does_not_place_where_there_is_room(asked):
    nodes = [node("busy", [pod()]), *sleeping("a", "b")]
    assert woken(nodes, [asked] * 5) == ["a"]
    # On its way it is awaited, and without pods it is kept: a second one like it would not help either.
    awaited = [nodes[0], *sleeping("a", "b")]
    assert woken(awaited, [asked] * 5, a=SleepState.WAKING) == ["a"]
    assert decided([nodes[0], node("a"), *sleeping("b")], [asked] * 5) == {
        "busy": SleepState.AWAKE,
        "a": SleepState.AWAKE,
        "b": SleepState.ASLEEP,
    }
    # With a pod on it, it has helped.
    assert woken([nodes[0], node("a", [pod()]), *sleeping("b")], [asked] * 4) == ["b"]


def test_pods_that_ask_for_different_things_are_tried_on_one_node():
    sizes = [SleepPod({"cpu": 1.0 + number / 10}, uncertain=True) for number in range(5)]
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], sizes) == ["a"]


def test_nothing_is_tried_for_a_pod_that_fits_no_node():
    assert woken([node("busy", [pod()]), *sleeping("a", "b")], [SleepPod({"cpu": 9.0}, uncertain=True)]) == []


def test_pods_that_have_waited_for_long_wake_as_many_nodes_as_they_need_where_there_is_no_room():
    late = SleepPod({"cpu": 8.0}, overdue=True)
    full = node("busy", [pod()], unschedulable=True)
    assert woken([full, *sleeping("a", "b", "c")], [late] * 2) == ["a", "b"]
