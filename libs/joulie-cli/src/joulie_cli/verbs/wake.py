"""`kubectl joulie wake`: requests nodes to be awake for a time, and clears quarantines.

The request is the annotation `joulie.io/awake-until` of the Node, on which the operator acts. The operator changes a
Node only on the version that it has decided about, so that a node which is awake in the answer to the request stays so.
"""

import argparse
import asyncio
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from joulie_api.errors import ApiError, Forbidden, NotFound, TransportError, Unauthorized
from joulie_api.resources import NODES
from joulie_cli.arguments import add_verb, cluster_options, format_option
from joulie_cli.cluster import FIELD_MANAGER, ClusterReader, connect, permitted
from joulie_cli.layout import UNKNOWN, Cell, Line, TableColumn, age, flag, line, paragraph, some_names, table
from joulie_cli.output import CliError, ExitCode, as_data, print_data, print_lines, show, terminal_width
from joulie_cli.views.sleep import AWAKE, GONE, QUARANTINED, Sleeper, decode_sleeper
from joulie_core.durations import DurationError, format_duration, parse_duration
from joulie_core.labels import AWAKE_UNTIL, SLEEP_STATE
from joulie_core.timestamps import rfc3339

_NEEDS: Final = "wake needs get, list and patch on nodes"
_TIMEOUT_WAY_OUT: Final = (
    "the request stays: run the command again to go on waiting. kubectl joulie doctor\n"
    "  checks the operator, kubectl joulie events has what it did, kubectl get nodebmcs\n"
    "  the power of each server"
)
#: Boots take minutes.
_POLL_S = 2.0
_LONGEST_S: Final = 365 * 86400.0
_COLUMNS: Final = (
    TableColumn("NODE", elastic=True),
    TableColumn("STATE"),
    TableColumn("CHANGED"),
    TableColumn("AWAKE UNTIL"),
)
_NO_NODE_SLEEPS: Final = line("no node sleeps, is going to sleep or is waking")
_NO_QUARANTINE: Final = line("no node is in quarantine")
_FOLLOW: Final = "The operator wakes them, some at a time; kubectl joulie nodes shows their states, and --wait follows."


@dataclass(frozen=True, slots=True)
class Wake:
    """Result of waking a node: what was done, and the state of the node since."""

    node: Sleeper
    changed: bool

    @property
    def problem(self) -> str:
        """Reason why the node does not wake; empty for one that may."""
        if self.node.state == QUARANTINED:
            return "is in quarantine: its boots have failed, and a request does not wake it"
        return "was deleted meanwhile" if self.node.state == GONE else ""

    @property
    def way_out(self) -> str:
        """Advice about the problem; empty without one."""
        if self.node.state != QUARANTINED:
            return ""
        return f"see its console and its BMC, then clear it: kubectl joulie wake {self.node.name} --clear-quarantine"

    @property
    def waits(self) -> bool:
        """Whether it is not awake yet and may still become so."""
        return self.node.state != AWAKE and not self.problem

    def data(self) -> dict[str, Any]:
        """Return the node for JSON and YAML."""
        until_s = self.node.until_s
        return {
            "name": self.node.name,
            "state": self.node.state,
            "changed": self.changed,
            "awakeUntil": None if until_s is None else rfc3339(until_s, "seconds"),
            "problem": self.problem or None,
        }


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "wake",
        run,
        summary="wake nodes that sleep",
        description="Requests nodes to be awake for a time: the operator powers them on, some at a time, and puts them "
        "to sleep again only after it. A node that is still being drained for sleep takes pods again at once; one "
        "that is awake stays so. A longer request that is there already stays. A node in maintenance is not woken, and "
        "one in quarantine only with --clear-quarantine, after you have seen its console and its BMC. "
        "With --wait the command ends with 0 only once all of them are awake.",
        example="kubectl joulie wake worker-3 --for 4h\nkubectl joulie wake --all --wait\n"
        "kubectl joulie wake --all --clear-quarantine",
        parents=[cluster_options(), format_option(wide=False)],
    )
    parser.add_argument("names", nargs="*", metavar="NODE", help="the nodes")
    parser.add_argument("--all", action="store_true", help="all nodes that sleep, go to sleep or are waking")
    parser.add_argument(
        "--for",
        dest="awake_s",
        type=_duration,
        default="1h",
        metavar="DURATION",
        help="how long, as 90m; 1h by default",
    )
    parser.add_argument(
        "--clear-quarantine",
        action="store_true",
        help="clear the quarantine of nodes whose boots have failed, and do nothing else",
    )
    parser.add_argument("--wait", action="store_true", help="follow the nodes until they are awake")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=_duration,
        default="30m",
        metavar="DURATION",
        help="how long --wait waits; 30m by default",
    )


