"""`kubectl joulie devices NODE`: which pods hold which GPU of a node."""

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, Final

from joulie_api.errors import NotFound
from joulie_api.resources import TELEMETRY_PROFILES
from joulie_api.wire import decode_kind
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import connect
from joulie_cli.layout import Cell, Line, TableColumn, age, line, paragraph, table, watts
from joulie_cli.output import CliError, ExitCode, show
from joulie_core.class_caps.enforced_limit import EnforcedReason
from joulie_core.held_as import HeldAs
from joulie_core.kinds.held_devices import (
    BandReport,
    ClassLimitNow,
    ClassLimitReport,
    DeviceReport,
    EnforcedLimitReport,
)
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.timestamps import epoch_seconds

_COLUMNS: Final = (
    TableColumn("GPU", right=True),
    TableColumn("HELD AS"),
    TableColumn("WATTS", right=True),
    TableColumn("REASON"),
    TableColumn("HOLDER", elastic=True),
)
#: Of the limits that GPUs would have.
_LIMIT_COLUMNS: Final = (
    TableColumn("GPU", right=True),
    TableColumn("LIMITED NOW"),
    TableColumn("WOULD BE"),
    TableColumn("SAVES W", right=True),
    TableColumn("SLOWER %", right=True),
    TableColumn("CLOCK BOUND"),
    TableColumn("REASON", elastic=True),
)
#: Where they are set: also as what.
_SET_COLUMNS: Final = (_LIMIT_COLUMNS[0], TableColumn("SET"), *_LIMIT_COLUMNS[1:])
_STYLES: Final = {HeldAs.UNKNOWN: "yellow", HeldAs.OUTSIDE: "yellow", HeldAs.FREE: "dim"}
_decode: Final = decode_kind(TelemetryProfile)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "devices",
        run,
        summary="which pods hold which GPU of a node",
        description="The GPUs of a node, the pods that hold each, and as what it is held: standard only if every "
        "holder is known to be a standard pod, performance if one is a performance pod, unknown if that is not "
        "certain. A GPU that is shared or cut into partitions is one line with several holders, and its watts are "
        "those of the whole GPU. Below it, the limit that each would have by the class of its holders, with the watts "
        "that it would save and the slowdown at this moment, and whether it is set, which it is only if the chart has "
        "agent.classLimits.mode: Enforce. Taken from the report of the node's agent, which follows the holders if the "
        "chart has agent.holders.enabled.",
        example="kubectl joulie devices worker-1",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("name", metavar="NODE", help="name of the node")


async def run(options: Namespace) -> ExitCode:
    """Print the devices."""
    name = options.name
    async with connect(options) as cluster:
        try:
            status = _decode(await cluster.client.get(TELEMETRY_PROFILES, name)).model.status
        except NotFound as error:
            raise CliError(
                f"node {name!r} has no report: it is not managed, or its agent does not run",
                "kubectl joulie nodes lists the managed ones; kubectl joulie doctor checks the agents",
            ) from error
    if status.devices is None:
        raise CliError(
            f"the agent of node {name!r} does not follow which pods hold its GPUs",
            "set agent.holders.enabled of the chart",
        )
    power_at = epoch_seconds(status.power.updated_at) if status.power else None
    devices, power_age_s = status.devices, None if power_at is None else time.time() - power_at
    show(options, [each.dump() for each in devices], lambda width: _lines(devices, power_age_s, width))
    return ExitCode.OK


def _lines(devices: Sequence[DeviceReport], power_age_s: float | None, width: int | None) -> list[Line]:
    if not devices:
        return [line("The agent knows no GPU of this node.")]
    lines = table(_COLUMNS, (row for each in devices for row in _rows(each)), width)
    for each in devices:
        if each.message:
            lines += _note(each, each.message, width)
    lines += _limit_lines(devices, width)
    if power_age_s is not None and any(each.watts is not None for each in devices):
        lines += [line(), line(f"Watts were read {age(power_age_s)} ago.")]
    return lines


