"""`kubectl joulie event`: limits of power domains for a time, what came of them, and the report of one."""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from joulie_api.resources import POWER_EVENTS
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import connect
from joulie_cli.layout import UNKNOWN, Cell, Line, TableColumn, age, line, pairs, paragraph, table, total_watts, watts
from joulie_cli.output import CliError, ExitCode, show
from joulie_cli.views.power_events import MinuteView, PowerEventView, decode_power_event, report_text, with_gaps
from joulie_core.timestamps import epoch_seconds

_COLUMNS: Final = (
    TableColumn("EVENT", elastic=True),
    TableColumn("DOMAIN", elastic=True),
    TableColumn("STATE"),
    TableColumn("ASKED"),
    TableColumn("BASELINE", right=True),
    TableColumn("TARGET", right=True),
    TableColumn("DRAWN", right=True),
    TableColumn("DELIVERABLE", right=True),
    TableColumn("BINDS", elastic=True),
    TableColumn("ACCEPTED"),
)
_PLOT_COLUMNS, _PLOT_ROWS = 60, 10
_DRAWN, _TARGET, _BASELINE, _MISSING = "█", "=", "-", "?"
_PART_COLUMNS: Final = (
    TableColumn("MINUTES FROM"),
    TableColumn("MINUTES", right=True),
    TableColumn("BASELINE", right=True),
    TableColumn("TARGET", right=True),
    TableColumn("DRAWN", right=True),
    TableColumn("QUALITY"),
)
#: Parts of an event that are printed; `--report` has every minute.
_MOST_PARTS: Final = 20
_FAULT, _WARNING = "red", "yellow"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "event",
        run,
        summary="power events: less power for a time, and what came of it",
        description="The PowerEvents. ASKED is the limit or the reduction that is asked for; TARGET is what CPU "
        "packages and GPUs of the domain may draw now, where an event is in force; DELIVERABLE is the lowest that the "
        "event can bring them to; BINDS is the event whose limit is in force in the domain; ACCEPTED is Accepted, or "
        "why the event cannot be carried out as it is asked for. With a NAME: conditions, figures, parts of the event "
        "with the same target, and a plot of its minutes. --report writes one line a minute as CSV, with empty fields "
        "where nothing is known. docs/power-events.md has the rest.",
        example="kubectl joulie event\nkubectl joulie event call-1\nkubectl joulie event call-1 --report call-1.csv",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="only this PowerEvent, in detail")
    parser.add_argument("--report", metavar="FILE", help="write the report of the event to a file, as CSV")


async def run(options: Namespace) -> ExitCode:
    """Print the events, or one of them, or write its report."""
    if options.report is not None and options.name is None:
        raise CliError("--report needs the NAME of an event", "kubectl joulie event lists them")
    async with connect(options) as cluster:
        found = sorted(await cluster.read(POWER_EVENTS, decode_power_event), key=lambda each: each.name)
    if options.name is None:
        show(options, {"events": [each.data() for each in found]}, lambda width: _list(found, width))
        return ExitCode.OK
    chosen = next((each for each in found if each.name == options.name), None)
    if chosen is None:
        raise CliError(f"there is no PowerEvent {options.name!r}", "kubectl joulie event lists them")
    if options.report is not None:
        _write(Path(options.report), chosen)
        return ExitCode.OK
    now_s = time.time()
    show(options, chosen.data(), lambda width: _detail(chosen, now_s, width))
    return ExitCode.OK


def _write(path: Path, event: PowerEventView) -> None:
    try:
        path.write_text(report_text(event), encoding="utf-8")
    except OSError as error:
        raise CliError(f"the report cannot be written: {error}", "name a file that can be written") from error


def _list(found: Sequence[PowerEventView], width: int | None) -> list[Line]:
    if not found:
        return [line("There is no PowerEvent: docs/power-events.md has an example.")]
    return table(_COLUMNS, [_cells(each) for each in found], width)


def _cells(event: PowerEventView) -> list[Cell]:
    status = event.status
    return [
        Cell(event.name),
        Cell(event.spec.domain if event.spec is not None else UNKNOWN),
        Cell(status.state or "not seen", "" if status.state else _WARNING),
        Cell(event.asked, "" if event.spec is not None else _FAULT),
        Cell(watts(status.baseline_watts)),
        Cell(watts(status.target_watts)),
        Cell(watts(status.drawn_watts)),
        Cell(watts(status.deliverable_watts)),
        Cell(status.binding_event or UNKNOWN),
        _accepted(event),
    ]


def _accepted(event: PowerEventView) -> Cell:
    found = event.status.find("Accepted")
    if found is None:
        return Cell(UNKNOWN)
    return Cell(found.reason, "" if found.status == "True" else _WARNING)


