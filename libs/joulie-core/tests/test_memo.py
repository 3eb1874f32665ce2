"""A value that is made again only for another key."""

import pytest

from joulie_core.memo import Memo


def test_a_value_is_made_once_for_equal_keys_and_again_for_another():
    memo, made = Memo(), []

    def make():
        made.append(len(made))
        return made[-1:]

    first = memo.of(("a", 1), make)
    assert memo.of(("a", 1), make) is first
    assert memo.of(("a", 2), make) == [1]
    assert memo.of(("a", 1), make) == [2], "one value is kept, not one of each key"


def test_the_last_value_is_none_before_the_first():
    memo = Memo()
    assert memo.last is None
    memo.of("key", lambda: "value")
    assert memo.last == "value"


def test_a_value_that_cannot_be_made_leaves_the_one_before():
    memo = Memo()
    memo.of(1, lambda: "one")
    with pytest.raises(ZeroDivisionError):
        memo.of(2, lambda: 1 / 0)
    assert memo.of(1, lambda: "made again") == "one"
