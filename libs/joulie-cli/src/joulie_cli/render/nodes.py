"""Tables of nodes."""

from collections.abc import Iterable
from typing import Final

from joulie_cli.layout import Cell, Line, TableColumn, table
from joulie_cli.node_rows import FAILED_RESULTS, NodeRow
from joulie_cli.quantities import UNKNOWN, age, flag, percent, watts, word
from joulie_cli.sleepers import QUARANTINED

_NAME: Final = TableColumn("NODE", elastic=True)
_POWER: Final = (
    TableColumn("HEADROOM", right=True),
    TableColumn("WATTS", right=True),
    TableColumn("CAP", right=True),
    TableColumn("QUALITY"),
)
#: Where any node has a BMC that measures.
_SERVER: Final = (TableColumn("SERVER", right=True), TableColumn("BY"))
_END: Final = (TableColumn("BACKEND"), TableColumn("AGE", right=True))
_COLUMNS: Final = (_NAME, TableColumn("PROFILE"), *_POWER)
_WIDE_COLUMNS: Final = (
    _NAME,
    TableColumn("PROFILE"),
    TableColumn("SLEEP"),
    TableColumn("DRAINING"),
    TableColumn("CLASS"),
    *_POWER,
    TableColumn("SOURCE"),
    TableColumn("TREND", right=True),
    TableColumn("COOLING", right=True),
    TableColumn("PSU", right=True),
    TableColumn("RACK"),
    TableColumn("CPU"),
    TableColumn("GPU"),
)
PROFILE_STYLES: Final = {"performance": "red", "eco": "green", "draining": "yellow"}
#: Below this share of free power a node is shown as full.
_LITTLE_HEADROOM_PCT: Final = 10.0
_QUALITY_STYLES: Final = {"modelled": "yellow", "unknown": "dim"}


def node_table(rows: Iterable[NodeRow], *, wide: bool = False, width: int | None = None) -> list[Line]:
    """Return the table of nodes; of those that are not awake their state stands for the profile."""
    shown = list(rows)
    with_server = any(row.server is not None for row in shown)
    columns = (*(_WIDE_COLUMNS if wide else _COLUMNS), *(_SERVER if with_server else ()), *_END)
    cells = _wide_cells if wide else _cells
    return table(
        columns,
        ([*cells(row), *(_server(row) if with_server else ()), *_end(row)] for row in shown),
        width,
    )


def profile_cell(row: NodeRow) -> Cell:
    """Return the profile, and the class in the twin where that is another one: `eco/draining`."""
    profile, seen = row.profile, row.schedulable_class
    style = PROFILE_STYLES.get(seen or profile or "", "dim")
    return Cell(word(profile) if seen in {None, profile} else f"{word(profile)}/{seen}", style)


def control_text(row: NodeRow, subsystem: str) -> str:
    """Return the result of the last control action, with the reason where it failed: `blocked:FirmwareLocked`."""
    control = row.controls.get(subsystem)
    if control is None:
        return UNKNOWN
    failed = control.result in FAILED_RESULTS and control.reason
    return f"{control.result}:{control.reason}" if failed else control.result


def _cells(row: NodeRow) -> list[Cell]:
    state = row.marks.sleep_state if row.marks else None
    return [Cell(row.name), Cell(state, sleep_style(state)) if state else profile_cell(row), *_power(row)]


def sleep_style(state: str) -> str:
    """Return the style of a state of sleep."""
    return "red" if state == QUARANTINED else "blue"


def _wide_cells(row: NodeRow) -> list[Cell]:
    state = row.marks.sleep_state if row.marks else None
    twin = row.twin
    trend = twin.trend_w_per_min if twin else None
    return [
        Cell(row.name),
        Cell(word(row.profile), PROFILE_STYLES.get(row.profile or "", "dim")),
        Cell(word(row.sleep_state), sleep_style(state) if state else ""),
        Cell(flag(row.draining), "yellow" if row.draining else ""),
        Cell(word(row.schedulable_class), PROFILE_STYLES.get(row.schedulable_class or "", "dim")),
        *_power(row),
        Cell(word(row.source)),
        Cell(UNKNOWN if trend is None else f"{trend:+.0f}"),
        Cell(percent(twin.cooling_pct if twin else None)),
        Cell(percent(twin.psu_pct if twin else None)),
        Cell(word(row.rack)),
        *(_control(row, subsystem) for subsystem in ("cpu", "gpu")),
    ]


def _power(row: NodeRow) -> list[Cell]:
    full = row.headroom_pct is not None and row.headroom_pct < _LITTLE_HEADROOM_PCT
    return [
        Cell(percent(row.headroom_pct), "red" if full else ""),
        Cell(watts(row.watts)),
        Cell(watts(row.cap_watts)),
        Cell(word(row.quality), _QUALITY_STYLES.get(row.quality or "unknown", "")),
    ]


def _server(row: NodeRow) -> list[Cell]:
    server = row.server
    return [Cell(watts(server.watts if server else None)), Cell(word(server.source if server else None))]


def _end(row: NodeRow) -> list[Cell]:
    failed = any(control.result in FAILED_RESULTS for control in row.controls.values())
    return [
        Cell(f"{word(row.backend)}{'!' if failed else ''}", "red" if failed else ""),
        Cell(age(row.age_s), "red" if row.stale else ""),
    ]


def _control(row: NodeRow, subsystem: str) -> Cell:
    control = row.controls.get(subsystem)
    return Cell(control_text(row, subsystem), "red" if control and control.result in FAILED_RESULTS else "")
