"""Lines of `status`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from joulie_cli.layout import Cell, Line, TableColumn, line, pairs, table
from joulie_cli.overview import Overview, PowerSum
from joulie_cli.quantities import UNKNOWN, age, counted, percent, total_watts
from joulie_cli.render.nodes import PROFILE_STYLES
from joulie_cli.service_pods import ServiceHealth
from joulie_cli.sleepers import QUARANTINED

_POWER: Final = (
    TableColumn("PROFILE"),
    TableColumn("NODES", right=True),
    TableColumn("POWER", right=True),
    TableColumn("CAP", right=True),
    TableColumn("USED", right=True),
    TableColumn("QUALITY"),
)
#: Names that are printed of nodes with a finding.
_NAMES: Final = 5


def status_lines(found: Overview, width: int | None = None) -> list[Line]:
    """Return the overview."""
    return [
        *pairs(_services(found), width),
        line(),
        *table(_POWER, _power_rows(found), width),
        line(),
        *pairs(_rest(found), width),
    ]


def some_names(names: Iterable[str], most: int = _NAMES) -> str:
    """Return the first names, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def _services(found: Overview) -> Iterator[tuple[str, str | Cell]]:
    yield "API server", f"{found.server} ({found.kubernetes})"
    if found.services is None:
        yield "Services", Cell("unknown: this user may not list pods", "yellow")
        return
    for name, service in found.services.items():
        yield name.capitalize(), _service(service)


def _service(service: ServiceHealth) -> Cell:
    if not service.pods:
        return Cell("no pod", "yellow")
    text = f"{service.ready} of {counted(service.pods, 'pod')} ready in {', '.join(service.namespaces)}"
    if service.versions:
        text += f", version {' and '.join(service.versions)}"
    return Cell(text, "green" if service.ready == service.pods else "red")


def _power_rows(found: Overview) -> Iterator[list[Cell]]:
    for name, power in found.by_profile.items():
        style = "yellow" if "draining" in name else PROFILE_STYLES.get(name, "dim")
        yield _power_row(Cell(name, style), power)
    yield _power_row(Cell("all", "bold"), found.total)


def _power_row(name: Cell, power: PowerSum) -> list[Cell]:
    used = power.watts / power.cap_watts * 100 if power.watts is not None and power.cap_watts else None
    return [
        name,
        Cell(str(power.nodes)),
        Cell(total_watts(power.watts)),
        Cell(total_watts(power.cap_watts)),
        Cell(percent(used)),
        Cell(_counts(power.quality)),
    ]


def _rest(found: Overview) -> Iterator[tuple[str, str | Cell]]:
    yield "Nodes", f"{found.nodes} managed, {found.cordoned} cordoned"
    if found.by_sleep_state:
        style = "red" if QUARANTINED in found.by_sleep_state else ""
        yield "Sleep", Cell(_counts(found.by_sleep_state), style)
    yield "Classes", _counts(found.by_class)
    yield "Newest twin", UNKNOWN if found.newest_twin_s is None else f"{age(found.newest_twin_s)} old"
    for subsystem, results in found.results.items():
        yield f"{subsystem.upper()} caps", _counts(results)
    for each in found.failed_caps:
        names = some_names(each.nodes)
        yield f"  {each.result}", Cell(f"{each.subsystem}, {each.reason or 'no reason'}: {names}", "red")
    if found.stale:
        yield "Stale twins", Cell(f"{len(found.stale)}: {some_names(found.stale)}", "red")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or UNKNOWN
