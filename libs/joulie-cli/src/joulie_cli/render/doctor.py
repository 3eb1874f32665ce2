"""Lines of `doctor`."""

from collections.abc import Sequence
from typing import Final

from joulie_cli.check_outcome import CheckOutcome, CheckState
from joulie_cli.layout import Cell, Line, line, wrapped
from joulie_cli.quantities import counted
from joulie_cli.render.status import some_names

_STYLES: Final = {CheckState.OK: "green", CheckState.FINDING: "red", CheckState.UNCHECKED: "yellow"}
_STATE: Final = max(len(state) for state in CheckState) + 2
_NAME: Final = 11
_INDENT: Final = " " * (_STATE + _NAME)


def doctor_lines(findings: Sequence[CheckOutcome], width: int | None = None) -> list[Line]:
    """Return the results of the checks and their number."""
    lines = [each for finding in findings for each in _finding(finding, width or 80)]
    number = sum(finding.state is CheckState.FINDING for finding in findings)
    summary = counted(number, "finding") if number else "nothing found"
    return [*lines, line(), line(summary, "red" if number else "green")]


def _finding(finding: CheckOutcome, width: int) -> list[Line]:
    nodes = f": {counted(len(finding.nodes), 'node')}: {some_names(finding.nodes)}" if finding.nodes else ""
    room = width - len(_INDENT)
    first, *rest = wrapped(f"{finding.text}{nodes}", room)
    lines: list[Line] = [
        (
            Cell(finding.state.ljust(_STATE), _STYLES[finding.state]),
            Cell(finding.check.ljust(_NAME), "bold"),
            Cell(first),
        ),
        *((Cell(_INDENT), Cell(each)) for each in rest),
    ]
    way_out = wrapped(f"-> {finding.way_out}", room) if finding.way_out else []
    return lines + [(Cell(_INDENT), Cell(each, "cyan")) for each in way_out]