async def run(options: Namespace) -> ExitCode:
    """Request the nodes to be awake, print them, and with `--wait` follow them."""
    if bool(options.names) is options.all:
        raise CliError("name nodes, or give --all", "kubectl joulie wake --help has examples", ExitCode.USAGE)
    if options.clear_quarantine:
        return await _clear(options)
    if options.wait and options.awake_s < options.timeout_s:
        raise CliError("--for is shorter than --timeout: nodes could sleep again meanwhile", "", ExitCode.USAGE)
    async with connect(options) as cluster:
        with permitted(_NEEDS):
            wakes = await _request(cluster, await _chosen(cluster, options), int(time.time()) + options.awake_s)
            if not as_data(options):
                lines = _lines(wakes, follows=options.wait, width=terminal_width())
                print_lines(lines if wakes else [_NO_NODE_SLEEPS])
            trouble = ""
            if options.wait:
                wakes, trouble = await _follow(cluster, wakes, options)
    if as_data(options):
        print_data({"nodes": [wake.data() for wake in wakes]}, options)
    _raise_problems(wakes, options, trouble)
    return ExitCode.OK


async def _clear(options: Namespace) -> ExitCode:
    """Clear quarantines, and print the nodes; the operator wakes those that are off."""
    if options.wait:
        raise CliError("--clear-quarantine does not wait", "kubectl joulie wake NODE --wait follows", ExitCode.USAGE)
    async with connect(options) as cluster:
        with permitted(_NEEDS):
            found = [
                await _patched(cluster, node, {"labels": {SLEEP_STATE: None}})
                if node.state == QUARANTINED
                else Wake(node, changed=False)
                for node in await _chosen(cluster, options)
                if node.state == QUARANTINED or not options.all
            ]
    data = {"nodes": [wake.data() for wake in found]}
    show(options, data, lambda width: _lines(found, follows=True, width=width) if found else [_NO_QUARANTINE])
    return ExitCode.OK


async def _patched(cluster: ClusterReader, node: Sleeper, metadata: Mapping[str, Any]) -> Wake:
    try:
        answer = await cluster.client.merge_patch(NODES, node.name, {"metadata": metadata}, field_manager=FIELD_MANAGER)
    except NotFound:
        return Wake(replace(node, state=GONE), changed=False)
    return Wake(decode_sleeper(answer), changed=True)


async def _chosen(cluster: ClusterReader, options: Namespace) -> list[Sleeper]:
    """Return the named nodes, of which all must exist; with `--all` those that are not awake."""
    if options.all:
        return await cluster.read(NODES, decode_sleeper, label_selector=SLEEP_STATE, metadata_only=True)
    found = []
    for name in dict.fromkeys(options.names):
        node = await _get(cluster, name)
        if node.state == GONE:
            raise CliError(f"the cluster has no node {name!r}; nothing was changed", "kubectl get nodes lists them")
        found.append(node)
    return found


async def _get(cluster: ClusterReader, name: str) -> Sleeper:
    try:
        return decode_sleeper(await cluster.client.get(NODES, name))
    except NotFound:
        return Sleeper(name, GONE)


async def _request(cluster: ClusterReader, nodes: Sequence[Sleeper], until_s: float) -> list[Wake]:
    """Write the annotations; a later time of an earlier request stays, and so does a quarantine."""
    wakes: list[Wake] = []
    try:
        for node in nodes:
            if node.state == QUARANTINED or node.stays_until(until_s):
                wakes.append(Wake(node, changed=False))
            else:
                request = {"annotations": {AWAKE_UNTIL: rfc3339(until_s, "seconds")}}
                wakes.append(await _patched(cluster, node, request))
    except (ApiError, TransportError):
        if any(wake.changed for wake in wakes):
            print_lines(_lines(wakes, follows=True, width=terminal_width()))
        raise
    return wakes


