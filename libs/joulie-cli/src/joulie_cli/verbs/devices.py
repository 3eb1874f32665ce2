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
from joulie_core.held_as import HeldAs
from joulie_core.kinds.held_devices import DeviceReport
from joulie_core.kinds.telemetry_profile import TelemetryProfile
from joulie_core.timestamps import epoch_seconds

_COLUMNS: Final = (
    TableColumn("GPU", right=True),
    TableColumn("HELD AS"),
    TableColumn("WATTS", right=True),
    TableColumn("REASON"),
    TableColumn("HOLDER", elastic=True),
)
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
        "those of the whole GPU. Taken from the report of the node's agent, which follows the holders if the chart "
        "has agent.holders.enabled.",
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
            lines += paragraph(f"GPU {each.index}: {each.message}", width=width, indent="  ", first="")
    if power_age_s is not None and any(each.watts is not None for each in devices):
        lines += [line(), line(f"Watts were read {age(power_age_s)} ago.")]
    return lines


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
