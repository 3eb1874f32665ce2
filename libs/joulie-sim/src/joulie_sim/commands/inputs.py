"""Arguments that several commands share: nodes, jobs, arms and what they are made into."""

import argparse
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from joulie_core.hardware.inventory import Inventory
from joulie_core.node import Node
from joulie_devcluster.errors import NodeClassError
from joulie_sim.commands.protocol import add_protocol
from joulie_sim.engine.arms import ARMS
from joulie_sim.engine.comparison import ComparisonError
from joulie_sim.engine.facility import OutdoorError
from joulie_sim.engine.jobs import Jobs
from joulie_sim.engine.machines import MachineError, Machines, machines_of
from joulie_sim.engine.node_lists import NodeListError, default_nodes, read_node_list
from joulie_sim.engine.results import StoredResultError
from joulie_sim.engine.synthetic import ArrivalMix, WorkloadError, synthetic_jobs
from joulie_sim.recording.reading import RecordingError, read_recording
from joulie_sim.recording.replay import AssumedUse, Replay, replay_recording
from joulie_sim.workload.job_lines import read_job_lines
from joulie_sim.workload.openb_csv import TraceError

#: What a wrong file or argument raises; the command prints it and ends with status 2.
INPUT_ERRORS: Final = (
    *(ComparisonError, MachineError, NodeClassError, NodeListError, OSError, OutdoorError, RecordingError),
    *(StoredResultError, TraceError, ValueError, WorkloadError),
)
_SECONDS_PER_HOUR: Final = 3600.0


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that make nodes, and jobs of a recording or a file."""
    nodes = parser.add_argument_group("nodes").add_mutually_exclusive_group()
    nodes.add_argument(
        "--nodes",
        type=Path,
        metavar="FILE",
        help="list of nodes: .csv in openb's format, .yaml with node classes, .jsonl of recorded nodes",
    )
    nodes.add_argument(
        "--node-count", type=int, default=100, metavar="N", help="that many nodes of a mixed cluster (default 100)"
    )
    nodes.add_argument(
        "--recording", type=Path, metavar="DIR", help="nodes and jobs of a live cluster, see `joulie-sim record`"
    )
    jobs = parser.add_argument_group("jobs")
    jobs.add_argument("--jobs", type=Path, metavar="FILE", help="JSON lines, see `joulie-sim import`; else synthetic")
    jobs.add_argument("--performance-share", type=float, default=0.3, help="of the synthetic jobs (default 0.3)")
    add_assumed_use(parser)
    add_protocol(parser)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that make nodes and jobs."""
    add_nodes(parser)
    jobs = parser.add_argument_group("synthetic jobs")
    jobs.add_argument("--job-count", type=int, default=5000, metavar="N", help="number of jobs (default 5000)")
    jobs.add_argument("--hours", type=float, default=24.0, metavar="H", help="time in which they arrive (default 24)")
    jobs.add_argument(
        "--load", type=float, default=0.6, help="share of cores and GPUs that the work occupies (default 0.6)"
    )
    jobs.add_argument("--gpu-share", type=float, default=0.25, help="of the jobs (default 0.25)")


def add_assumed_use(parser: argparse.ArgumentParser) -> None:
    """Add the arguments with what recordings do not have."""
    assumed = AssumedUse()
    group = parser.add_argument_group("of recorded pods")
    for device, default in (("cpu", assumed.cpu), ("gpu", assumed.gpu)):
        group.add_argument(
            f"--{device}-use",
            type=_share,
            default=default,
            metavar="SHARE",
            help=f"busy share of the {device.upper()}s that they request, which is not recorded (default {default:g})",
        )


def arms_help() -> str:
    """Return the help of an argument that takes arms."""
    # argparse reads a percent sign as the beginning of a format.
    return "; ".join(f"{arm.name}: {arm.summary}" for arm in ARMS.values()).replace("%", "%%")


def add_arms(parser: argparse.ArgumentParser) -> None:
    """Add the argument that selects arms."""
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="ARM", help=arms_help())


def machines_from(arguments: argparse.Namespace) -> Machines:
    """Return the nodes that the arguments name."""
    if arguments.recording:
        nodes: Sequence[Node] = replay_from(arguments).nodes
    else:
        nodes = read_node_list(arguments.nodes) if arguments.nodes else default_nodes(arguments.node_count)
    return machines_of(nodes, Inventory.load())


def replay_from(arguments: argparse.Namespace) -> Replay:
    """Return what the recording that the arguments name is simulated as."""
    return _replay(arguments.recording, arguments.cpu_use, arguments.gpu_use)


@lru_cache(maxsize=1)
def _replay(directory: Path, cpu_use: float, gpu_use: float) -> Replay:
    return replay_recording(read_recording(directory), AssumedUse(cpu=cpu_use, gpu=gpu_use))


def jobs_from(arguments: argparse.Namespace, machines: Machines, *, seed: int, load: float) -> Jobs:
    """Return the jobs that the arguments name; recorded ones and those of a file do not depend on seed and load."""
    stored = stored_jobs(arguments)
    if stored is not None:
        return stored
    mix = ArrivalMix(
        jobs=arguments.job_count,
        window_s=arguments.hours * _SECONDS_PER_HOUR,
        load=load,
        performance_share=arguments.performance_share,
        gpu_share=arguments.gpu_share if machines.gpus.any() else 0.0,
    )
    return synthetic_jobs(mix, machines, seed)


def stored_jobs(arguments: argparse.Namespace) -> Jobs | None:
    """Return the jobs of a recording or of a file; None where the arguments name neither."""
    if arguments.recording:
        return Jobs.of(replay_from(arguments).items)
    return Jobs.of(read_job_lines(arguments.jobs)) if arguments.jobs else None


def positive(text: str) -> int:
    """Return a number of an argument that is at least 1; argparse shows the error of any other."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _share(text: str) -> float:
    share = float(text)
    if not 0.0 <= share <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return share