def _detail(event: PowerEventView, now_s: float, width: int | None) -> list[Line]:
    lines = pairs(_fields(event, now_s), width)
    minutes = with_gaps(event.status.minutes)
    if not minutes:
        return lines
    parts = _parts(minutes)
    lines += [line(), *table(_PART_COLUMNS, parts[-_MOST_PARTS:], width)]
    if len(parts) > _MOST_PARTS:
        lines.append(line(f"and {len(parts) - _MOST_PARTS} parts before; --report has every minute"))
    legend = f"{_DRAWN} drawn, {_TARGET} target, {_BASELINE} baseline, {_MISSING} drawn power not known"
    return [*lines, line(), *(line(each) for each in plot(minutes)), *paragraph(legend, width=width)]


def _fields(event: PowerEventView, now_s: float) -> Iterator[tuple[str, str | Cell]]:
    status, spec = event.status, event.spec
    yield "Event", event.name
    if spec is not None:
        yield "Domain", spec.domain
        yield "Asked", f"{event.asked}, may affect {', '.join(spec.may_affect)}"
        yield "Time", f"{spec.start or 'when it is seen'} to {spec.end or 'its deletion'}"
    updated_s = epoch_seconds(status.last_updated)
    yield "Observed", f"{age(now_s - updated_s)} ago" if updated_s is not None else Cell("never", _WARNING)
    yield "State", status.state or UNKNOWN
    yield "Deliverable", f"down to {total_watts(status.deliverable_watts)}"
    yield "Baseline", total_watts(status.baseline_watts)
    yield "Target", f"{total_watts(status.target_watts)}, by {status.binding_event or 'no event'}"
    yield "Drawn", total_watts(status.drawn_watts)
    yield "To 90 %", UNKNOWN if status.seconds_to90_percent is None else f"{status.seconds_to90_percent:.0f} s"
    yield "Error", _percent(status.mean_error_while_held, "of the target, mean while held")
    yield "Rebound", _percent(status.rebound_percent, "of the baseline")
    if status.affected is not None:
        found = status.affected
        yield "Affected", f"{found.standard_nodes} standard nodes, {found.performance_nodes} with performance pods"
    for each in status.conditions or ():
        yield each.type, f"{each.status}, {each.reason}" + (f": {each.message}" if each.message else "")


def _percent(value: float | None, of: str) -> str:
    return UNKNOWN if value is None else f"{value:+.1f} % {of}"


def _parts(minutes: Sequence[MinuteView]) -> list[list[Cell]]:
    """Return one row for each run of minutes with the same target and quality."""
    rows: list[list[Cell]] = []
    for (target, quality), run_ in groupby(minutes, key=lambda each: (each.target_watts, each.quality)):
        part = list(run_)
        baseline = part[-1].baseline_watts
        cells = (watts(baseline), watts(target), watts(_mean(part)), quality)
        rows.append([Cell(part[0].start), Cell(str(len(part))), *(Cell(each) for each in cells)])
    return rows


def _mean(minutes: Sequence[MinuteView]) -> float | None:
    drawn = [each.drawn_watts for each in minutes if each.drawn_watts is not None]
    return sum(drawn) / len(drawn) if drawn else None


def plot(minutes: Sequence[MinuteView]) -> list[str]:
    """Return lines of a plot, the highest first; of more minutes than columns each column has a mean."""
    size = -(-len(minutes) // _PLOT_COLUMNS)
    columns = [minutes[start : start + size] for start in range(0, len(minutes), size)]
    figures = [value for each in minutes for value in (each.drawn_watts, each.target_watts, each.baseline_watts)]
    top = max((value for value in figures if value is not None), default=0.0)
    if top <= 0.0:
        return []
    bars = [_bar(column, top) for column in columns]
    return [
        f"{total_watts(top * (row + 1) / _PLOT_ROWS):>10} " + "".join(bar[row] for bar in bars)
        for row in reversed(range(_PLOT_ROWS))
    ]


def _bar(column: Sequence[MinuteView], top: float) -> list[str]:
    drawn = _mean(column)
    filled = 0 if drawn is None else round(drawn / top * _PLOT_ROWS)
    cells = [_DRAWN if row < filled else " " for row in range(_PLOT_ROWS)]
    if drawn is None:
        cells[0] = _MISSING
    for value, mark in ((column[-1].baseline_watts, _BASELINE), (column[-1].target_watts, _TARGET)):
        if value is not None:
            cells[min(_PLOT_ROWS - 1, max(0, round(value / top * _PLOT_ROWS) - 1))] = mark
    return cells
