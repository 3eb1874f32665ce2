"""Where pods may run beside other pods."""

import pytest

from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_core.sleep.fit import PodGroup, Rooms, selects
from joulie_core.sleep.model import NodeTaint, SleepNode, SleepPod
from joulie_core.sleep.neighbours import Neighbours
from joulie_core.sleep.pod_terms import PodSelector, PodSpread, PodTerm

HOST, ZONE = "host", "zone"


def selector(namespaces=frozenset({"x"}), **labels) -> PodSelector:
    return PodSelector(
        tuple(Requirement(key, SelectorOperator.IN, (value,)) for key, value in labels.items()), namespaces
    )


def near(key=HOST, **labels) -> PodTerm:
    return PodTerm(selector(**labels), key)


def spread(key=HOST, app="web", **fields) -> PodSpread:
    return PodSpread(selector(app=app), key, **fields)


def pod(app="web", *, namespace="x", **fields) -> SleepPod:
    return SleepPod({"cpu": 1.0}, namespace=namespace, labels={"app": app}, **fields)


def node(name, zone="a", pods=(), *, taints=(), **labels) -> SleepNode:
    return SleepNode(
        name=name,
        group="g",
        labels={HOST: name, ZONE: zone} | labels,
        taints=taints,
        free={"cpu": 9.0},
        idle_watts=100.0,
        ready=True,
        protected_pods=0,
        pods=tuple(pods),
        power=None,
    )


def admitted(asked, nodes, opened=None) -> list[str]:
    around = Neighbours(nodes, [each.name for each in nodes] if opened is None else opened)
    able = [each for each in nodes if selects(each, asked)]
    if not around.concern(asked):
        return [each.name for each in able]
    rules = around.rules(asked)
    return [each.name for each in able if rules.admits(each)]


def test_pods_without_rules_are_concerned_by_none():
    nodes = [node("n1", pods=[pod("db")])]
    assert not Neighbours(nodes).concern(pod())
    assert not Neighbours(nodes).concern(SleepPod({"cpu": 1.0}, anti_affinity=())), "of no namespace"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (pod(anti_affinity=(near(app="web"),)), ["n2", "n3"]),
        (pod(anti_affinity=(near(ZONE, app="web"),)), ["n3"]),
        (pod(anti_affinity=(near(ZONE, app="web"), near(ZONE, app="db"))), []),
        (pod(anti_affinity=(near("rack", app="web"),)), ["n1", "n2", "n3"]),
        (pod(anti_affinity=(PodTerm(PodSelector(None), ZONE),)), ["n1", "n2", "n3"]),
        (pod(anti_affinity=(PodTerm(PodSelector(()), HOST),)), ["n1", "n2", "n3"]),
        (pod(anti_affinity=(PodTerm(PodSelector((), None), HOST),)), ["n2"]),
        (pod(affinity=(near(ZONE, app="db"),)), ["n3"]),
        (pod(affinity=(near(ZONE, app="web"),)), ["n1", "n2"]),
        (pod(affinity=(near(HOST, app="web"),)), ["n1"]),
        (pod(affinity=(near("rack", app="web"),)), []),
        (pod(affinity=(near(ZONE, app="cache"),)), []),
        (pod("cache", affinity=(near(ZONE, app="cache"),)), ["n1", "n2", "n3"]),
        (pod("cache", affinity=(near("rack", app="cache"),)), []),
        (pod(affinity=(near(ZONE, app="web"), near(ZONE, app="db"))), []),
        (pod(spreads=(spread(),)), ["n2", "n3"]),
        (pod(spreads=(spread(max_skew=2),)), ["n1", "n2", "n3"]),
        (pod(spreads=(spread(ZONE),)), ["n3"]),
        (pod("db", spreads=(spread(ZONE, app="web"),)), ["n1", "n2", "n3"]),
        (pod(spreads=(spread("rack"),)), []),
        (pod(spreads=(spread(ZONE), spread(HOST))), ["n3"]),
        (pod(spreads=(spread(ZONE, max_skew=2, min_domains=3),)), ["n1", "n2", "n3"]),
        (pod(spreads=(spread(ZONE, max_skew=1, min_domains=3),)), ["n3"]),
    ],
)
def test_a_pod_may_run_where_its_rules_permit(asked, expected):
    nodes = [node("n1", "a", [pod("web")]), node("n2", "a"), node("n3", "b", [pod("db")])]
    assert admitted(asked, nodes) == expected


