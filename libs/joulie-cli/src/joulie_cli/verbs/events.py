"""`kubectl joulie events`: what Joulie has reported as Kubernetes Events."""

import asyncio
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any, Final

from joulie_api.resources import EVENTS
from joulie_cli.arguments import add_verb, cluster_options, format_option, namespace_option
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.layout import Cell, Line, age, wrapped
from joulie_cli.output import ExitCode, as_data, print_data, print_item, print_lines, terminal_width
from joulie_cli.views.events import EventView, decode_event, newest_last

#: Selectors of the Events of each component that writes some.
_SELECTORS: Final = ("reportingComponent=joulie-operator", "reportingComponent=joulie-agent")
_AGE: Final = 5
_REASON: Final = 21
_OBJECT: Final = 18
_INDENT: Final = _AGE + 2
#: A message gets a line of its own where less than this is left for it.
_LEAST_MESSAGE: Final = 40
_WARNING: Final = "Warning"
_HEADING: Final[Line] = (
    Cell("AGE".rjust(_AGE) + "  ", "bold"),
    Cell("REASON".ljust(_REASON) + "  ", "bold"),
    Cell("OBJECT".ljust(_OBJECT) + "  ", "bold"),
    Cell("MESSAGE", "bold"),
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "events",
        run,
        summary="Events of Joulie, newest last",
        description="Transitions of nodes, caps that the hardware refuses, annotations that cannot be read. "
        "Kubernetes keeps Events for an hour, unless it is configured otherwise.",
        example="kubectl joulie events -w\nkubectl joulie events -n ml -o json",
        parents=[cluster_options(), format_option(wide=False), namespace_option(all_of_them=True)],
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, whatever -n says")
    parser.add_argument("-w", "--watch", action="store_true", help="print further Events as they come, until Ctrl-C")


async def run(options: Namespace) -> ExitCode:
    """Print the Events, and with `-w` those that follow."""
    async with connect(options) as cluster:
        namespace = None if options.all_namespaces else options.namespace
        found = newest_last(await _read(cluster, namespace))
        if as_data(options) and not options.watch:
            print_data({"events": [event.data() for event in found]}, options)
            return ExitCode.OK
        if not as_data(options):
            print_lines([_HEADING] if found or options.watch else [])
        _print(found, options)
        if options.watch:
            await _follow(cluster, namespace, found, options)
    return ExitCode.OK


async def _read(cluster: ClusterReader, namespace: str | None) -> list[EventView]:
    """Return all Events of Joulie's components."""
    lists = await asyncio.gather(
        *(cluster.read(EVENTS, decode_event, namespace, field_selector=selector) for selector in _SELECTORS)
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
        for selector in _SELECTORS:
            reflector = cluster.watch(EVENTS, decode_event, namespace, field_selector=selector)
            reflector.subscribe(on_change)
            group.create_task(reflector.run())


def _print(events: Sequence[EventView], options: Namespace) -> None:
    if as_data(options):
        for event in events:
            print_item(event.data(), options)
        return
    print_lines(event_lines(events, terminal_width()))


def event_lines(events: Iterable[EventView], width: int | None) -> list[Line]:
    """Return each event as one line, or as several where its message does not fit the width."""
    now_s = time.time()
    return [line for event in events for line in _event(event, now_s, width)]


def _event(event: EventView, now_s: float, width: int | None) -> Sequence[Line]:
    seen = age(None if event.at_s is None else now_s - event.at_s)
    first = (
        Cell(seen.rjust(_AGE) + "  ", "dim"),
        Cell(event.reason.ljust(_REASON) + "  ", "yellow" if event.type == _WARNING else "cyan"),
        Cell(event.about.ljust(_OBJECT) + "  "),
    )
    message = f"{event.message} (x{event.count})" if event.count > 1 else event.message
    used = sum(len(cell.text) for cell in first)
    if width is None or used + len(message) <= width:
        return [(*first, Cell(message))]
    if width - used >= _LEAST_MESSAGE:
        parts = wrapped(message, width - used)
        return [(*first, Cell(parts[0])), *((Cell(" " * used), Cell(part)) for part in parts[1:])]
    return [first, *((Cell(" " * _INDENT), Cell(part)) for part in wrapped(message, width - _INDENT))]
