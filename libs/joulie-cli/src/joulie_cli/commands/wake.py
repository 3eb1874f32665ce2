"""`kubectl joulie wake`: requests nodes to be awake for a time, and clears quarantines.

The request is the annotation `joulie.io/awake-until` of the Node, on which the operator acts. The operator changes a
Node only on the version that it has decided about, so that a node which is awake in the answer to the request stays so.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from joulie_api.errors import ApiError, Forbidden, NotFound, TransportError, Unauthorized
from joulie_api.resources import NODES
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.layout import Line
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.render.status import some_names
from joulie_cli.render.wake import NO_NODE_SLEEPS, NO_QUARANTINE, progress_line, wake_lines
from joulie_cli.sleepers import GONE, QUARANTINED, Sleeper, Wake, cleared_body, decode_sleeper, request_body, waiting
from joulie_core.durations import format_duration
from joulie_core.labels import SLEEP_STATE

_FIELD_MANAGER: Final = "kubectl-joulie"
_FORBIDDEN_WAY_OUT: Final = (
    "wake needs get, list and patch on nodes; the ClusterRole joulie-viewer only reads.\n"
    "  docs/kubectl-joulie.md, Permissions, has the rule for an administrator to grant"
)
_TIMEOUT_WAY_OUT: Final = (
    "the request stays: run the command again to go on waiting. kubectl joulie doctor\n"
    "  checks the operator, kubectl joulie events has what it did, kubectl get nodebmcs\n"
    "  the power of each server"
)
#: Boots take minutes.
_POLL_S = 2.0


async def run(options: Namespace) -> ExitCode:
    """Request the nodes to be awake, print them, and with `--wait` follow them."""
    if bool(options.names) is options.all:
        raise CliError("name nodes, or give --all", "kubectl joulie wake --help has examples", ExitCode.USAGE)
    if options.clear_quarantine:
        return await _clear(options)
    if options.wait and options.awake_s < options.timeout_s:
        raise CliError("--for is shorter than --timeout: nodes could sleep again meanwhile", "", ExitCode.USAGE)
    async with connect(options) as cluster:
        with _permitted():
            wakes = await _request(cluster, await _chosen(cluster, options), int(time.time()) + options.awake_s)
            if not as_data(options):
                lines = wake_lines(wakes, follows=options.wait, width=terminal_width())
                print_lines(lines if wakes else [NO_NODE_SLEEPS])
            trouble = ""
            if options.wait:
                wakes, trouble = await _Follower(cluster, options).follow(wakes)
    if as_data(options):
        print_data({"nodes": [wake.data() for wake in wakes]}, options)
    _raise_problems(wakes, options, trouble)
    return ExitCode.OK


async def _clear(options: Namespace) -> ExitCode:
    """Clear quarantines, and print the nodes; the operator wakes those that are off."""
    if options.wait:
        raise CliError("--clear-quarantine does not wait", "kubectl joulie wake NODE --wait follows", ExitCode.USAGE)
    async with connect(options) as cluster:
        with _permitted():
            chosen = await _chosen(cluster, options)
            if options.all:
                chosen = [node for node in chosen if node.state == QUARANTINED]
            found = [await _cleared(cluster, node) for node in chosen]
    if as_data(options):
        print_data({"nodes": [wake.data() for wake in found]}, options)
    else:
        print_lines(wake_lines(found, follows=True, width=terminal_width()) if found else [NO_QUARANTINE])
    return ExitCode.OK


async def _cleared(cluster: ClusterReader, node: Sleeper) -> Wake:
    if node.state != QUARANTINED:
        return Wake(node, changed=False)
    try:
        answer = await cluster.client.merge_patch(NODES, node.name, cleared_body(), field_manager=_FIELD_MANAGER)
    except NotFound:
        return Wake(replace(node, state=GONE), changed=False)
    return Wake(decode_sleeper(answer), changed=True)


@contextmanager
def _permitted() -> Iterator[None]:
    """Name the permission where one is missing."""
    try:
        yield
    except Forbidden as error:
        raise CliError(f"forbidden: {error.message}", _FORBIDDEN_WAY_OUT) from error


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
    for node in nodes:
        if node.state == QUARANTINED or node.stays_until(until_s):
            wakes.append(Wake(node, changed=False))
            continue
        try:
            answer = await cluster.client.merge_patch(
                NODES, node.name, request_body(until_s), field_manager=_FIELD_MANAGER
            )
        except NotFound:
            wakes.append(Wake(replace(node, state=GONE), changed=False))
        except (ApiError, TransportError):
            changed = [wake.node.name for wake in wakes if wake.changed]
            if changed:
                print_lines(wake_lines(wakes, follows=True, width=terminal_width()))
            raise
        else:
            wakes.append(Wake(decode_sleeper(answer), changed=True))
    return wakes


class _Follower:
    """Reads the states until no node may change any more, or the time is over."""

    def __init__(self, cluster: ClusterReader, options: Namespace) -> None:
        self._cluster = cluster
        self._options = options
        self._began_s = time.monotonic()

    async def follow(self, wakes: Sequence[Wake]) -> tuple[list[Wake], str]:
        """Return the nodes as they were last, and why they could not be read then; empty where they could.

        Raises:
            CliError: interrupted. A shell must not go on as if the nodes were awake.
        """
        found = {wake.node.name: wake for wake in wakes}
        trouble = ""
        try:
            while waiting(found.values()) and self._elapsed_s() < self._options.timeout_s:
                await asyncio.sleep(_POLL_S)
                try:
                    await self._update(found)
                    trouble = ""
                except (Forbidden, Unauthorized):
                    raise
                except (ApiError, TransportError) as error:
                    # An API server that is away for a moment is no reason to stop.
                    trouble = error.message
        except asyncio.CancelledError:
            names = some_names(wake.node.name for wake in waiting(found.values()))
            raise CliError(f"interrupted before all nodes were awake: {names}", "", ExitCode.FINDINGS) from None
        return list(found.values()), trouble

    async def _update(self, found: dict[str, Wake]) -> None:
        listed = await self._cluster.read(NODES, decode_sleeper, label_selector=SLEEP_STATE, metadata_only=True)
        states = {node.name: node for node in listed}
        for before in waiting(found.values()):
            name = before.node.name
            # A node that is not in the list has no label any more, or is gone.
            node = states.get(name) or await _get(self._cluster, name)
            after = replace(before, node=node)
            if node.state != before.node.state:
                self._print(progress_line(before, after, self._elapsed_s()))
            found[name] = after

    def _print(self, line: Line) -> None:
        if not as_data(self._options):
            print_lines([line])

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._began_s


def _raise_problems(wakes: Sequence[Wake], options: Namespace, trouble: str) -> None:
    """Raise the error of nodes that do not wake, or are not awake after the wait."""
    found = [(f"node {wake.node.name} {wake.problem}", wake.way_out) for wake in wakes if wake.problem]
    late = waiting(wakes) if options.wait else ()
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
