"""Lines of `sleep`."""

from collections.abc import Iterator
from typing import Final

from joulie_api.wire import Versioned
from joulie_cli.layout import Cell, Line, TableColumn, line, pairs, table
from joulie_cli.quantities import UNKNOWN, age, counted, total_watts, watts, word
from joulie_cli.render.nodes import sleep_style
from joulie_cli.render.sleep import WOKEN_BY
from joulie_cli.sleep_report import SleepReport, SleepRow
from joulie_core.kinds import NodeSleepPolicy

_COLUMNS: Final = (
    TableColumn("NODE", elastic=True),
    TableColumn("STATE"),
    TableColumn("FOR", right=True),
    TableColumn("WHY", elastic=True),
    TableColumn("TODAY", right=True),
    TableColumn("EVER", right=True),
    TableColumn("NOT DRAWN", right=True),
    TableColumn("SOURCE"),
    TableColumn("BMC"),
    TableColumn("POLICY", elastic=True),
)
_NO_NODE: Final = "no node sleeps, is going to sleep or is waking"
_SILENT: Final = "no answer"


def report_lines(found: SleepReport, width: int | None = None) -> list[Line]:
    """Return the nodes, their sums, and what their policies say."""
    lines = table(_COLUMNS, map(_cells, found.rows), width) if found.rows else [line(_NO_NODE)]
    if found.rows:
        lines += [line(), *pairs(_sums(found), width)]
    for policy in found.policies:
        lines += [line(), *pairs(_policy(policy), width)]
    return lines


def _cells(row: SleepRow) -> list[Cell]:
    note, node = row.node.note, row.node
    return [
        Cell(note.node),
        Cell(note.state, sleep_style(note.state)),
        Cell(age(None if note.since_s is None else row.now_s - note.since_s)),
        Cell(word(note.reason)),
        Cell(_number(row.cycles_today)),
        Cell(_number(node.cycles)),
        Cell(watts(row.not_drawn_watts)),
        Cell(word(row.source)),
        _bmc(row),
        Cell(word(row.policy)),
    ]


def _bmc(row: SleepRow) -> Cell:
    if row.bmc is None:
        return Cell(UNKNOWN)
    return Cell(_SILENT, "red") if row.bmc.reachable is False else Cell(word(row.bmc.power))


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _sums(found: SleepReport) -> Iterator[tuple[str, str | Cell]]:
    asleep = sum(row.sleeps for row in found.rows)
    others = len(found.rows) - asleep
    yield "Nodes", f"{asleep} asleep" + (f", {others} in other states" if others else "")
    yield "Power cycles", f"{sum(row.cycles_today or 0 for row in found.rows)} within 24 hours, of these nodes"
    yield "Not drawn", _not_drawn(found)


def _not_drawn(found: SleepReport) -> str:
    sums = found.not_drawn
    known = [(sums.measured, "measured before"), (sums.modelled, "modelled")]
    parts = [f"{total_watts(value)} {source}" for value, source in known if value]
    if sums.unknown:
        parts.append(f"unknown of {counted(sums.unknown, 'node')}")
    return ", ".join(parts) or UNKNOWN


def _policy(policy: Versioned[NodeSleepPolicy]) -> Iterator[tuple[str, str | Cell]]:
    spec, status = policy.model.spec, policy.model.status
    yield "Policy", f"{policy.name}, mode {spec.mode.value}"
    if status.nodes is not None:
        yield "Nodes", f"{status.nodes.selected}, {status.nodes.awake} awake and {status.nodes.asleep} asleep"
    if status.power_cycles is not None:
        used = status.power_cycles
        reached = f"; {counted(used.exhausted, 'node')} at the limit" if used.exhausted else ""
        yield "Power cycles", f"{used.total} within 24 hours, {used.used} of {used.limit} of one node{reached}"
    if status.rack_boots is not None:
        boots = status.rack_boots
        yield "Boots", f"{boots.used} of {boots.limit} in one rack"
    if status.refusals:
        refused = (f"{each.nodes} by {each.reason}" for each in status.refusals)
        yield "Stay awake", ", ".join(refused)
    least = spec.min_awake
    yield "Woken by", f"{WOKEN_BY}; kubectl joulie wake"
    schedules = f", {counted(len(spec.schedules), 'schedule')}" if spec.schedules else ""
    yield "Kept awake", f"{least.count} of each hardware family, {least.spare} without pods{schedules}"
