"""The limit of a group of cores by the containers that have it alone."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.core_limits import (
    CoreFrequencies,
    CoreHolder,
    CoreLimitReason,
    all_consent,
    core_groups,
    frequency_limit,
    held_slowdown,
    holders_of,
)
from joulie_core.class_caps.pod_consent import PodConsent, stated_consent
from joulie_core.containers.idset import Cpus
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS

NONE, TENTH, QUARTER, HALF = AllowedSlowdown
MACHINE = CoreFrequencies(lowest_khz=800_000, highest_khz=3_500_000, ceiling_khz=3_500_000)


def cpus(text):
    return Cpus.parse(text)


def holder(text, allowed="25%", workload_class="standard"):
    annotations = {WORKLOAD_CLASS: workload_class, MAX_SLOWDOWN: allowed}
    return CoreHolder("ns/pod/main", cpus(text), stated_consent(annotations))


def test_all_owners_of_a_group_have_to_consent():
    agreed = holder("2")
    assert all_consent([agreed, holder("3", "50%")])
    assert not all_consent([agreed, holder("3", workload_class="")])
    assert not all_consent([agreed, replace(agreed, consent=replace(agreed.consent, consents=False))])
    assert not all_consent([CoreHolder("ns/pod/main", cpus("2"), PodConsent())])
    assert not all_consent([])


def test_threads_of_a_core_and_cores_of_a_policy_are_one_group():
    cores = [cpus("0,4"), cpus("1,5"), cpus("2,6"), cpus("3,7")]
    assert core_groups(cores, [cpus(str(each)) for each in range(8)]) == tuple(cores)
    assert core_groups(cores, [cpus("0-1"), cpus("4"), cpus("5"), cpus("6,7"), cpus("2"), cpus("3")]) == (
        cpus("0-1,4-5"),
        cpus("2-3,6-7"),
    )
    assert core_groups([cpus("0"), cpus("1")], []) == (cpus("0"), cpus("1"))


@pytest.mark.parametrize(
    ("holders", "found"),
    [
        ([holder("2-3")], QUARTER),
        ([holder("2"), holder("3", "50%")], QUARTER),
        ([holder("0-7", "50%")], HALF),
        ([], CoreLimitReason.SHARED),
        ([holder("2")], CoreLimitReason.SHARED),
        ([holder("2"), holder("3", "0%")], CoreLimitReason.NO_SLOWDOWN_ALLOWED),
        ([holder("2"), holder("3", "50%", "performance")], CoreLimitReason.NO_SLOWDOWN_ALLOWED),
        ([holder("2"), holder("3", "50%", "")], CoreLimitReason.HOLDER_UNKNOWN),
        ([holder("2", "50%", "")], CoreLimitReason.SHARED),
    ],
)
def test_all_threads_of_a_group_have_to_be_given_to_containers_that_allow_it(holders, found):
    group = cpus("2-3")
    assert held_slowdown(group, holders_of(group, [holder("9", "0%"), *holders])) == found


@pytest.mark.parametrize(
    ("allowed", "found", "limit"),
    [
        (TENTH, MACHINE, 3_200_000),
        (QUARTER, MACHINE, 2_800_000),
        (HALF, MACHINE, 2_400_000),
        (HALF, CoreFrequencies(2_600_000, 3_500_000, 3_500_000), 2_600_000),
        (HALF, CoreFrequencies(800_000, 3_500_000, 2_500_000), 2_400_000),
        (HALF, CoreFrequencies(800_000, 3_500_000, 2_400_000), CoreLimitReason.NOTHING_TO_GAIN),
        (HALF, None, CoreLimitReason.FREQUENCY_UNKNOWN),
        # Drivers with a table round down to it.
        (QUARTER, replace(MACHINE, offered_khz=frozenset({1_200_000, 2_500_000, 3_000_000, 3_500_000})), 3_000_000),
        (QUARTER, replace(MACHINE, offered_khz=frozenset({2_500_000, 3_500_000})), CoreLimitReason.NOTHING_TO_GAIN),
        (QUARTER, replace(MACHINE, offered_khz=frozenset()), CoreLimitReason.NOTHING_TO_GAIN),
    ],
)
def test_the_limit_is_the_highest_frequency_over_the_slowdown(allowed, found, limit):
    assert frequency_limit(allowed, found) == limit


@given(
    st.sampled_from([TENTH, QUARTER, HALF]),
    st.integers(100_000, 6_000_000),
    st.integers(0, 5_000_000),
    st.integers(0, 5_000_000),
)
def test_no_core_is_slowed_by_more_than_is_allowed(allowed, lowest_khz, above_khz, below_khz):
    highest_khz = lowest_khz + above_khz
    ceiling_khz = max(lowest_khz, highest_khz - below_khz)
    limit = frequency_limit(allowed, CoreFrequencies(lowest_khz, highest_khz, ceiling_khz))
    if isinstance(limit, int):
        assert limit * (100 + allowed.pct) >= 100 * highest_khz
        assert lowest_khz <= limit < ceiling_khz
