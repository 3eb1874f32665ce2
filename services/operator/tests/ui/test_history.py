"""Transitions and refusals from changes of targets."""

import pytest
from services.operator.tests.ui.invented import REFUSED, WALL, target

from joulie_operator.published import PublishedTarget
from joulie_operator.ui.history import CAPACITY, History, HistoryEntry


@pytest.fixture
def history():
    return History(wall=lambda: WALL)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("performance", "draining", "EcoDeferred"),
        ("performance", "eco", "EcoAllowed"),
        ("draining", "eco", "EcoUnblocked"),
        ("draining", "performance", "PerformanceReplanned"),
        ("eco", "performance", "PerformancePlanned"),
        ("eco", "draining", ""),
    ],
)
def test_a_transition_has_the_reason_of_its_event_and_that_of_the_policy(history, before, after, reason):
    history.on_target("n1", target("n1", before), target("n1", after, "why"))
    assert history.since(0) == [HistoryEntry(1, int(WALL), "n1", before, after, reason, "queue_aware_v1: why")]


def test_targets_that_appear_go_or_keep_their_class_are_no_transitions(history):
    history.on_target("n1", None, target("n1"))
    history.on_target("n1", target("n1", reason="one"), target("n1", reason="another"))
    history.on_target("n1", target("n1"), PublishedTarget(None, "uid"))
    history.on_target("n1", target("n1"), None)
    assert history.since(0) == []


def test_a_refusal_is_an_entry_once(history):
    refused = target("n1", conditions=[REFUSED])
    history.on_target("n1", target("n1"), refused)
    history.on_target("n1", refused, refused)
    [entry] = history.since(0)
    assert (entry.before, entry.after, entry.reason) == ("", "", "CapsNotEnforced")
    assert entry.message == "PermissionDenied: cpu: rapl error, cannot write"


def test_only_the_latest_entries_are_kept(history):
    for number in range(CAPACITY + 5):
        history.on_target(f"n{number}", target("n"), target("n", "eco"))
    assert [entry.number for entry in history.since(0)] == list(range(6, CAPACITY + 6))
    assert [entry.node for entry in history.since(CAPACITY + 4)] == [f"n{CAPACITY + 4}"]