async def _follow(cluster: ClusterReader, wakes: Sequence[Wake], options: Namespace) -> tuple[list[Wake], str]:
    """Read the states until no node may change any more, or the time is over.

    Returns:
        the nodes as they were last, and why they could not be read then; empty where they could.

    Raises:
        CliError: interrupted. A shell must not go on as if the nodes were awake.
    """
    began_s = time.monotonic()
    found = {wake.node.name: wake for wake in wakes}
    trouble = ""
    try:
        while _waiting(found.values()) and time.monotonic() - began_s < options.timeout_s:
            await asyncio.sleep(_POLL_S)
            try:
                nodes = await _states(cluster, _waiting(found.values()))
            except (Forbidden, Unauthorized):
                raise
            except (ApiError, TransportError) as error:
                # An API server that is away for a moment is no reason to stop.
                trouble = error.message
                continue
            trouble = ""
            for node in nodes:
                before = found[node.name]
                found[node.name] = after = replace(before, node=node)
                if node.state != before.node.state and not as_data(options):
                    print_lines([_progress(before, after, time.monotonic() - began_s)])
    except asyncio.CancelledError:
        names = some_names(wake.node.name for wake in _waiting(found.values()))
        raise CliError(f"interrupted before all nodes were awake: {names}", "", ExitCode.FINDINGS) from None
    return list(found.values()), trouble


async def _states(cluster: ClusterReader, wakes: Sequence[Wake]) -> list[Sleeper]:
    listed = await cluster.read(NODES, decode_sleeper, label_selector=SLEEP_STATE, metadata_only=True)
    states = {node.name: node for node in listed}
    # A node that is not in the list has no label any more, or is gone.
    return [states.get(wake.node.name) or await _get(cluster, wake.node.name) for wake in wakes]


def _raise_problems(wakes: Sequence[Wake], options: Namespace, trouble: str) -> None:
    """Raise the error of nodes that do not wake, or are not awake after the wait."""
    found = [(f"node {wake.node.name} {wake.problem}", wake.way_out) for wake in wakes if wake.problem]
    late = _waiting(wakes) if options.wait else ()
    if late:
        states = some_names(f"{wake.node.name} ({wake.node.state})" for wake in late)
        reason = f"; the API server does not answer: {trouble}" if trouble else ""
        text = f"not awake after {format_duration(options.timeout_s)}: {states}{reason}"
        found.append((text, _TIMEOUT_WAY_OUT))
    if not found:
        return
    *others, (problem, way_out) = found
    text = "".join(f"{each}\n  {hint}\n" if hint else f"{each}\n" for each, hint in others)
    raise CliError(f"{text}{problem}", way_out, ExitCode.FINDINGS)


def _lines(wakes: Sequence[Wake], *, follows: bool, width: int | None) -> list[Line]:
    """Return the nodes with what was done, and how it goes on; `follows`: the states are printed from here on."""
    lines = table(_COLUMNS, map(_cells, wakes), width)
    if not follows and any(wake.waits for wake in wakes):
        lines += paragraph(_FOLLOW, width=width)
    return lines


def _progress(before: Wake, after: Wake, elapsed_s: float) -> Line:
    """Return the change of a node's state, so many seconds after the request."""
    change = f"{before.node.state} -> {after.node.state}"
    return (Cell(f"{age(elapsed_s):>4}  {after.node.name}  "), Cell(change, _style(after)))


def _cells(wake: Wake) -> list[Cell]:
    until_s = wake.node.until_s
    return [
        Cell(wake.node.name),
        Cell(wake.node.state, _style(wake)),
        Cell(flag(wake.changed)),
        Cell(UNKNOWN if until_s is None else rfc3339(until_s, "seconds")),
    ]


def _style(wake: Wake) -> str:
    if wake.problem:
        return "red"
    return "green" if wake.node.state == AWAKE else "yellow"


def _waiting(wakes: Iterable[Wake]) -> Sequence[Wake]:
    """Return those that are not awake yet and may still become so."""
    return [wake for wake in wakes if wake.waits]


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not between 0 and a year: {text!r}")
    return seconds
