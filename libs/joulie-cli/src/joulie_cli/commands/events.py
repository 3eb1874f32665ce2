"""`kubectl joulie events`: what Joulie has reported as Kubernetes Events."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence

from joulie_api.reflector import Reflector
from joulie_api.resources import EVENTS
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.event_views import COMPONENTS, EventView, decode_event, newest_last
from joulie_cli.outcome import ExitCode
from joulie_cli.output import as_data, print_data, print_item, print_lines, terminal_width
from joulie_cli.render.events import HEADING, event_lines


async def run(options: Namespace) -> ExitCode:
    """Print the Events, and with `-w` those that follow."""
    async with connect(options) as cluster:
        namespace = None if options.all_namespaces else options.namespace
        found = newest_last(await read_events(cluster, namespace))
        if as_data(options) and not options.watch:
            print_data({"events": [event.data() for event in found]}, options)
            return ExitCode.OK
        if not as_data(options):
            print_lines([HEADING] if found or options.watch else [])
        _print(found, options)
        if options.watch:
            await _follow(cluster, namespace, found, options)
    return ExitCode.OK


async def read_events(cluster: ClusterReader, namespace: str | None) -> list[EventView]:
    """Return all Events of Joulie's components."""
    lists = await asyncio.gather(
        *(
            cluster.read(EVENTS, decode_event, namespace, field_selector=f"reportingComponent={component}")
            for component in COMPONENTS
        )
    )
    return [event for each in lists for event in each]


async def _follow(
    cluster: ClusterReader, namespace: str | None, printed: Sequence[EventView], options: Namespace
) -> None:
    """Print Events as they come, until the command is stopped."""
    seen = set(printed)

    def on_change(_key: str, _old: EventView | None, new: EventView | None) -> None:
        if new is not None and new not in seen:
            seen.add(new)
            _print([new], options)

    async with asyncio.TaskGroup() as group:
        for component in COMPONENTS:
            selector = f"reportingComponent={component}"
            reflector = Reflector(cluster.client, EVENTS, decode_event, namespace=namespace, field_selector=selector)
            reflector.subscribe(on_change)
            group.create_task(reflector.run())


def _print(events: Sequence[EventView], options: Namespace) -> None:
    if as_data(options):
        for event in events:
            print_item(event.data(), options)
        return
    print_lines(event_lines(events, now_s=time.time(), width=terminal_width()))
