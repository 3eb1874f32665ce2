"""Lines of `wake`."""

from collections.abc import Sequence
from typing import Final

from joulie_cli.layout import Cell, Line, TableColumn, line, paragraph, table
from joulie_cli.quantities import UNKNOWN, age, flag
from joulie_cli.sleepers import AWAKE, Wake
from joulie_core.timestamps import rfc3339

_COLUMNS: Final = (
    TableColumn("NODE", elastic=True),
    TableColumn("STATE"),
    TableColumn("CHANGED"),
    TableColumn("AWAKE UNTIL"),
)
NO_NODE_SLEEPS: Final = line("no node sleeps, is going to sleep or is waking")
NO_QUARANTINE: Final = line("no node is in quarantine")
_FOLLOW: Final = "The operator wakes them, some at a time; kubectl joulie nodes shows their states, and --wait follows."


def wake_lines(wakes: Sequence[Wake], *, follows: bool, width: int | None = None) -> list[Line]:
    """Return the nodes with what was done, and how it goes on; `follows`: the states are printed from here on."""
    lines = table(_COLUMNS, map(_cells, wakes), width)
    if not follows and any(wake.waits for wake in wakes):
        lines += paragraph(_FOLLOW, width=width)
    return lines


def progress_line(before: Wake, after: Wake, elapsed_s: float) -> Line:
    """Return the change of a node's state, so many seconds after the request."""
    change = f"{before.node.state} -> {after.node.state}"
    return (Cell(f"{age(elapsed_s):>4}  {after.node.name}  "), Cell(change, _style(after)))


def _cells(wake: Wake) -> list[Cell]:
    until_s = wake.node.until_s
    return [
        Cell(wake.node.name),
        Cell(wake.node.state, _style(wake)),
        Cell(flag(wake.changed)),
        Cell(UNKNOWN if until_s is None else rfc3339(until_s, "seconds")),
    ]


def _style(wake: Wake) -> str:
    if wake.problem:
        return "red"
    return "green" if wake.node.state == AWAKE else "yellow"
