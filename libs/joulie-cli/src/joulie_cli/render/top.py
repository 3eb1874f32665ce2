"""One screen of `top`, and what its keys do. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from joulie_cli.layout import Cell, Line, line, shortened
from joulie_cli.node_rows import SORT_KEYS, NodeRow
from joulie_cli.overview import failed_caps, power_sum
from joulie_cli.quantities import counted, total_watts
from joulie_cli.render.nodes import node_table
from joulie_cli.sleepers import ASLEEP, GOING_STATES, QUARANTINED, WAKING

QUIT: Final = "q"
_SORTS: Final[Mapping[str, str]] = {
    "n": "name",
    "w": "watts",
    "h": "headroom",
    "c": "cap",
    "p": "profile",
    "a": "age",
}
#: Lines of a screen beside the rows: head, heading, keys.
_FRAME_LINES: Final = 4
_MOVES: Final[Mapping[str, int]] = {"j": 1, "down": 1, "k": -1, "up": -1}
_PAGES: Final[Mapping[str, int]] = {" ": 1, "pagedown": 1, "pageup": -1}


@dataclass(frozen=True, slots=True)
class TopView:
    """What the user has chosen."""

    sort: str = "watts"
    #: Index of the first row that is shown.
    first: int = 0


def press(view: TopView, key: str, *, rows: int, height: int) -> TopView:
    """Return the view after a key; unknown keys change nothing.

    Args:
        view: the view before.
        key: a character, or `up`, `down`, `pageup`, `pagedown`, `home`, `end`.
        rows: number of nodes.
        height: lines of the terminal.
    """
    page = rows_shown(height)
    if key in _SORTS:
        return TopView(sort=_SORTS[key])
    first = {"home": 0, "g": 0, "end": rows, "G": rows}.get(key, view.first)
    first += _MOVES.get(key, 0) + _PAGES.get(key, 0) * page
    return replace(view, first=max(0, min(first, rows - page)))


def rows_shown(height: int) -> int:
    """Return how many nodes a terminal of so many lines shows."""
    return max(1, height - _FRAME_LINES)


def screen(
    rows: Sequence[NodeRow], view: TopView, *, server: str, problem: str | None, width: int, height: int
) -> list[Line]:
    """Return the lines of a screen, at most `height` of at most `width` characters.

    Args:
        rows: all nodes, in any order.
        view: what the user has chosen.
        server: URL of the API server.
        problem: why the cluster cannot be read at the moment, None where it can.
        width: columns of the terminal.
        height: its lines.
    """
    ordered = sorted(rows, key=SORT_KEYS[view.sort])
    page = rows_shown(height)
    first = max(0, min(view.first, len(ordered) - page))
    shown = ordered[first : first + page]
    lines = [_head(rows, server, width), _problem(problem, width), *node_table(shown, width=width)]
    lines += [line()] * (height - len(lines) - 1)
    return [*lines[: height - 1], _keys(view, first, len(shown), len(ordered), width)]


def _head(rows: Sequence[NodeRow], server: str, width: int) -> Line:
    power = power_sum(rows)
    stale = sum(row.stale for row in rows)
    failed = sum(len(each.nodes) for each in failed_caps(rows))
    draining = sum(bool(row.draining) for row in rows)
    text = (
        f"{counted(len(rows), 'node')}, {total_watts(power.watts)} of {total_watts(power.cap_watts)}, "
        f"{draining} draining, {_sleeping(rows)}{counted(stale, 'stale twin')}, "
        f"{counted(failed, 'failed cap')}  {server}"
    )
    return line(shortened(text, width), "bold")


def _sleeping(rows: Sequence[NodeRow]) -> str:
    """Return how many nodes are not awake, by what they do; empty where all are."""
    states = [row.sleep_state for row in rows]
    counts = {
        "going to sleep": sum(state in GOING_STATES for state in states),
        ASLEEP: states.count(ASLEEP),
        WAKING: states.count(WAKING),
        "in quarantine": states.count(QUARANTINED),
    }
    return "".join(f"{number} {name}, " for name, number in counts.items() if number)


def _problem(problem: str | None, width: int) -> Line:
    return line() if problem is None else line(shortened(f"old values: {problem}", width), "red")


def _keys(view: TopView, first: int, shown: int, rows: int, width: int) -> Line:
    part = f"{first + 1 if rows else 0}-{first + shown} of {rows} by {view.sort}"
    text = f"{part}   sort: n w h c p a   scroll: j k   q quit"
    return (Cell(shortened(text, width), "reverse"),)
