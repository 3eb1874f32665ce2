"""A power budget under random faults: no sum is exceeded, and without one of these rules a sum is.

Of the rules about two leaders no short walk finds a violation; test_transitions.py tests two of them as decisions.
"""

from dataclasses import replace

import pytest
from tools.budget_soak import machines, run
from tools.budget_soak.world import LimitExceededError, World

from joulie_core.budget import LeaseTimes, ledger, transitions

next_ask, may_be_in_force_mw, left_mw = ledger.next_ask, ledger.may_be_in_force_mw, transitions.left_mw


def walk(seed, steps, *, releases, **options):
    world = World(seed, releases=releases, **options)
    for _ in range(steps):
        world.step()
    return world


@pytest.mark.parametrize("releases", [False, True])
def test_no_sum_of_limits_of_the_hardware_is_above_a_limit(releases):
    for seed in range(100, 102):
        world = walk(seed, 2500, releases=releases)
        assert world.terms > 5
        assert world.identities > 7


def asked_only(node, ask):
    return ask.limit_mw if ask.limit_mw is not None else node.max_mw


def without_ceiling(node, limit_mw, term):
    report = ledger.current_report(node)
    ask = next_ask(node, limit_mw, term)
    return replace(ask, ceiling_mw=report.in_force_mw) if report is not None else ask


def unknown_is_zero(*arguments, **fields):
    return may_be_in_force_mw(*arguments, **fields) or 0


def root_only(tree, standings):
    root, *others = left_mw(tree, standings)
    return [root] + [10**9] * len(others)


def more_than_is_left(tree, standings):
    return [left and left + (300 if left < 0 else 0) for left in left_mw(tree, standings)]


#: By the rule that is removed: what replaces it, and the seed of a world in which that matters.
RULES = {
    "what is not reported counts with all that was asked": ({(ledger, "unconfirmed_mw"): asked_only}, 0),
    "an ask remembers what was asked before it": ({(transitions, "next_ask"): without_ceiling}, 0),
    "a silent node counts with its maximum": ({(ledger, "is_silent"): lambda *_: False}, 0),
    "unknown is not zero": ({(transitions, "may_be_in_force_mw"): unknown_is_zero}, 0),
    "what was read back counts": ({(ledger, "confirmed_mw"): lambda node, ask, report: ask.limit_mw}, 0),
    "every level has room": ({(transitions, "left_mw"): root_only}, 0),
    "nothing is raised above the limit": ({(transitions, "left_mw"): more_than_is_left}, 0),
    "a replaced node is another one": (
        {
            (ledger, "current_report"): lambda node: node.report,
            (transitions, "current_report"): lambda node: node.report,
            (ledger, "current_ask"): lambda node: node.ask,
            (transitions, "current_ask"): lambda node: node.ask,
        },
        2,
    ),
}


def exceeded(seed, **options):
    """Whether a sum is exceeded in the first worlds from this seed on."""
    for number in range(seed, seed + 6):
        for releases in (True, False):
            try:
                walk(number, 3000, releases=releases, **options)
            except LimitExceededError:
                return True
    return False


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_a_sum_is_exceeded(rule, monkeypatch):
    changes, seed = RULES[rule]
    for (module, name), change in changes.items():
        monkeypatch.setattr(module, name, change)
    assert exceeded(seed)


def test_without_a_margin_before_the_end_of_a_lease_a_sum_is_exceeded():
    assert exceeded(0, times=LeaseTimes(lease_s=120.0, margin_s=0.0))


def test_an_agent_that_applies_older_asks_exceeds_a_sum(monkeypatch):
    older = lambda ask, applied: applied is None or ask.sequence != applied.sequence  # noqa: E731
    monkeypatch.setattr(machines.ledger, "supersedes", older)
    assert exceeded(0)


def test_the_soak_tells_its_progress_and_the_world_that_exceeds_a_sum(capsys, monkeypatch):
    assert run.main(["--steps", "300"]) == 0
    assert capsys.readouterr().out == "300 steps in 1 worlds: no sum above a limit\n"
    monkeypatch.setattr(ledger, "unconfirmed_mw", asked_only)
    assert run.main(["--steps", "20000"]) == 1
    assert capsys.readouterr().out.startswith("seed ")
