"""Text from outside, made safe to store in a resource and to print on a terminal."""

from collections.abc import Sequence
from typing import Final

#: Stands for a character that was removed (U+FFFD, Unicode's replacement character).
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


def printable(text: str, max_characters: int) -> str:
    """Return the text on one line, with printable characters only, and not longer than `max_characters` (at least 1).

    White space other than a space becomes a space. Control characters (C0, DEL, C1), surrogates, bidirectional and
    other format characters, private and unassigned code points become U+FFFD: a terminal would carry some of them out,
    the API server refuses some of them in YAML, and a surrogate cannot be encoded. A longer text ends with U+2026.
    """
    # Cut first, so that a huge text costs no more than a long one.
    cut = text if len(text) <= max_characters else text[: max_characters - 1] + _ELLIPSIS
    if cut.isprintable():
        return cut
    return "".join(_printable_character(each) for each in cut)


def first_of(names: Sequence[str], most: int) -> str:
    """Return the first names in their order, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _printable_character(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else REPLACEMENT
