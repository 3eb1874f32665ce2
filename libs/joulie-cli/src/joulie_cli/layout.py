"""Text for people: figures, cells with a style each, lines of cells, tables that fit a width. No I/O.

What is unknown is `-`, never 0. A style is a name of `rich`, such as `red` or `bold`, and is dropped where the output
has no colour.
"""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from joulie_core.text import first_of, printable

#: Between two columns.
_GAP: Final = "  "
_ELLIPSIS: Final = "…"
#: A column is not cut to less.
_LEAST_WIDTH: Final = 8
#: Width of text where the output has none of its own.
TEXT_WIDTH: Final = 80
#: Names that are printed of nodes with a finding.
_MOST_NAMES: Final = 5
PROFILE_STYLES: Final = {"performance": "red", "eco": "green", "draining": "yellow"}
UNKNOWN: Final = "-"
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
_KILO: Final = 1000.0
#: From here on watts of a cluster are written in kW.
_KILOWATTS_FROM: Final = 10_000.0


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with one style; characters that a terminal would carry out are replaced.

    All texts that are printed for people pass here, so that none has to be cleaned before: agents and users write them.
    """

    text: str
    style: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", harmless(self.text))


Line = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table; an `elastic` one is cut where the table is wider than the terminal."""

    title: str
    right: bool = False
    elastic: bool = False


def harmless(text: str) -> str:
    """Return a text, whole, as one line without control and format characters."""
    return printable(text, len(text))


def line(text: str = "", style: str = "") -> Line:
    """Return a line of one style."""
    return (Cell(text, style),)


def plain(lines: Iterable[Line]) -> str:
    """Return lines as text without colour, each with its newline."""
    return "".join("".join(cell.text for cell in each).rstrip() + "\n" for each in lines)


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[Cell]], width: int | None = None) -> list[Line]:
    """Return a heading and a line for each row.

    Args:
        columns: the columns.
        rows: their cells, as many as there are columns.
        width: characters of a line at most, as far as elastic columns allow it; None for no limit.
    """
    cells = [[Cell(each.title, "bold") for each in columns], *rows]
    widths = [max(len(row[number].text) for row in cells) for number in range(len(columns))]
    _fit(columns, widths, width)
    return [tuple(map(_padded, row, widths, columns)) for row in cells]


def pairs(fields: Iterable[tuple[str, str | Cell]], width: int | None = None) -> list[Line]:
    """Return one line for each name and value, the values beneath each other; long values are wrapped."""
    known = [(name, value if isinstance(value, Cell) else Cell(value)) for name, value in fields]
    indent = max((len(name) for name, _ in known), default=0) + len(_GAP)
    lines: list[Line] = []
    for name, value in known:
        parts = wrapped(value.text, (width or TEXT_WIDTH) - indent) or [""]
        lines += [
            (Cell((name if not number else "").ljust(indent), "bold"), Cell(part, value.style))
            for number, part in enumerate(parts)
        ]
    return lines


def paragraph(text: str, *, width: int | None = None, indent: str = "", first: str | None = None) -> list[Line]:
    """Return wrapped text, indented; `first` is what the first line begins with instead."""
    wide = width or TEXT_WIDTH
    begin = indent if first is None else first
    return [line(part) for part in textwrap.wrap(text, wide, initial_indent=begin, subsequent_indent=indent)]


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in parts of at most so many characters, as far as its words allow that."""
    return textwrap.wrap(text, max(_LEAST_WIDTH, width), break_on_hyphens=False, break_long_words=False)


def shortened(text: str, width: int) -> str:
    """Return a text of at most so many characters; an ellipsis stands for what is cut from its end."""
    return text if len(text) <= width else text[: width - 1] + _ELLIPSIS


def watts(value: float | None) -> str:
    """Return whole watts, without the unit."""
    return UNKNOWN if value is None else f"{value:.0f}"


def total_watts(value: float | None) -> str:
    """Return the watts of many nodes, with the unit."""
    if value is None:
        return UNKNOWN
    return f"{value / _KILO:.1f} kW" if value >= _KILOWATTS_FROM else f"{value:.0f} W"


def percent(value: float | None) -> str:
    """Return whole percent."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def points(value: float | None) -> str:
    """Return points of a score, with one digit."""
    return UNKNOWN if value is None else f"{value:.1f}"


def age(seconds: float | None) -> str:
    """Return a duration as kubectl writes ages: `12s`, `4m`, `3h`, `9d`. A time ahead of this clock is `0s`."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE_S:
        return f"{whole}s"
    if whole < 2 * _HOUR_S:
        return f"{whole // _MINUTE_S}m"
    if whole < 2 * _DAY_S:
        return f"{whole // _HOUR_S}h"
    return f"{whole // _DAY_S}d"


def word(value: str | None) -> str:
    """Return a word of a resource."""
    return value or UNKNOWN


def flag(value: bool | None) -> str:  # noqa: FBT001 - the value to write
    """Return yes or no."""
    return UNKNOWN if value is None else ("yes" if value else "no")


def counted(number: int, what: str, many: str = "") -> str:
    """Return a number and the noun in its form: `1 node`, `2 nodes`."""
    return f"{number} {what if number == 1 else many or f'{what}s'}"


def some_names(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    return first_of(list(names), _MOST_NAMES)


def _fit(columns: Sequence[TableColumn], widths: list[int], width: int | None) -> None:
    """Cut elastic columns, always the widest of them, until the table fits or all of them are short."""
    # Of columns as wide the last is cut: the first has the name.
    elastic = [number for number, column in reversed(list(enumerate(columns))) if column.elastic]
    excess = 0 if width is None else sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for _ in range(excess):
        widest = max(elastic, key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= _LEAST_WIDTH:
            return
        widths[widest] -= 1


def _padded(cell: Cell, width: int, column: TableColumn) -> Cell:
    text = shortened(cell.text, width)
    return Cell((text.rjust(width) if column.right else text.ljust(width)) + _GAP, cell.style)
