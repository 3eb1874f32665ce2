"""Cuts what foreign sources say down to what the API server takes, and marks that it did.

Promises to leave alone what fits, and whatever is no text or list: that is for the model's own validation to refuse.
"""

from collections.abc import Callable
from typing import Final

#: The last character of a text that was cut.
CUT_MARK: Final = "\N{HORIZONTAL ELLIPSIS}"

Cut = Callable[[object], object]


def cut_text(most: int) -> Cut:
    """Return a validator that cuts texts to a number of characters, the mark included."""

    def cut(value: object) -> object:
        if not isinstance(value, str):
            return value
        # Half of a surrogate pair is in no encoding, and JSON escapes can make one.
        text = value if value.isascii() else value.encode(errors="replace").decode()
        return text if len(text) <= most else text[: most - 1] + CUT_MARK

    return cut


def cut_list(most: int) -> Cut:
    """Return a validator that keeps the first entries of a list."""

    def cut(value: object) -> object:
        return value[:most] if isinstance(value, list | tuple) else value

    return cut


def sum_up(most: int) -> Cut:
    """Return a validator that keeps the first warnings, and says how many there are beyond them."""

    def cut(value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) <= most:
            return value
        kept = most - 1
        return [*value[:kept], f"and {len(value) - kept} more warnings"]

    return cut
