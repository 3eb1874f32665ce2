"""A bound that several holders share."""

from joulie_extender.byte_budget import ByteBudget


def test_a_budget_gives_no_more_than_its_limit_and_what_was_released_again():
    budget = ByteBudget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.take(4)
    budget.release(6)
    assert budget.take(5)
    assert budget.held_bytes == 9
