"""`kubectl joulie nodes`: one row for each managed node."""

from argparse import Namespace
from collections.abc import Iterable
from typing import Any, Final

from joulie_cli.arguments import add_verb, cluster_options, format_option, selector_option
from joulie_cli.cluster import connect
from joulie_cli.layout import (
    PROFILE_STYLES,
    UNKNOWN,
    Cell,
    Line,
    TableColumn,
    age,
    flag,
    percent,
    table,
    watts,
    word,
)
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.views.rows import SORT_KEYS, NodeRow
from joulie_cli.views.sleep import sleep_style

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
#: Below this share of free power a node is shown as full.
_LITTLE_HEADROOM_PCT: Final = 10.0
_QUALITY_STYLES: Final = {"modelled": "yellow", "unknown": "dim"}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "nodes",
        run,
        summary="one row for each managed node",
        description="PROFILE is the profile of the target, with the class in the twin where that differs "
        "(eco/draining); of a node that sleeps, goes to sleep or is waking it is that state (asleep). "
        "HEADROOM is the free share of the cap, CAP what the caps of CPUs and GPUs allow "
        "together, AGE the time since the twin was updated. A ! behind the backend: a cap is blocked or "
        "failed. -o wide has all columns.",
        example="kubectl joulie nodes --sort watts\nkubectl joulie nodes worker-1 worker-2 -o wide",
        parents=[cluster_options(), format_option(), selector_option()],
    )
    parser.add_argument("names", nargs="*", metavar="NODE", help="only these nodes")
    parser.add_argument(
        "--sort", choices=tuple(SORT_KEYS), default="name", help="order; name by default, unknown values last"
    )


async def run(options: Namespace) -> ExitCode:
    """Print the nodes."""
    async with connect(options) as cluster:
        rows = await cluster.rows(options.selector)
    if options.names:
        unknown = sorted(set(options.names) - {row.name for row in rows})
        if unknown:
            raise CliError(f"node {unknown[0]!r} is not managed", "kubectl joulie nodes lists those that are")
        rows = [row for row in rows if row.name in options.names]
    if not rows and options.output in {"table", "wide"}:
        raise CliError(
            f"no node is managed: none matches {options.selector!r}, and there is no NodePowerProfile",
            "kubectl label node NODE joulie.io/managed=true",
        )
    rows.sort(key=SORT_KEYS[options.sort])
    wide = options.output == "wide"
    data = {"nodes": [row.data() for row in rows]}
    show(options, data, lambda width: node_table(rows, wide=wide, width=None if wide else width))
    return ExitCode.OK


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


def _profile(row: NodeRow) -> Cell:
    """Return the profile, and the class in the twin where that is another one: `eco/draining`."""
    profile, seen = row.profile, row.schedulable_class
    style = PROFILE_STYLES.get(seen or profile or "", "dim")
    return Cell(word(profile) if seen in {None, profile} else f"{word(profile)}/{seen}", style)


def _cells(row: NodeRow) -> list[Cell]:
    state = row.marks.sleep_state if row.marks else None
    return [Cell(row.name), Cell(state, sleep_style(state)) if state else _profile(row), *_power(row)]


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
    failed = any(control.failed for control in row.controls.values())
    return [
        Cell(f"{word(row.backend)}{'!' if failed else ''}", "red" if failed else ""),
        Cell(age(row.age_s), "red" if row.stale else ""),
    ]


def _control(row: NodeRow, subsystem: str) -> Cell:
    """Return the result of the last control action, with the reason where it failed: `blocked:FirmwareLocked`."""
    control = row.controls.get(subsystem)
    if control is None:
        return Cell(UNKNOWN)
    reason = f":{control.reason}" if control.failed and control.reason else ""
    return Cell(f"{control.result}{reason}", "red" if control.failed else "")