def _note(device: DeviceReport, text: str, width: int | None) -> list[Line]:
    return paragraph(f"GPU {device.index}: {text}", width=width, indent="  ", first="")


def _limit_lines(devices: Sequence[DeviceReport], width: int | None) -> list[Line]:
    limits = [(each, each.class_limit) for each in devices if each.class_limit is not None]
    if not limits:
        return []
    enforced = [limit.enforced for _, limit in limits if limit.enforced is not None]
    columns = _SET_COLUMNS if enforced else _LIMIT_COLUMNS
    heading = f"Limits by the class of the holders, {'enforced' if enforced else 'shown and not set'}:"
    lines = [
        line(),
        line(heading),
        *table(columns, (_limit_row(*each, is_enforced=bool(enforced)) for each in limits), width),
    ]
    for device, limit in limits:
        for message in (limit.message, limit.enforced.message if limit.enforced else ""):
            if message:
                lines += _note(device, message, width)
    if enforced:
        lines += [line(), *paragraph(_promise(enforced), width=width)]
    return lines


def _promise(enforced: Sequence[EnforcedLimitReport]) -> str:
    longest_s = max(each.lifted_within_seconds for each in enforced)
    if all(each.lifted_by == "BeforeStart" for each in enforced):
        return (
            f"They are lifted before a container starts, which waits {longest_s:g} s at most: an Event of its pod "
            "names a limit that was not lifted by then."
        )
    return f"They are lifted by polling: a pod that did not consent may run limited for {longest_s:g} s."


def _limit_row(device: DeviceReport, limit: ClassLimitReport, *, is_enforced: bool) -> tuple[Cell, ...]:
    now = limit.now or ClassLimitNow()
    is_limited = limit.clock_mhz is not None or limit.watts is not None
    return (
        Cell(str(device.index)),
        *([_set(limit.enforced)] if is_enforced else []),
        Cell(_in_force(now)),
        Cell(_bound(limit.clock_mhz, limit.watts) if is_limited else "none"),
        Cell(_band(now.saved_watts, now.saved_reason) if is_limited else "-"),
        Cell(_band(now.slowdown_pct, now.slowdown_reason) if is_limited else "-"),
        Cell(now.clock_bound or "unknown"),
        Cell(limit.reason),
    )


def _set(found: EnforcedLimitReport | None) -> Cell:
    if found is None or not found.reason:
        return Cell("unknown", "yellow")
    text = found.reason if found.limit_mhz is None else f"{found.reason}, {found.limit_mhz} MHz"
    return Cell(text, "red" if found.reason == EnforcedReason.NOT_LIFTED else "")


def _in_force(now: ClassLimitNow) -> str:
    if now.limited is None:
        return "unknown"
    return _bound(now.limit_mhz, now.limit_watts) if now.limited else "none"


def _bound(clock_mhz: int | None, cap_watts: float | None) -> str:
    parts = [f"{clock_mhz} MHz"] if clock_mhz is not None else []
    parts += [f"{cap_watts:.0f} W"] if cap_watts is not None else []
    return ", ".join(parts) or "unknown"


def _band(band: BandReport | None, reason: str) -> str:
    if band is None:
        return reason or "unknown"
    lower, upper = f"{band.lower:.0f}", f"{band.upper:.0f}"
    return lower if lower == upper else f"{lower} to {upper}"


def _rows(device: DeviceReport) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for the GPU with its first holder, and one for each of the others."""
    holders = [f"{each.namespace}/{each.pod} {each.container}, {each.workload_class}" for each in device.holders]
    if (more := device.holder_count - len(holders)) > 0:
        holders.append(f"and {more} more")
    yield (
        Cell(str(device.index)),
        Cell(device.held_as, _STYLES.get(device.held_as, "")),
        Cell(watts(device.watts)),
        Cell(device.reason),
        Cell(holders[0] if holders else "-"),
    )
    for each in holders[1:]:
        yield (Cell(""), Cell(""), Cell(""), Cell(""), Cell(each))
