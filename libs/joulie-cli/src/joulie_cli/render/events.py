"""Lines of Events."""

from collections.abc import Iterable, Sequence
from typing import Final

from joulie_cli.event_views import EventView
from joulie_cli.layout import Cell, Line, wrapped
from joulie_cli.quantities import age

_AGE: Final = 5
_REASON: Final = 21
_OBJECT: Final = 18
_INDENT: Final = _AGE + 2
#: A message gets a line of its own where less than this is left for it.
_LEAST_MESSAGE: Final = 40
_WARNING: Final = "Warning"
HEADING: Final[Line] = (
    Cell("AGE".rjust(_AGE) + "  ", "bold"),
    Cell("REASON".ljust(_REASON) + "  ", "bold"),
    Cell("OBJECT".ljust(_OBJECT) + "  ", "bold"),
    Cell("MESSAGE", "bold"),
)


def event_lines(events: Iterable[EventView], *, now_s: float, width: int | None = None) -> list[Line]:
    """Return each event as one line, or as several where its message does not fit the width."""
    return [line for event in events for line in _event(event, now_s, width)]


def _event(event: EventView, now_s: float, width: int | None) -> Sequence[Line]:
    seen = age(None if event.at_s is None else now_s - event.at_s)
    first = (
        Cell(seen.rjust(_AGE) + "  ", "dim"),
        Cell(event.reason.ljust(_REASON) + "  ", "yellow" if event.type == _WARNING else "cyan"),
        Cell(event.about.ljust(_OBJECT) + "  "),
    )
    message = f"{event.message} (x{event.count})" if event.count > 1 else event.message
    used = sum(len(cell.text) for cell in first)
    if width is None or used + len(message) <= width:
        return [(*first, Cell(message))]
    if width - used >= _LEAST_MESSAGE:
        parts = wrapped(message, width - used)
        return [(*first, Cell(parts[0])), *((Cell(" " * used), Cell(part)) for part in parts[1:])]
    return [first, *((Cell(" " * _INDENT), Cell(part)) for part in wrapped(message, width - _INDENT))]
