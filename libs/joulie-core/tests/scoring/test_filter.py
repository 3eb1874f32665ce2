"""Results of the filter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.demand import WorkloadClass
from joulie_core.kinds.node_twin import SchedulableClass
from joulie_core.labels import POWER_PROFILE
from joulie_core.scoring.filter import FilterReason, filter_node

PERFORMANCE = WorkloadClass.PERFORMANCE
ECO_LABEL = {POWER_PROFILE: "eco"}
PERFORMANCE_LABEL = {POWER_PROFILE: "performance"}


def judge(schedulable_class, labels=None, *, stale=False, workload_class=PERFORMANCE):
    return filter_node(workload_class, schedulable_class=schedulable_class, stale=stale, labels=labels or {})


CASES = {
    "a performance pod is kept off an eco node": ("eco", {}, False, FilterReason.ECO_NODE),
    "a performance pod is kept off a draining node": ("draining", {}, False, FilterReason.DRAINING_NODE),
    "a performance pod may use a performance node": ("performance", {}, False, FilterReason.PERFORMANCE_NODE),
    "an unknown node is allowed": (None, {}, False, FilterReason.UNKNOWN_NODE),
    "a node labelled performance without a twin is allowed": (
        None, PERFORMANCE_LABEL, False, FilterReason.UNKNOWN_NODE,
    ),
    "the eco label decides where there is no twin": (None, ECO_LABEL, False, FilterReason.ECO_LABEL),
    "the eco label decides where the twin does not know": ("unknown", ECO_LABEL, False, FilterReason.ECO_LABEL),
    "a fresh twin wins over the label": ("performance", ECO_LABEL, False, FilterReason.PERFORMANCE_NODE),
    "a fresh eco twin wins over a performance label": ("eco", PERFORMANCE_LABEL, False, FilterReason.ECO_NODE),
    "a stale eco twin still keeps performance pods off": ("eco", {}, True, FilterReason.ECO_NODE),
    "a stale draining twin still keeps performance pods off": ("draining", {}, True, FilterReason.DRAINING_NODE),
    "the label overrules a stale twin that says performance": (
        "performance", ECO_LABEL, True, FilterReason.ECO_LABEL,
    ),
    "a stale performance twin without an eco label is allowed": (
        "performance", {}, True, FilterReason.PERFORMANCE_NODE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_a_performance_pod(sentence):
    schedulable_class, labels, stale, reason = CASES[sentence]
    judged = judge(schedulable_class and SchedulableClass(schedulable_class), labels, stale=stale)
    assert judged.reason is reason
    assert judged.ok is (reason in {FilterReason.PERFORMANCE_NODE, FilterReason.UNKNOWN_NODE})


@pytest.mark.parametrize(
    ("schedulable_class", "labels", "reason", "message"),
    [
        ("eco", {}, "EcoNode", "joulie: node is eco, performance pods are kept off it"),
        ("draining", {}, "DrainingNode", "joulie: node is draining towards eco, performance pods are kept off it"),
        (None, ECO_LABEL, "EcoLabel", "joulie: node is labelled eco, performance pods are kept off it"),
        ("performance", {}, "PerformanceNode", "node supplies performance"),
        ("unknown", {}, "UnknownNode", "the node's power profile is unknown"),
    ],
)
def test_reason_and_message_are_what_events_and_explanations_show(schedulable_class, labels, reason, message):
    judged = judge(schedulable_class and SchedulableClass(schedulable_class), labels)
    assert (judged.reason, judged.message) == (reason, message)


def test_a_standard_pod_is_allowed_for_what_it_is():
    judged = judge(SchedulableClass.ECO, workload_class=WorkloadClass.STANDARD)
    assert (judged.ok, judged.reason, judged.message) == (True, "StandardPod", "standard pods run on every node")


NODES = {
    "schedulable_class": st.none() | st.sampled_from(SchedulableClass),
    "labels": st.sampled_from([{}, ECO_LABEL, PERFORMANCE_LABEL]),
}


@given(**NODES, stale=st.booleans())
def test_a_standard_pod_passes_unconditionally(schedulable_class, labels, stale):
    assert judge(schedulable_class, labels, stale=stale, workload_class=WorkloadClass.STANDARD).ok


@given(**NODES)
def test_a_twin_going_stale_never_makes_a_node_freer(schedulable_class, labels):
    fresh, stale = (judge(schedulable_class, labels, stale=stale) for stale in (False, True))
    assert fresh.ok or not stale.ok


@given(**NODES, stale=st.booleans())
def test_every_refusal_names_its_reason(schedulable_class, labels, stale):
    judged = judge(schedulable_class, labels, stale=stale)
    assert judged.ok or judged.message.startswith("joulie: ")
