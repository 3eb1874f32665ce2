"""Reports of limits: which wait, and that they come without a further change."""

from dataclasses import replace

import pytest

from joulie_agent.budgets import report_delay
from joulie_agent.budgets.report_delay import ReportDelay
from joulie_core.budget.limit_hold import LimitHold
from joulie_core.budget.node_limit import follow
from joulie_core.kinds.node_power_budget import NodePowerBudgetSpec, NodePowerBudgetStatus


def limit(sequence, uid="b1"):
    spec = NodePowerBudgetSpec(
        node_name="n1",
        node_uid="u1",
        term=0,
        sequence=sequence,
        limit_watts=900,
        lease_seconds=300,
        on_lost_control="KeepGuaranteed",
    )
    return follow(None, uid, spec, NodePowerBudgetStatus(), 0.0)


def after_first_pass(first=None, *, interval_s=20.0):
    """Return the delay of a node whose first pass started at 0 s."""
    delay = ReportDelay()
    assert not delay.postpones(first, 0.0)
    delay.next_pass_s(interval_s, 0.0)
    return delay


@pytest.fixture(autouse=True)
def _waits(monkeypatch, _prompt_reports):
    monkeypatch.setattr(report_delay, "LONGEST_S", 20.0)


def test_the_first_pass_of_a_process_reports_the_limit_that_it_finds():
    assert not ReportDelay().postpones(limit(7), 0.0)


@pytest.mark.parametrize("first", [None, limit(1)], ids=["first ask", "another ask"])
def test_an_asked_limit_waits_for_the_pass_that_comes_without_it(first):
    delay = after_first_pass(first)
    assert delay.postpones(limit(2), 8.0)
    assert delay.next_pass_s(28.0, 8.0) == 20.0
    assert delay.postpones(limit(2), 19.9)
    assert not delay.postpones(limit(2), 20.0)
    assert delay.next_pass_s(40.0, 20.0) == 40.0


def test_a_limit_that_is_seen_in_the_pass_of_the_interval_is_reported_by_it():
    delay = after_first_pass(limit(1))
    assert not delay.postpones(limit(2), 20.0)


def test_with_a_longer_interval_it_waits_for_twenty_seconds():
    delay = after_first_pass(limit(1), interval_s=3600.0)
    assert delay.postpones(limit(2), 100.0)
    assert delay.next_pass_s(3700.0, 100.0) == 120.0
    assert not delay.postpones(limit(2), 120.0)


def test_further_asks_do_not_make_the_wait_longer():
    delay = after_first_pass(limit(1))
    for at_s in range(5, 20, 3):
        assert delay.postpones(limit(at_s), float(at_s))
        assert delay.next_pass_s(at_s + 20.0, float(at_s)) == 20.0
    assert not delay.postpones(limit(30), 20.0)


def test_what_is_no_other_ask_is_reported_at_once():
    delay = after_first_pass(limit(1))
    assert not delay.postpones(limit(1), 5.0)


def test_another_object_with_the_same_sequence_is_another_ask():
    delay = after_first_pass(limit(1))
    assert delay.postpones(limit(1, uid="b2"), 5.0)


def test_a_limit_that_is_gone_ends_the_wait():
    delay = after_first_pass(limit(1))
    assert delay.postpones(limit(2), 5.0)
    assert not delay.postpones(None, 6.0)
    assert delay.next_pass_s(26.0, 6.0) == 26.0


def test_a_pass_that_was_to_report_and_has_failed_is_followed_by_the_regular_one():
    delay = after_first_pass(limit(1))
    assert delay.postpones(limit(2), 5.0)
    assert delay.next_pass_s(25.0, 5.0) == 20.0
    assert delay.next_pass_s(40.0, 20.0) == 40.0
    assert not delay.postpones(limit(2), 40.0)


def test_nothing_waits_where_the_limit_counts_only_while_the_node_is_measured():
    delay = after_first_pass(limit(1))
    held = replace(limit(2), hold=LimitHold(fallback_mw=600_000, sample_s=4.0, hold_s=9.0, taken_s=None))
    assert not delay.postpones(held, 5.0)
