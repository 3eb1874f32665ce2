"""Which policies a throttle slows down: spread, stability and monotony for any machine."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.control.throttle_plan import CpuCore, FreqPolicy, plan_throttle, throttled_khz


def machine(packages=2, dies=1, cores=4, threads=1):
    """One policy per hardware thread, as most servers have; `p<package>d<die>c<core>t<thread>`."""
    return [
        FreqPolicy(f"p{package}d{die}c{core}t{thread}", frozenset({CpuCore(package, die, core)}))
        for thread in range(threads)
        for package in range(packages)
        for die in range(dies)
        for core in range(cores)
    ]


def per(keys, length):
    """Count keys by their first characters."""
    return Counter(key[:length] for key in keys)


def test_zero_percent_throttles_nothing():
    assert plan_throttle(machine(), 0.0) == frozenset()


def test_a_hundred_percent_throttles_all():
    assert plan_throttle(machine(threads=2), 100.0) == {policy.key for policy in machine(threads=2)}


@pytest.mark.parametrize(("pct", "count"), [(10, 2), (20, 3), (30, 5), (50, 8), (60, 10), (90, 14)])
def test_the_share_of_policies_is_rounded_half_away_from_zero(pct, count):
    assert len(plan_throttle(machine(packages=2, cores=8), pct)) == count


def test_ten_percent_of_four_policies_still_throttles_one():
    assert len(plan_throttle(machine(packages=1), 10.0)) == 1


def test_one_policy_for_the_whole_machine_is_throttled_by_any_percentage():
    shared = FreqPolicy("policy0", frozenset(CpuCore(package, 0, core) for package in (0, 1) for core in range(4)))
    assert plan_throttle([shared], 5.0) == {"policy0"}


def test_half_of_two_packages_is_half_of_each():
    assert per(plan_throttle(machine(packages=2, cores=8), 50.0), 2) == {"p0": 4, "p1": 4}


def test_dies_of_a_package_share_alike():
    assert per(plan_throttle(machine(packages=2, dies=2), 50.0), 4) == {"p0d0": 2, "p0d1": 2, "p1d0": 2, "p1d1": 2}


def test_hyper_threads_of_a_core_are_throttled_together():
    chosen = plan_throttle(machine(packages=1, cores=4, threads=2), 25.0)
    assert len(chosen) == 2
    assert len({key[:-2] for key in chosen}) == 1


def test_a_throttled_policy_gets_the_minimum_wanted():
    assert throttled_khz(3_900_000, lowest_khz=800_000, min_freq_khz=1_500_000) == 1_500_000


def test_a_throttled_policy_gets_no_less_than_it_can_run_at():
    assert throttled_khz(3_900_000, lowest_khz=1_800_000, min_freq_khz=1_500_000) == 1_800_000


def test_a_throttle_never_raises_a_limit():
    assert throttled_khz(1_200_000, lowest_khz=800_000, min_freq_khz=1_500_000) == 1_200_000


@st.composite
def machines(draw):
    """Any machine: unequal packages, policies that share cores, cores that several policies share."""
    cores = draw(
        st.lists(st.builds(CpuCore, st.integers(0, 3), st.integers(0, 1), st.integers(0, 11)), unique=True, max_size=24)
    )
    policies = []
    while cores:
        size = draw(st.integers(1, min(3, len(cores))))
        shared, cores = cores[:size], cores[size:]
        threads = draw(st.integers(1, 2))
        policies += [FreqPolicy(f"policy{len(policies) + thread}", frozenset(shared)) for thread in range(threads)]
    return policies


pcts = st.floats(0, 100)


@given(machines(), pcts, pcts)
def test_more_percent_throttle_the_same_policies_and_others(policies, one, other):
    assert plan_throttle(policies, min(one, other)) <= plan_throttle(policies, max(one, other))


@given(machines(), pcts, st.randoms())
def test_the_order_in_which_policies_are_given_does_not_matter(policies, pct, shuffler):
    shuffled = list(policies)
    shuffler.shuffle(shuffled)
    assert plan_throttle(shuffled, pct) == plan_throttle(policies, pct)


@given(machines(), pcts)
def test_policies_that_share_a_core_are_throttled_together(policies, pct):
    chosen = plan_throttle(policies, pct)
    for one in policies:
        for other in policies:
            if one.cores & other.cores:
                assert (one.key in chosen) == (other.key in chosen)


@given(machines(), pcts)
def test_the_number_throttled_is_the_request_filled_up_to_whole_cores(policies, pct):
    chosen = len(plan_throttle(policies, pct))
    asked = pct / 100 * len(policies)
    assert asked - 0.5 <= chosen <= max(1.0, asked + 0.5) + 1  # the fullest core here has two policies


@given(st.integers(1, 4), st.integers(1, 2), st.integers(1, 12), st.integers(1, 2), pcts)
def test_equal_packages_differ_by_no_more_than_one_core(packages, dies, cores, threads, pct):
    policies = machine(packages, dies, cores, threads)
    chosen = plan_throttle(policies, pct)
    by_package = [sum(key.startswith(f"p{package}d") for key in chosen) for package in range(packages)]
    by_die = [sum(key.startswith(f"p{p}d{d}c") for key in chosen) for p in range(packages) for d in range(dies)]
    assert max(by_package) - min(by_package) <= threads
    assert max(by_die) - min(by_die) <= threads


def hybrid(packages, performance, efficiency, threads):
    """Performance cores first, as Linux numbers them, with as many policies as threads."""
    return [
        FreqPolicy(f"{package}{kind}{core}t{thread}", frozenset({CpuCore(package, 0, core, kind)}))
        for package in range(packages)
        for core, kind in enumerate(["P"] * performance + ["E"] * efficiency)
        for thread in range(threads if kind == "P" else 1)
    ]


def test_half_of_a_hybrid_package_is_half_of_its_performance_and_half_of_its_efficiency_cores():
    assert per(plan_throttle(hybrid(1, 8, 8, 2), 50.0), 2) == {"0P": 8, "0E": 4}


@given(st.integers(1, 2), st.integers(1, 16), st.integers(1, 16), st.integers(1, 2), pcts)
def test_any_percentage_takes_the_same_share_of_performance_and_of_efficiency_cores(
    packages, performance, efficiency, threads, pct
):
    chosen = plan_throttle(hybrid(packages, performance, efficiency, threads), pct)
    for package in range(packages):
        fast = len({key[:-2] for key in chosen if key.startswith(f"{package}P")})
        slow = len({key[:-2] for key in chosen if key.startswith(f"{package}E")})
        # Half a core of each kind is what whole cores cannot share out.
        assert abs(fast / performance - slow / efficiency) <= 0.5 / performance + 0.5 / efficiency + 1e-9


def test_two_hundred_and_fifty_six_cores_are_planned_without_delay():
    policies = machine(packages=2, cores=128, threads=2)
    random.Random(1).shuffle(policies)
    assert len(plan_throttle(policies, 40.0)) == 206
