"""The limit of a GPU by what holds it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.gpu_limits import GpuClocks, LimitReason
from joulie_core.class_caps.held_limit import HolderPods, held_limit
from joulie_core.demand import WorkloadClass
from joulie_core.held_as import HeldAs
from joulie_core.holders.held import HeldDevice, Holder
from joulie_core.holders.records import HolderReason, NodePod
from joulie_core.labels import MAX_SLOWDOWN

STANDARD, PERFORMANCE = WorkloadClass.STANDARD, WorkloadClass.PERFORMANCE
CLOCKS = GpuClocks(1980, 1980)


def pod(name, slowdown=None, workload_class=STANDARD):
    return NodePod("ml", name, name, True, workload_class, 0.0, max_slowdown=slowdown)


def device(held_as, *pods):
    holders = tuple(Holder(each.namespace, each.name, "main", each.workload_class) for each in pods)
    return HeldDevice("GPU-a", 0, held_as, HolderReason.ALL_STANDARD, "", holders, complete=True)


def limit(held_as, *pods, namespaces=None, default=AllowedSlowdown.NONE, known=None):
    seen = {"ml": {}} if namespaces is None else namespaces
    listed = pods if known is None else known
    holders = HolderPods({each.key: each for each in listed}, seen.get, default)
    return held_limit(device(held_as, *pods), holders, None, CLOCKS)


def reason(*arguments, **more):
    return limit(*arguments, **more).limit.reason


def test_a_gpu_that_is_shared_with_a_performance_pod_is_not_limited():
    shared = pod("a", "50%"), pod("b", "50%", PERFORMANCE)
    assert reason(HeldAs.PERFORMANCE, *shared) is LimitReason.NO_SLOWDOWN_ALLOWED


def test_a_gpu_that_is_held_by_a_pod_of_an_unknown_class_is_not_limited():
    assert reason(HeldAs.UNKNOWN, pod("a", "50%", None)) is LimitReason.HOLDER_UNKNOWN


def test_a_free_gpu_is_not_limited():
    assert reason(HeldAs.FREE) is LimitReason.FREE


def test_a_gpu_that_a_process_outside_of_pods_uses_is_not_limited():
    assert reason(HeldAs.OUTSIDE, pod("a", "50%")) is LimitReason.OUTSIDE_PROCESS


def test_one_holder_without_an_annotation_has_the_clusters_default_which_is_no_limit():
    found = limit(HeldAs.STANDARD, pod("a", "50%"), pod("b"))
    assert (found.limit.reason, found.allowed) == (LimitReason.NO_SLOWDOWN_ALLOWED, AllowedSlowdown.NONE)

    allowed = limit(HeldAs.STANDARD, pod("a", "50%"), pod("b"), default=AllowedSlowdown.TENTH)
    assert (allowed.limit.clock_mhz, allowed.allowed) == (1800, AllowedSlowdown.TENTH)


def test_a_namespace_that_was_not_seen_allows_nothing_whatever_the_default():
    found = limit(HeldAs.STANDARD, pod("a"), namespaces={}, default=AllowedSlowdown.HALF)
    assert found.limit.reason is LimitReason.NO_SLOWDOWN_ALLOWED
    assert found.message == "pod ml/a: the Namespace was not seen"


def test_a_pod_says_more_than_its_namespace_and_that_more_than_the_cluster():
    namespaces = {"ml": {MAX_SLOWDOWN: "25%"}}
    assert limit(HeldAs.STANDARD, pod("a"), namespaces=namespaces).allowed is AllowedSlowdown.QUARTER
    assert limit(HeldAs.STANDARD, pod("a", "10%"), namespaces=namespaces).allowed is AllowedSlowdown.TENTH


def test_an_annotation_that_cannot_be_read_allows_nothing_and_is_told():
    found = limit(HeldAs.STANDARD, pod("a", "a lot"), default=AllowedSlowdown.HALF)
    assert found.limit.reason is LimitReason.NO_SLOWDOWN_ALLOWED
    assert found.message == "pod ml/a: joulie.io/max-slowdown of the pod is 'a lot', which is none of 0%, 10%, 25%, 50%"


def test_a_holder_that_the_api_server_does_not_have_makes_the_gpu_unknown():
    found = limit(HeldAs.STANDARD, pod("a", "50%"), known=())
    assert (found.limit.reason, found.allowed) == (LimitReason.HOLDER_UNKNOWN, None)


def test_standard_without_a_holder_is_not_limited():
    assert reason(HeldAs.STANDARD) is LimitReason.HOLDER_UNKNOWN


slowdowns = st.sampled_from([None, *AllowedSlowdown, "5%", ""])
classes = st.sampled_from([None, *WorkloadClass])


@given(
    held_as=st.sampled_from(HeldAs),
    pods=st.lists(st.builds(pod, st.sampled_from("abcd"), slowdowns, classes), max_size=4, unique_by=lambda p: p.name),
    namespaces=st.sampled_from([{}, {"ml": {}}, {"ml": {MAX_SLOWDOWN: "50%"}}]),
    default=st.sampled_from(AllowedSlowdown),
)
def test_only_a_gpu_whose_every_holder_allows_a_slowdown_is_limited(held_as, pods, namespaces, default):
    found = limit(held_as, *pods, namespaces=namespaces, default=default)

    if found.limit.clock_mhz is not None:
        assert held_as is HeldAs.STANDARD
        assert pods
        assert all(each.workload_class is STANDARD for each in pods)
        assert all(each.max_slowdown in (None, *AllowedSlowdown) and each.max_slowdown != "0%" for each in pods)
        assert found.limit.clock_mhz >= 1980 / 1.5


@pytest.mark.parametrize("held_as", list(HeldAs))
def test_nothing_is_limited_without_a_word_of_an_owner_or_an_administrator(held_as):
    assert limit(held_as, pod("a")).limit.clock_mhz is None


@pytest.mark.parametrize(
    ("pods", "namespaces", "is_consent", "consents"),
    [
        ((pod("a", "10%"),), {"ml": {}}, False, True),
        ((pod("a"),), {"ml": {MAX_SLOWDOWN: "10%"}}, False, True),
        ((pod("a"),), {"ml": {}}, False, False),
        ((pod("a"),), {"ml": {}}, True, True),
        ((pod("a", "10%"), pod("b")), {"ml": {}}, False, False),
        ((pod("a", "10%"), pod("b")), {"ml": {}}, True, True),
    ],
)
def test_consent_is_a_word_of_each_owner_or_the_clusters_by_an_administrators(pods, namespaces, is_consent, consents):
    holders = HolderPods({each.key: each for each in pods}, namespaces.get, AllowedSlowdown.TENTH, is_consent)
    found = held_limit(device(HeldAs.STANDARD, *pods), holders, None, CLOCKS)
    assert (found.limit.clock_mhz, found.consents, found.message) == (1800, consents, "")


def test_a_gpu_that_another_pod_may_hold_besides_has_no_consent():
    a = pod("a", "10%")
    holders = HolderPods({a.key: a}, {"ml": {}}.get)
    found = held_limit(replace(device(HeldAs.STANDARD, a), complete=False), holders, None, CLOCKS)
    assert (found.limit.clock_mhz, found.consents) == (1800, False)


def test_pods_that_are_not_known_neither_consent_nor_run():
    found = limit(HeldAs.STANDARD, pod("a", "50%"), pod("b", "50%"), known=(pod("a", "50%"),))
    assert (found.consents, found.running) == (False, False)


@pytest.mark.parametrize(("running", "all_run"), [((True, True), True), ((True, False), False)])
def test_a_gpu_runs_only_if_each_pod_that_holds_it_does(running, all_run):
    pods = [replace(pod(name, "50%"), running=each) for name, each in zip("ab", running, strict=True)]
    assert limit(HeldAs.STANDARD, *pods).running is all_run


@pytest.mark.parametrize("held_as", [each for each in HeldAs if each is not HeldAs.STANDARD])
def test_only_standard_pods_consent(held_as):
    found = limit(held_as, replace(pod("a", "50%"), running=True))
    assert (found.consents, found.running) == (False, False)


def test_a_gpu_of_a_node_that_is_waited_for_is_not_limited_and_other_reasons_go_first():
    a = pod("a", "50%")
    holders = HolderPods({a.key: a}, {"ml": {}}.get)
    found = held_limit(device(HeldAs.STANDARD, a), holders, None, CLOCKS, waited_for=True)
    assert (found.limit.reason, found.limit.clock_mhz) == (LimitReason.GPUS_IN_DEMAND, None)
    unwilling = HolderPods({a.key: replace(a, max_slowdown="0%")}, {"ml": {}}.get)
    found = held_limit(device(HeldAs.STANDARD, a), unwilling, None, CLOCKS, waited_for=True)
    assert found.limit.reason is LimitReason.NO_SLOWDOWN_ALLOWED
    assert held_limit(device(HeldAs.FREE), holders, None, CLOCKS, waited_for=True).limit.reason is LimitReason.FREE
