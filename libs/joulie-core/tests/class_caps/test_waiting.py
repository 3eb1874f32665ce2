"""Nodes on which limits are lifted, since performance pods wait for their GPUs."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from joulie_core.class_caps.waiting import (
    DEFAULT_RULE,
    UNKNOWN_REQUEST,
    GpuNode,
    GpuRequest,
    LiftedNodes,
    LiftRule,
    could_take,
    nodes_to_lift,
)
from joulie_core.pod import NAME_FIELD, Requirement, SelectorOperator, Term

GPU = "nvidia.com/gpu"
HOLD_S = DEFAULT_RULE.hold_s
H100 = GpuNode("h100", "H100", {GPU: 8.0}, {"product": "H100"})
V100 = GpuNode("v100", "V100", {GPU: 4.0}, {"product": "V100"})
INSTINCT = GpuNode("mi300", "MI300", {"amd.com/gpu": 8.0}, {"product": "MI300"})
NODES = (H100, V100, INSTINCT)


def taken_by(request):
    return {node.name for node in NODES if could_take(node, request)}


def test_a_pod_waits_for_the_nodes_that_have_its_gpus():
    assert taken_by(GpuRequest(((GPU, 4.0),))) == {"h100", "v100"}
    assert taken_by(GpuRequest(((GPU, 8.0),))) == {"h100"}
    assert taken_by(GpuRequest(((GPU, 9.0),))) == set()
    assert taken_by(GpuRequest((("amd.com/gpu", 1.0),))) == {"mi300"}


def test_a_pod_waits_only_for_nodes_that_its_selector_and_one_of_its_terms_select():
    assert taken_by(GpuRequest(((GPU, 1.0),), (("product", "V100"),))) == {"v100"}
    any_of = Requirement("product", SelectorOperator.IN, ("V100", "MI300"))
    by_name = Requirement(NAME_FIELD, SelectorOperator.IN, ("h100",))
    terms = (Term((any_of,)), Term(fields=(by_name,)))
    assert taken_by(GpuRequest(((GPU, 1.0),), required_terms=terms)) == {"h100", "v100"}
    assert taken_by(GpuRequest(((GPU, 1.0),), required_terms=(Term(),))) == set()


def test_a_pod_of_which_nothing_is_known_waits_for_every_node():
    assert taken_by(UNKNOWN_REQUEST) == {"h100", "v100", "mi300"}
    assert taken_by(GpuRequest(None, (("product", "H100"),))) == {"h100"}


def test_nodes_are_lifted_for_any_of_the_pods():
    requests = [GpuRequest(((GPU, 8.0),)), GpuRequest((("amd.com/gpu", 1.0),))]
    assert nodes_to_lift(requests, NODES) == {"h100", "mi300"}
    # None of these nodes takes pods: their GPUs are neither free nor missing.
    assert nodes_to_lift((), NODES) == frozenset()


@pytest.mark.parametrize(("free", "lifted"), [(1.0, False), (0.0, True), (0.79, True), (0.8, False)])
def test_limits_of_a_model_are_lifted_while_too_few_of_its_gpus_are_free(free, lifted):
    nodes = (replace(H100, total=8.0, free=free), replace(V100, total=4.0, free=4.0))
    assert nodes_to_lift((), nodes, LiftRule(spare_pct=10.0)) == (frozenset({"h100"}) if lifted else frozenset())


def test_the_free_gpus_of_a_model_are_those_of_all_its_nodes():
    rule, full = LiftRule(spare_pct=10.0), replace(H100, name="full", total=8.0, free=0.0)
    assert nodes_to_lift((), (full, replace(H100, total=8.0, free=2.0)), rule) == frozenset()
    assert nodes_to_lift((), (full, replace(H100, total=8.0, free=1.0)), rule) == {"full", "h100"}


def test_without_a_share_of_free_gpus_only_pods_that_wait_count():
    full = replace(H100, total=8.0, free=0.0)
    assert nodes_to_lift((), [full], LiftRule(spare_pct=0.0)) == frozenset()
    assert nodes_to_lift((), [full]) == {"h100"}


def test_limits_are_lifted_as_soon_as_a_node_is_waited_for():
    lifted = LiftedNodes().step({"h100"}, 0.0)
    assert "h100" in lifted
    assert "v100" not in lifted


def test_limits_come_back_a_while_after_the_last_pod_has_gone():
    lifted = LiftedNodes().step({"h100"}, 0.0).step({"h100"}, 30.0).step((), 40.0)
    assert lifted.due_s() == 30.0 + HOLD_S
    assert "h100" in lifted.step((), 29.0 + HOLD_S)
    assert "h100" not in lifted.step((), 30.0 + HOLD_S)


def test_nodes_come_back_one_by_one():
    lifted = LiftedNodes().step({"h100"}, 0.0).step({"v100"}, 30.0).step((), HOLD_S)
    assert lifted.waited_s == {"v100": 30.0}
    assert lifted.due_s() == 30.0 + HOLD_S


@given(st.lists(st.tuples(st.floats(0.1, 400.0), st.booleans()), max_size=40))
def test_a_node_is_lifted_or_limited_again_at_most_twice_within_the_hold(steps):
    state, now_s, changes = LiftedNodes(), 0.0, []
    for elapsed_s, waits in steps:
        now_s += elapsed_s
        before, state = state, state.step({"n"} if waits else (), now_s)
        assert not waits or "n" in state
        if ("n" in before) is not ("n" in state):
            changes.append(now_s)
    assert all(third >= first + HOLD_S for first, third in zip(changes, changes[2:], strict=False))


# The sum of 212.3 and 300 is rounded to less than that.
@example(212.3)
@given(st.floats(0.0, 1e6))
def test_limits_come_back_at_the_very_moment_at_which_they_are_due(waited_s):
    lifted = LiftedNodes().step({"h100"}, waited_s)
    assert "h100" not in lifted.step((), lifted.due_s())
