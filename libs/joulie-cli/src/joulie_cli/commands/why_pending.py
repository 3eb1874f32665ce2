"""`kubectl joulie why-pending`: what keeps a pod from a node."""

import asyncio
import time
from argparse import Namespace
from typing import Final

import msgspec

from joulie_api.resources import EVENTS
from joulie_api.wire import decode_pod
from joulie_cli.cluster import connect
from joulie_cli.commands.explain import read_pod
from joulie_cli.event_views import decode_event, newest_last
from joulie_cli.outcome import ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.pending import pending_report
from joulie_cli.render.pending import pending_lines

#: Newest Events of the pod that are shown.
_EVENTS_SHOWN: Final = 5


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None
    scheduler_name: str = ""


class _Pod(msgspec.Struct):
    spec: _Spec


_PODS: Final = msgspec.json.Decoder(_Pod)


async def run(options: Namespace) -> ExitCode:
    """Print the report."""
    async with connect(options) as cluster:
        namespace = options.namespace or cluster.client.namespace
        raw = await read_pod(cluster, options.name, namespace)
        selector = f"involvedObject.kind=Pod,involvedObject.name={options.name}"
        events, rows = await asyncio.gather(
            cluster.read(EVENTS, decode_event, namespace, field_selector=selector), cluster.rows(options.selector)
        )
    spec = _PODS.decode(raw).spec
    gates = [each.name for each in spec.scheduling_gates or ()]
    report = pending_report(decode_pod(raw), rows, gates=gates, scheduler=spec.scheduler_name)
    latest = newest_last(events)[-_EVENTS_SHOWN:]
    if as_data(options):
        print_data({**report.data(), "events": [event.data() for event in latest]}, options)
    else:
        print_lines(pending_lines(report, latest, now_s=time.time(), width=terminal_width()))
    return ExitCode.OK
