"""`joulie-sim import`: workloads of other formats as JSON lines."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from joulie_core.hardware.inventory import Inventory
from joulie_sim.commands.inputs import INPUT_ERRORS, add_assumed_use
from joulie_sim.engine.machines import machines_of
from joulie_sim.engine.node_lists import read_node_list, write_node_lines
from joulie_sim.recording.reading import read_recording
from joulie_sim.recording.replay import AssumedUse, replay_recording
from joulie_sim.workload.item import WorkItem
from joulie_sim.workload.job_lines import write_job_lines
from joulie_sim.workload.openb import capacity_of, densest, replay, scaled_groups
from joulie_sim.workload.openb_csv import read_nodes, read_pods
from joulie_sim.workload.swf import SwfOptions, read_swf

_EPILOG: Final = """\
openb: pods of a list in openb's format, for the nodes of another; the work is scaled to the load, the arrivals to the
hours. swf: jobs of a log in the Standard Workload Format, as they were. recording: pods of a directory that
`joulie-sim record` wrote.

examples:
  joulie-sim import openb pods.csv --nodes nodes.csv --hours 48 --load 0.6 --out jobs.jsonl --nodes-out nodes.jsonl
  joulie-sim import swf log.swf --performance-queues 1 2 --out jobs.jsonl
  joulie-sim import recording tuesday --out jobs.jsonl --nodes-out nodes.jsonl
"""
_EXIT_USAGE: Final = 2
_SECONDS_PER_HOUR: Final = 3600.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "import",
        help="convert a workload",
        description="Convert a workload to the JSON lines that `joulie-sim run --jobs` reads.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", choices=list(_IMPORTERS))
    parser.add_argument("file", type=Path, metavar="FILE", help="or the directory of a recording")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the JSON lines")
    parser.add_argument(
        "--nodes-out", type=Path, metavar="FILE", help="write the nodes of openb or a recording as JSON lines, too"
    )
    openb = parser.add_argument_group("openb")
    openb.add_argument("--nodes", type=Path, metavar="FILE", help="list of nodes in openb's format")
    openb.add_argument("--pods", type=int, metavar="N", help="the N consecutive pods that came in the shortest time")
    openb.add_argument("--hours", type=float, default=48.0, metavar="H", help="time in which they arrive (default 48)")
    openb.add_argument("--load", type=float, default=0.6, help="share of the scarcer resource (default 0.6)")
    swf = parser.add_argument_group("swf")
    swf.add_argument("--cores-per-pod", type=int, default=16, metavar="N", help="larger jobs are divided (default 16)")
    swf.add_argument("--performance-queues", type=int, nargs="*", default=(), metavar="QUEUE")
    add_assumed_use(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, or 2 with a message for files it cannot use."""
    try:
        items = _IMPORTERS[arguments.format](arguments)
        write_job_lines(arguments.out, items)
    except INPUT_ERRORS as error:
        sys.stderr.write(f"joulie-sim import: {error}\n")
        return _EXIT_USAGE
    sys.stdout.write(f"{len(items)} jobs: {arguments.out}\n")
    return 0


def _openb(arguments: argparse.Namespace) -> tuple[WorkItem, ...]:
    if arguments.nodes is None:
        raise ValueError("openb needs --nodes, by which the load is measured")
    pods = read_pods(arguments.file)
    window_s = arguments.hours * _SECONDS_PER_HOUR
    nodes = read_node_list(arguments.nodes)
    if arguments.nodes_out is not None:
        write_node_lines(arguments.nodes_out, nodes)
    items = replay(
        densest(pods, arguments.pods or len(pods)),
        capacity=capacity_of(scaled_groups(read_nodes(arguments.nodes), 1.0)),
        window_s=window_s,
        load=arguments.load,
        longest_s=window_s,
    )
    return machines_of(nodes, Inventory.load()).work_of(items)


def _swf(arguments: argparse.Namespace) -> tuple[WorkItem, ...]:
    options = SwfOptions(
        cores_per_pod=arguments.cores_per_pod, performance_queues=frozenset(arguments.performance_queues)
    )
    return read_swf(arguments.file, options)


def _recording(arguments: argparse.Namespace) -> tuple[WorkItem, ...]:
    use = AssumedUse(cpu=arguments.cpu_use, gpu=arguments.gpu_use)
    replayed = replay_recording(read_recording(arguments.file), use)
    if arguments.nodes_out is not None:
        write_node_lines(arguments.nodes_out, replayed.nodes)
    sys.stdout.write("".join(f"- {note}\n" for note in replayed.notes))
    return replayed.items


_IMPORTERS: Final[Mapping[str, Callable[[argparse.Namespace], tuple[WorkItem, ...]]]] = {
    "openb": _openb,
    "swf": _swf,
    "recording": _recording,
}
