"""`kubectl joulie explain`: the extender's view of a pod or a node."""

import time
from argparse import Namespace

import msgspec

from joulie_api.errors import NotFound
from joulie_api.resources import NODES, PODS
from joulie_api.wire import decode_pod
from joulie_cli.classification import why_class
from joulie_cli.cluster import ClusterReader, connect
from joulie_cli.extender import find_extender
from joulie_cli.outcome import CliError, ExitCode
from joulie_cli.output import as_data, print_data, print_lines, terminal_width
from joulie_cli.render.explanation import node_lines, pod_lines
from joulie_cli.sleepers import AWAKE, SleepNote, decode_note


async def run(options: Namespace) -> ExitCode:
    """Print the explanation."""
    async with connect(options) as cluster:
        await (_pod if options.what == "pod" else _node)(cluster, options)
    return ExitCode.OK


async def read_pod(cluster: ClusterReader, name: str, namespace: str) -> bytes:
    """Return a pod, raw.

    Raises:
        CliError: it does not exist.
    """
    try:
        return await cluster.client.get(PODS, name, namespace)
    except NotFound as error:
        raise CliError(
            f"namespace {namespace!r} has no pod {name!r}", "-n NAMESPACE names another; kubectl get pods -A lists all"
        ) from error


async def _pod(cluster: ClusterReader, options: Namespace) -> None:
    namespace = options.namespace or cluster.client.namespace
    raw = await read_pod(cluster, options.name, namespace)
    nodes = options.node or [each.name for each in await cluster.marks(options.selector)]
    if not nodes:
        raise CliError(f"no node matches {options.selector!r}", "--node NAME names a candidate")
    extender = await find_extender(cluster, options.extender_url)
    answer = await extender.explain(msgspec.json.decode(raw), nodes)
    if as_data(options):
        print_data(answer, options)
        return
    width = None if options.output == "wide" else terminal_width()
    lines = pod_lines(
        answer,
        pod=f"{namespace}/{options.name}",
        why=why_class(decode_pod(raw)),
        where=extender.where,
        most=len(nodes) if options.output == "wide" else options.most,
        width=width,
    )
    print_lines(lines)


async def _node(cluster: ClusterReader, options: Namespace) -> None:
    extender = await find_extender(cluster, options.extender_url)
    answer = await extender.scoring(options.name)
    note = await _sleep_note(cluster, options.name)
    if as_data(options):
        print_data({**answer, "sleep": note.data()}, options)
        return
    print_lines(node_lines(answer, note, now_s=time.time(), where=extender.where, width=terminal_width()))


async def _sleep_note(cluster: ClusterReader, name: str) -> SleepNote:
    try:
        return decode_note(await cluster.client.get(NODES, name))
    except NotFound:
        # The extender knows nodes by their twins too.
        return SleepNote(name, AWAKE)
