"""How much longer the pods on a device may run."""

import pytest

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown, PodSlowdown, SlowdownSource, slowdown_of, smallest
from joulie_core.demand import WorkloadClass

KEY = "joulie.io/max-slowdown"
STANDARD, PERFORMANCE = WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE
NONE, TENTH, QUARTER, HALF = AllowedSlowdown


@pytest.mark.parametrize(("allowed", "pct"), [("0%", 0), ("10%", 10), ("25%", 25), ("50%", 50)])
def test_the_annotation_of_a_pod_is_one_of_four_values(allowed, pct):
    found = slowdown_of(STANDARD, {KEY: allowed}, {KEY: "50%"}, HALF)
    assert found == PodSlowdown(AllowedSlowdown(allowed), SlowdownSource.POD)
    assert found.allowed.pct == pct


def test_a_pod_that_says_nothing_has_its_namespaces_value_and_without_that_the_clusters():
    assert slowdown_of(STANDARD, {}, {KEY: "25%"}, TENTH) == PodSlowdown(QUARTER, SlowdownSource.NAMESPACE)
    assert slowdown_of(STANDARD, {}, {}, TENTH) == PodSlowdown(TENTH, SlowdownSource.CLUSTER)
    assert slowdown_of(STANDARD, {}, {}) == PodSlowdown(NONE, SlowdownSource.CLUSTER)


@pytest.mark.parametrize("written", ["", "5%", "25", "25 %", "025%", "100%", "-10%", "ten", "0.25"])
@pytest.mark.parametrize("source", [SlowdownSource.POD, SlowdownSource.NAMESPACE])
def test_any_other_value_is_refused_with_a_reason_and_allows_nothing(written, source):
    annotations = {KEY: written}
    pod, namespace = (annotations, {KEY: "50%"}) if source is SlowdownSource.POD else ({}, annotations)
    found = slowdown_of(STANDARD, pod, namespace, HALF)
    assert (found.allowed, found.source) == (NONE, source)
    assert found.refused == f"{KEY} of the {source} is {written!r}, which is none of 0%, 10%, 25%, 50%"


def test_a_refused_value_is_repeated_in_short_and_printable():
    refused = slowdown_of(STANDARD, {KEY: "\x1b" + "9" * 1_000_000}, {}).refused
    assert len(refused) < 150
    assert refused.isprintable()


def test_a_namespace_that_was_not_seen_may_forbid_what_the_cluster_allows():
    found = slowdown_of(STANDARD, {}, None, HALF)
    assert found == PodSlowdown(NONE, SlowdownSource.NAMESPACE, "the Namespace was not seen")
    assert slowdown_of(STANDARD, {KEY: "50%"}, None).allowed is HALF


@pytest.mark.parametrize("workload_class", [PERFORMANCE, None])
def test_a_performance_pod_and_one_of_unknown_class_is_never_slowed(workload_class):
    found = slowdown_of(workload_class, {KEY: "50%"}, {KEY: "50%"}, HALF)
    assert found == PodSlowdown(NONE, SlowdownSource.CLASS)


@pytest.mark.parametrize(
    ("holders", "expected"),
    [([], NONE), ([HALF], HALF), ([HALF, TENTH, QUARTER], TENTH), ([HALF, NONE], NONE)],
)
def test_a_device_has_the_smallest_value_of_its_pods(holders, expected):
    assert smallest(holders) is expected
