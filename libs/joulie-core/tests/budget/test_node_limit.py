"""The limit that an agent follows: order of asks, leases and restarts."""

import pytest

from joulie_core.budget.node_limit import CapLevels, follow
from joulie_core.budget.objects import milliwatts
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus

NOTHING = NodePowerBudgetStatus()


def spec(*, sequence=1, limit=500.0, renewal=1, keep=True, lease=60, boot="b1", **fields):
    return NodePowerBudgetSpec.model_validate(
        {
            "node_name": "n1",
            "node_uid": "u1",
            "boot_id": boot,
            "term": 1,
            "sequence": sequence,
            "limit_watts": limit,
            "on_lost_control": "KeepGuaranteed" if keep else "Release",
            "lease_seconds": lease,
            "renewal": renewal,
        }
        | fields
    )


def applied(sequence, boot="b1", **fields):
    return NodePowerBudgetStatus.model_validate(
        {"node_uid": "u1", "boot_id": boot, "sequence": sequence, "renewal": 7} | fields
    )


def test_the_first_limit_is_followed_from_when_it_is_seen():
    limit = follow(None, "o1", spec(), NOTHING, 10.0)
    assert (limit.ask.limit_mw, limit.ask.sequence, limit.renewal, limit.ends_s()) == (500_000, 1, 1, 70.0)
    assert (limit.node_uid, limit.boot_id) == ("u1", "b1")
    assert limit.applies(10.0)


def test_a_higher_sequence_replaces_the_limit_and_a_lower_one_changes_nothing():
    first = follow(None, "o1", spec(sequence=5), NOTHING, 0.0)
    later = follow(first, "o1", spec(sequence=6, limit=700, renewal=2), NOTHING, 10.0)
    assert (later.ask.limit_mw, later.renewed_s, later.older) == (700_000, 10.0, None)
    older = follow(later, "o1", spec(sequence=5, limit=900, renewal=9, keep=False, lease=5), NOTHING, 20.0)
    assert (older.ask, older.keeps, older.lease_s) == (later.ask, True, 60.0)
    assert (older.renewal, older.renewed_s, older.older) == (2, 10.0, 5)
    assert follow(older, "o1", spec(sequence=7), NOTHING, 30.0).older is None


def test_a_limit_that_changes_under_its_sequence_is_not_followed():
    first = follow(None, "o1", spec(limit=500), NOTHING, 0.0)
    assert follow(first, "o1", spec(limit=900, renewal=2), NOTHING, 1.0).ask.limit_mw == 500_000
    assert follow(first, "o1", spec(limit=None, renewal=2), NOTHING, 1.0).ask.limit_mw == 500_000


def test_a_limit_of_another_boot_or_node_is_followed_whatever_its_sequence():
    first = follow(None, "o1", spec(sequence=9), NOTHING, 0.0)
    boot = follow(first, "o1", spec(sequence=1, limit=300, boot="b2"), NOTHING, 1.0)
    assert (boot.ask.limit_mw, boot.boot_id, boot.ask.sequence) == (300_000, "b2", 1)
    node = follow(first, "o1", spec(sequence=1, limit=200, node_uid="u2"), NOTHING, 1.0)
    assert (node.ask.limit_mw, node.node_uid) == (200_000, "u2")


def test_another_object_of_the_name_starts_anew():
    first = follow(None, "o1", spec(sequence=9), NOTHING, 0.0)
    assert follow(first, "o2", spec(sequence=1, limit=300), NOTHING, 1.0).ask.limit_mw == 300_000


def test_after_a_restart_the_stored_sequence_counts():
    status = applied(9, cpu_watts=120.0, gpu_watts=200.0)
    older = follow(None, "o1", spec(sequence=8, limit=900), status, 0.0)
    assert (older.ask.sequence, older.ask.limit_mw, older.levels) == (9, None, CapLevels(120_000, 200_000))
    assert (older.renewal, older.older, older.applies(0.0)) == (7, 8, True)
    for sequence in (9, 10):
        same = follow(None, "o1", spec(sequence=sequence, limit=900), status, 0.0)
        assert (same.ask.limit_mw, same.levels, same.older) == (900_000, None, None)
    other = follow(None, "o1", spec(sequence=1, limit=900, boot="b2"), status, 0.0)
    assert (other.ask.limit_mw, other.levels) == (900_000, None)


def test_stored_levels_end_with_the_next_later_ask():
    older = follow(None, "o1", spec(sequence=8), applied(9, cpu_watts=120.0), 0.0)
    assert follow(older, "o1", spec(sequence=9, limit=900), NOTHING, 1.0).levels == CapLevels(120_000, None)
    later = follow(older, "o1", spec(sequence=10, limit=900), NOTHING, 1.0)
    assert (later.levels, later.ask.limit_mw) == (None, 900_000)


def test_after_a_restart_an_older_ask_where_no_cap_was_stored_sets_none():
    older = follow(None, "o1", spec(sequence=8), applied(9), 0.0)
    assert not older.applies(0.0)


@pytest.mark.parametrize(("keep", "after"), [(True, True), (False, False)])
def test_a_lease_without_a_renewal_ends_in_its_direction(keep, after):
    limit = follow(None, "o1", spec(keep=keep), NOTHING, 10.0)
    again = follow(limit, "o1", spec(keep=keep), NOTHING, 40.0)
    assert again.ends_s() == 70.0, "the same renewal, seen again, renews nothing"
    assert (again.has_ended(69.9), again.applies(69.9)) == (False, True)
    assert (again.has_ended(70.0), again.applies(70.0)) == (True, after)


def test_a_renewal_renews_a_lease_that_lasts_and_one_that_has_ended():
    limit = follow(None, "o1", spec(keep=False), NOTHING, 10.0)
    for now_s in (40.0, 500.0):
        renewed = follow(limit, "o1", spec(keep=False, renewal=2), NOTHING, now_s)
        assert (renewed.renewal, renewed.ends_s(), renewed.applies(now_s)) == (2, now_s + 60.0, True)


def test_the_direction_and_the_lease_follow_the_object():
    limit = follow(None, "o1", spec(keep=True), NOTHING, 10.0)
    changed = follow(limit, "o1", spec(keep=False, lease=20), NOTHING, 20.0)
    assert (changed.keeps, changed.ends_s()) == (False, 30.0)


def test_an_ask_of_no_limit_sets_none():
    limit = follow(None, "o1", spec(limit=None), NOTHING, 10.0)
    assert not limit.applies(10.0)


def test_no_limit_is_not_zero():
    limit = follow(None, "o1", spec(limit=0), NOTHING, 10.0)
    assert (limit.ask.limit_mw, limit.applies(10.0)) == (0, True)


def test_powers_that_no_site_draws_are_bounded():
    assert milliwatts(1e308) == milliwatts(1e12) == 100_000_000_000_000
    assert follow(None, "o1", spec(limit=1e308), NOTHING, 0.0).applies(0.0)


@pytest.mark.parametrize("watts", [float("nan"), float("inf"), -1.0])
def test_a_limit_that_is_no_power_is_no_spec(watts):
    with pytest.raises(ValueError, match="limit"):
        spec(limit=watts)
