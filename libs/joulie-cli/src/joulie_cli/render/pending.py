"""Lines of `why-pending`."""

from collections.abc import Sequence

from joulie_cli.event_views import EventView
from joulie_cli.layout import Cell, Line, line, pairs, paragraph
from joulie_cli.pending import PendingReport
from joulie_cli.quantities import counted
from joulie_cli.render.events import event_lines
from joulie_cli.render.status import some_names


def pending_lines(report: PendingReport, events: Sequence[EventView], *, now_s: float, width: int | None) -> list[Line]:
    """Return the report, the events before it."""
    state = f"{report.phase}, on node {report.node}" if report.node else f"{report.phase}, on no node"
    head: list[tuple[str, str | Cell]] = [
        ("Pod", report.pod),
        ("State", state),
        ("Workload class", f"{report.workload_class}: {report.why}"),
    ]
    lines = [*pairs(head, width), line(), line("Events", "bold")]
    lines += event_lines(events, now_s=now_s, width=width) or [line("  none")]
    lines += [line(), line("Managed nodes", "bold")]
    for each in report.verdicts:
        word = "allowed" if each.result.ok else "refused"
        text = f"{counted(len(each.nodes), 'node')}: {each.result.message.removeprefix('joulie: ')}"
        lines += paragraph(
            f"{text}: {some_names(each.nodes)}", width=width, indent="    ", first=f"  {word}, {each.result.reason}: "
        )
    if not report.verdicts:
        lines.append(line("  none"))
    lines += [line(), line("What to change", "bold")]
    for advice in report.advice:
        lines += paragraph(advice, width=width, indent="    ", first="  - ")
    return lines
