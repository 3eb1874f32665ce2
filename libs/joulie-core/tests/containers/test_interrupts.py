"""Which CPUs an interrupt is to have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.containers.idset import EMPTY, IdSet
from joulie_core.containers.interrupts import NO_INTERRUPTS, InterruptClaim, InterruptPlacement, affinity, matches

ONLINE = IdSet(range(8))
ETH = ("eth0-rx-0", "PCI-MSIX-0000:01:00.0")
CPUS = st.integers(0, 255).map(IdSet.from_mask)


def cpus(text):
    return IdSet.parse(text)


@pytest.mark.parametrize(
    ("pattern", "means"),
    [
        ("*", True),
        ("24", True),
        ("2", False),
        ("2?", False),  # a number is no name
        ("eth0-*", True),
        ("eth?-rx-0", True),
        ("ETH0-*", False),
        ("eth0", False),
        ("PCI-MSIX-0000:01:*", True),
        ("PCI-MSIX-0000:02:*", False),
        ("", False),
    ],
)
def test_a_pattern_is_a_number_or_a_glob_of_the_name_of_a_device_or_chip(pattern, means):
    assert matches([pattern], 24, ETH) is means
    assert matches(["nvme*", pattern], 24, ETH) is means


def test_only_a_star_means_interrupts_that_do_not_exist_yet():
    assert matches(["*"], None, ())
    assert not matches(["24", "eth*", "**", ""], None, ())


CLAIM = InterruptClaim(("eth0-*",), cpus("2-3"))
MORE = InterruptClaim(("PCI-*", "9"), cpus("5"))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (NO_INTERRUPTS, "0-7"),
        (InterruptPlacement(claims=(CLAIM,), sinks=cpus("0"), isolated=cpus("2-7")), "2-3"),
        (InterruptPlacement(claims=(CLAIM, MORE)), "2-3,5"),
        (InterruptPlacement(claims=(InterruptClaim(("nvme*",), cpus("2")),)), "0-7"),
        (InterruptPlacement(claims=(InterruptClaim(("*",), cpus("8-9")),), sinks=cpus("1")), "1"),
        (InterruptPlacement(sinks=cpus("1,9")), "1"),
        (InterruptPlacement(sinks=cpus("6"), isolated=cpus("6-7")), "6"),
        (InterruptPlacement(isolated=cpus("6-7")), "0-5"),
        (InterruptPlacement(isolated=cpus("0-7")), "0-7"),
        (InterruptPlacement(isolated=cpus("8")), "0-7"),
    ],
)
def test_claims_come_before_sinks_and_these_before_isolation(wanted, expected):
    assert str(affinity(wanted, 24, ETH, cpus("0-7"), ONLINE)) == expected


@pytest.mark.parametrize(
    ("original", "expected"), [("0-3", "0-3"), ("4-7", "4-5"), ("6", "0-5"), ("6,9", "0-5"), ("0,9", "0,9")]
)
def test_isolation_narrows_what_an_administrator_has_set(original, expected):
    assert str(affinity(InterruptPlacement(isolated=cpus("6-7")), 24, ETH, cpus(original), ONLINE)) == expected


@given(CPUS, CPUS, CPUS, CPUS.filter(bool), CPUS.filter(bool))
def test_an_interrupt_keeps_a_cpu_and_is_kept_away_from_isolated_ones_where_there_are_others(
    claimed, sinks, isolated, original, online
):
    wanted = InterruptPlacement(claims=(InterruptClaim(("*",), claimed),), sinks=sinks, isolated=isolated)
    found = affinity(wanted, 24, ETH, original, online)
    assert found
    assert found == original or found <= online
    if claimed.isdisjoint(online) and sinks.isdisjoint(online) and online - isolated:
        assert found.isdisjoint(isolated)
    assert affinity(wanted, 24, ETH, original, online) == found
    assert affinity(InterruptPlacement(isolated=EMPTY), 24, ETH, original, online) == original
