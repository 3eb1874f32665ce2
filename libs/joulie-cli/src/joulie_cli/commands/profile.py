"""`kubectl joulie profile NODE`: target, result and history of one node."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Final, TypeVar

from joulie_api.errors import NotFound
from joulie_api.resources import EVENTS, NODE_POWER_PROFILES, NODE_TWINS, NODES, TELEMETRY_PROFILES, Resource
from joulie_api.wire import decode_kind
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.event_views import decode_event, newest_last
from joulie_cli.node_rows import make_row
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.render.profile import profile_lines
from joulie_cli.views import Raw, decode_marks, decode_report, decode_target, decode_twin
from joulie_core.kinds.node_power_profile import NodePowerProfile

T = TypeVar("T")

#: Newest Events of the node that are shown.
_EVENTS_SHOWN: Final = 10
_DECODE: Final = decode_kind(NodePowerProfile)


async def run(options: Namespace) -> ExitCode:
    """Print the profile."""
    name = options.name
    async with connect(options) as cluster:
        selector = f"involvedObject.kind=Node,involvedObject.name={name}"
        marks, raw, twin, report, events = await asyncio.gather(
            _get(cluster, NODES, name, decode_marks),
            _get(cluster, NODE_POWER_PROFILES, name, bytes),
            _get(cluster, NODE_TWINS, name, decode_twin),
            _get(cluster, TELEMETRY_PROFILES, name, decode_report),
            cluster.read(EVENTS, decode_event, field_selector=selector),
        )
        if raw is None and marks is None:
            raise CliError(f"the cluster has no node {name!r}", "kubectl joulie nodes lists the managed ones")
        if raw is None:
            raise CliError(
                f"node {name!r} has no NodePowerProfile: it is not managed, or the operator does not run",
                f"kubectl label node {name} joulie.io/managed=true; kubectl joulie doctor checks the operator",
            )
        target = _DECODE(raw).model
    now_s = time.time()
    row = make_row(name, marks, decode_target(raw), twin, report, now_s=now_s)
    ours = [event for event in newest_last(events) if event.component.startswith("joulie-")][-_EVENTS_SHOWN:]
    if as_data(options):
        found = {"target": target.spec.dump(), **target.status.dump(), "node": row.data()}
        print_data({**found, "events": [event.data() for event in ours]}, options)
    else:
        print_lines(profile_lines(target, row, ours, now_s=now_s, width=terminal_width()))
    return ExitCode.OK


async def _get(cluster: ClusterReader, resource: Resource, name: str, decode: Callable[[Raw], T]) -> T | None:
    """Return an object; None where it does not exist."""
    try:
        return decode(await cluster.client.get(resource, name))
    except NotFound:
        return None