def test_pods_of_other_namespaces_do_not_count_unless_they_are_named():
    nodes = [node("n1", pods=[pod("web", namespace="y")]), node("n2")]
    assert admitted(pod(anti_affinity=(near(app="web"),)), nodes) == ["n1", "n2"]
    elsewhere = PodTerm(selector(namespaces=frozenset({"x", "y"}), app="web"), HOST)
    assert admitted(pod(anti_affinity=(elsewhere,)), nodes) == ["n2"]
    everywhere = PodTerm(selector(namespaces=None, app="web"), HOST)
    assert admitted(pod(anti_affinity=(everywhere,)), nodes) == ["n2"]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (near(ZONE, app="web"), ["n3"]),
        (near(HOST, app="web"), ["n2", "n3"]),
        (near(ZONE, app="db"), ["n1", "n2", "n3"]),
        (PodTerm(PodSelector((Requirement("app", SelectorOperator.NOT_IN, ("db",)),), None), ZONE), ["n3"]),
        (PodTerm(selector(namespaces=frozenset({"y"}), app="web"), ZONE), ["n1", "n2", "n3"]),
        (near("rack", app="web"), ["n1", "n2", "n3"]),
        (PodTerm(PodSelector(None), ZONE), ["n1", "n2", "n3"]),
    ],
)
def test_pods_that_are_there_keep_others_away(term, expected):
    nodes = [node("n1", "a", [pod("guard", anti_affinity=(term,))]), node("n2", "a"), node("n3", "b")]
    assert admitted(pod("web"), nodes) == expected


def test_only_the_nodes_that_a_pod_may_use_are_domains_of_its_spread_by_default():
    nodes = [node("n1", pods=[pod()]), node("n2", pool="x"), node("n3", pods=[pod()], pool="x")]
    only_x = (Term(expressions=(Requirement("pool", SelectorOperator.IN, ("x",)),)),)
    assert admitted(pod(spreads=(spread(),), node_selector={"pool": "x"}), nodes) == ["n2"]
    only_first = {"node_selector": {"host": "n1"}}
    assert admitted(pod(spreads=(spread(),), **only_first), nodes) == ["n1"], "n2 without a pod is no domain"
    assert admitted(pod(spreads=(spread(honors_affinity=False),), **only_first), nodes) == []
    assert admitted(pod(spreads=(spread(),), required_terms=only_x), nodes) == ["n2"]


def test_nodes_that_sleep_are_domains_unless_taints_are_honoured():
    nodes = [node("awake", pods=[pod()]), node("asleep")]
    assert admitted(pod(spreads=(spread(),)), nodes, opened=["awake"]) == ["asleep"]
    honoring = pod(spreads=(spread(honors_taints=True),))
    assert admitted(honoring, nodes, opened=["awake"]) == ["awake", "asleep"]
    tainted = [nodes[0], node("tainted", taints=(NodeTaint("team"),))]
    assert "awake" in admitted(honoring, tainted)
    around = Neighbours(nodes, ["awake"])
    rules = around.rules(honoring)
    around.open(nodes[1])
    assert not rules.admits(nodes[0]), "the woken node is a domain without pods now"


def test_pods_that_are_placed_count_for_the_next_one():
    nodes = [node(f"n{number}", "ab"[number % 2]) for number in range(4)]
    for asked, expected in (
        (pod(anti_affinity=(near(app="web"),)), 4),
        (pod(anti_affinity=(near(ZONE, app="web"),)), 2),
        (pod(spreads=(spread(),)), 9),
        (pod(affinity=(near(app="web"),)), 9),
    ):
        around = Neighbours(nodes)
        placed = Rooms(nodes).place(PodGroup(asked, 9), rules=around.rules(asked))
        assert len(placed) == expected
    assert len({room.node.name for room, _ in placed}) == 1, "all beside the first"


def test_a_pod_that_is_placed_keeps_away_pods_of_other_kinds():
    nodes = [node("n1"), node("n2")]
    around = Neighbours(nodes)
    web = around.rules(pod("web", spreads=(spread(max_skew=9),)))
    around.add(pod("guard", anti_affinity=(near(app="web"),)), nodes[0])
    assert [each.name for each in nodes if web.admits(each)] == ["n2"]
    assert around.concern(pod("web"))
    assert not around.concern(pod("other"))


def test_the_same_value_of_a_label_is_asked_for_by_a_spread():
    constraint = PodSpread(PodSelector(()), HOST, match_label_keys=("revision", "missing"))
    seen = constraint.seen_from("x", {"revision": "2"})
    assert seen.selector == selector(revision="2")
    assert seen.match_label_keys == ()
    assert [*constraint.label_keys] == ["revision", "missing"]
    assert PodSpread(PodSelector(None), HOST, match_label_keys=("r",)).seen_from("x", {"r": "1"}).selector == (
        PodSelector(None, frozenset({"x"}))
    )
