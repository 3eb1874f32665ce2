"""Requests of containers, estimated from cgroup values; the formulas here are those of the kubelet."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from joulie_core.containers.container import ContainerResources, QosClass
from joulie_core.containers.estimates import (
    CgroupValues,
    ResourcesAnnotationError,
    annotated_resources,
    cpu_milli,
    cpu_shares,
    estimate,
    qos_of,
)

GIB = 1 << 30
CAPACITY = 256 * GIB


def kubelet_shares(milli):
    return 2 if milli == 0 else min(max(milli * 1024 // 1000, 2), 262_144)


def kubelet_quota_us(milli, period_us=100_000):
    return max(milli * period_us // 1000, 1000)


def kubelet_oom_score_adj(request_bytes, capacity_bytes):
    adjust = 1000 - 1000 * request_bytes // capacity_bytes
    if adjust < 3:
        return 3
    return 999 if adjust == 1000 else adjust


@given(st.integers(3, 256_000))
def test_a_cpu_request_follows_exactly_from_the_shares(milli):
    assert cpu_milli(kubelet_shares(milli)) == milli


@pytest.mark.parametrize("milli", [0, 1, 2])
def test_the_least_shares_are_no_request(milli):
    assert cpu_milli(kubelet_shares(milli)) == 0


@given(st.integers(0, 1_000_000))
def test_shares_are_computed_as_the_kubelet_does(milli):
    assert cpu_shares(milli) == kubelet_shares(milli)


@given(st.integers(10, 1_000_000), st.integers(0, 1 << 45))
def test_a_guaranteed_container_requests_its_limits(milli, memory):
    values = CgroupValues(
        cpu_shares=kubelet_shares(milli),
        cpu_quota_us=kubelet_quota_us(milli),
        cpu_period_us=100_000,
        memory_limit_bytes=memory,
        oom_score_adj=-997,
    )
    found = estimate(values, QosClass.GUARANTEED, CAPACITY)
    assert found.cpu_request_milli == found.cpu_limit_milli == milli
    assert found.memory_request_bytes == (found.memory_limit_bytes or 0) == memory


def test_a_guaranteed_container_without_quota_is_limited_to_its_shares():
    values = CgroupValues(cpu_shares=2048, cpu_quota_us=-1, cpu_period_us=100_000)
    assert estimate(values, QosClass.GUARANTEED, CAPACITY).cpu_limit_milli == 2000


@given(st.integers(0, CAPACITY), st.integers(1, 1 << 42))
def test_the_memory_request_of_a_burstable_container_is_the_least_that_it_can_be(request_bytes, capacity_bytes):
    request_bytes %= capacity_bytes + 1
    adjust = kubelet_oom_score_adj(request_bytes, capacity_bytes)
    found = estimate(CgroupValues(oom_score_adj=adjust), QosClass.BURSTABLE, capacity_bytes).memory_request_bytes
    assert found <= request_bytes
    assert kubelet_oom_score_adj(found, capacity_bytes) == adjust
    # Off by less than two steps: no request and the smallest one have the same adjustment.
    assert request_bytes - found <= 2 * capacity_bytes / 1000 + 1 or adjust == 3


def test_the_memory_request_is_never_above_the_limit():
    values = CgroupValues(oom_score_adj=500, memory_limit_bytes=GIB)
    assert estimate(values, QosClass.BURSTABLE, CAPACITY).memory_request_bytes == GIB


@pytest.mark.parametrize("adjust", [None, -997, 0, 2, 999, 1000])
def test_an_adjustment_that_does_not_depend_on_requests_says_nothing(adjust):
    assert estimate(CgroupValues(oom_score_adj=adjust), QosClass.BURSTABLE, CAPACITY).memory_request_bytes == 0


@given(st.integers(3, 256_000), st.integers(10, 256_000), st.sampled_from([10_000, 100_000]))
def test_a_burstable_container_has_its_own_request_and_limit(request_milli, limit_milli, period_us):
    values = CgroupValues(
        cpu_shares=kubelet_shares(request_milli),
        cpu_quota_us=kubelet_quota_us(limit_milli, 100_000) * period_us // 100_000,
        cpu_period_us=period_us,
        oom_score_adj=999,
    )
    found = estimate(values, QosClass.BURSTABLE, CAPACITY)
    assert (found.cpu_request_milli, found.cpu_limit_milli) == (request_milli, limit_milli)


def test_the_smallest_limits_are_limits():
    values = CgroupValues(cpu_quota_us=1, cpu_period_us=1, memory_limit_bytes=1)
    found = estimate(values, QosClass.BURSTABLE, CAPACITY)
    assert (found.cpu_limit_milli, found.memory_limit_bytes) == (1000, 1)


def test_estimates_are_whole_numbers():
    values = CgroupValues(cpu_quota_us=10_007, cpu_period_us=100_000, oom_score_adj=500)
    found = estimate(values, QosClass.BURSTABLE, GIB + 1)
    assert repr(found.cpu_limit_milli) == "101"
    assert repr(found.memory_request_bytes) == str(GIB // 2 + 1)


def test_a_best_effort_container_requests_nothing():
    values = CgroupValues(cpu_shares=2, oom_score_adj=1000)
    assert estimate(values, QosClass.BEST_EFFORT, CAPACITY) == ContainerResources()


@pytest.mark.parametrize("limit", [None, 0, -1, 9_223_372_036_854_771_712])
def test_no_memory_limit_has_several_forms(limit):
    assert estimate(CgroupValues(memory_limit_bytes=limit), QosClass.BURSTABLE, CAPACITY).memory_limit_bytes is None


@pytest.mark.parametrize(("quota", "period"), [(None, None), (-1, 100_000), (0, 100_000), (5000, None), (5000, 0)])
def test_no_cpu_limit_has_several_forms(quota, period):
    values = CgroupValues(cpu_quota_us=quota, cpu_period_us=period)
    assert estimate(values, QosClass.BURSTABLE, CAPACITY).cpu_limit_milli is None


@pytest.mark.parametrize(
    ("parent", "qos"),
    [
        ("/kubepods/besteffort/pod1", QosClass.BEST_EFFORT),
        ("kubepods-burstable-pod1.slice", QosClass.BURSTABLE),
        ("/kubepods/pod1", QosClass.GUARANTEED),
        ("kubepods-pod1.slice", QosClass.GUARANTEED),
        ("", QosClass.GUARANTEED),
    ],
)
def test_the_class_of_a_pod_is_in_its_cgroup(parent, qos):
    assert qos_of(parent) is qos


ANNOTATION = """{
    "containers": {
        "main": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"memory": "2Gi", "vendor.com/gpu": 1}},
        "side": {"limits": {"cpu": 0.5}}
    },
    "initContainers": {"setup": {"requests": {"cpu": "0"}, "limits": {"cpu": 1}}}
}"""


@pytest.mark.parametrize(
    ("name", "resources"),
    [
        ("main", ContainerResources(cpu_request_milli=1500, memory_request_bytes=GIB, memory_limit_bytes=2 * GIB)),
        ("side", ContainerResources(cpu_request_milli=500, cpu_limit_milli=500)),
        ("setup", ContainerResources(cpu_request_milli=0, cpu_limit_milli=1000)),
        ("other", None),
    ],
)
def test_an_annotation_has_the_resources_of_all_containers(name, resources):
    assert annotated_resources(ANNOTATION, name) == resources


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Invalid JSON"),
        ("[]", "Input should be"),
        ('{"containers": {"main": {"limits": {"cpu": []}}}}', "containers.main.limits.cpu"),
        ('{"containers": {"main": {"limits": {"cpu": "fast"}}}}', "not a Kubernetes quantity: 'fast'"),
        ('{"containers": {"main": {"limits": {"cpu": -1}}}}', "cpu: -1 is negative"),
    ],
)
def test_a_malformed_annotation_is_refused(text, reason):
    with pytest.raises(ResourcesAnnotationError, match=reason):
        annotated_resources(text, "main")
