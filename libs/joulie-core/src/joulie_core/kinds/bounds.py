"""Validators that truncate values of drivers and backends to what the schema allows, and mark the truncation.

Values that fit, and values of another type, are returned unchanged; the model's own validation rejects the latter.
"""

from collections.abc import Callable
from typing import Final

#: Last character of a truncated text.
CUT_MARK: Final = "\N{HORIZONTAL ELLIPSIS}"

Cut = Callable[[object], object]


def cut_text(most: int) -> Cut:
    """Return a validator that truncates text to a number of characters, including the mark."""

    def cut(value: object) -> object:
        if not isinstance(value, str):
            return value
        # A lone surrogate, which JSON escapes can produce, cannot be encoded.
        text = value if value.isascii() else value.encode(errors="replace").decode()
        return text if len(text) <= most else text[: most - 1] + CUT_MARK

    return cut


def cut_list(most: int) -> Cut:
    """Return a validator that keeps the first entries of a list."""

    def cut(value: object) -> object:
        return value[:most] if isinstance(value, list | tuple) else value

    return cut


def sum_up(most: int) -> Cut:
    """Return a validator that keeps the first warnings and adds the number of those omitted."""

    def cut(value: object) -> object:
        if not isinstance(value, list | tuple) or len(value) <= most:
            return value
        kept = most - 1
        return [*value[:kept], f"and {len(value) - kept} more warnings"]

    return cut
