"""Tests of text that comes from outside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.text import REPLACEMENT, first_of, printable


def test_ordinary_text_stays_as_it_is() -> None:
    assert printable("NVIDIA H100 80GB HBM3, Größe 1", 64) == "NVIDIA H100 80GB HBM3, Größe 1"


@pytest.mark.parametrize(
    "character",
    ["\x00", "\x07", "\x1b", "\x7f", "\x9b", "\ud800", "\u202e", "\u2066", "\ufeff", "\ue000", "\uffff"],
)
def test_a_character_that_a_terminal_or_a_server_must_not_see_is_replaced(character: str) -> None:
    assert printable(f"a{character}b", 8) == f"a{REPLACEMENT}b"


@pytest.mark.parametrize("space", ["\t", "\n", "\r\n", "\u2028", "\u2029", "\u00a0", "\x85"])
def test_white_space_becomes_spaces_on_one_line(space: str) -> None:
    assert printable(f"a{space}b", 8) == f"a{' ' * len(space)}b"


def test_a_longer_text_is_cut_and_ends_with_an_ellipsis() -> None:
    assert printable("abcdef", 6) == "abcdef"
    assert printable("abcdefg", 6) == "abcde…"


@pytest.mark.parametrize(
    ("names", "told"), [((), ""), (("a",), "a"), (("b", "a"), "b, a"), (("b", "a", "d", "c"), "b, a and 2 more")]
)
def test_the_first_names_are_told_and_how_many_more_there_are(names: tuple[str, ...], told: str) -> None:
    assert first_of(names, 2) == told


@given(st.text(st.characters(exclude_categories=())), st.integers(1, 40))
def test_every_text_is_printable_bounded_and_encodable(text: str, max_characters: int) -> None:
    made = printable(text, max_characters)
    assert made.isprintable()
    assert len(made) <= max_characters
    made.encode()
