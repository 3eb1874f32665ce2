"""`joulie-sim record`: pods and nodes of a live cluster, for a simulation."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

from joulie_api.client import KubeClient
from joulie_api.errors import ConfigError
from joulie_api.logging import configure_logging
from joulie_api.settings import LogFormat, LogLevel
from joulie_core.durations import DurationError, format_duration, parse_duration
from joulie_sim.recording.files import RecordingExistsError, RecordingFiles
from joulie_sim.recording.recorder import ClusterRecorder, RecorderError, RecorderProgress, role_manifest

_EPILOG: Final = """\
Reads nodes and pods and changes nothing. Ends after the duration, or at SIGINT or SIGTERM; the recording is complete
then, and nearly so if the process is killed. Outages of the API server are survived and written down as gaps. Without
--keep-names no name of a pod, namespace or node is written, and no label but those that describe hardware.

examples:
  joulie-sim record --print-rbac | kubectl apply -f -
  joulie-sim record --out tuesday --duration 24h
  joulie-sim try --recording tuesday
"""
_EXIT_FAILED: Final = 1
_EXIT_USAGE: Final = 2
_PLAIN_LINE_S: Final = 600.0
_MEGA: Final = 1e6


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "record",
        help="record the pods and nodes of a live cluster",
        description="Record the pods and nodes of a live cluster, so that `run` and `sweep` can simulate them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR", help="a new directory for the recording")
    what.add_argument("--print-rbac", action="store_true", help="print the ClusterRole that is needed, and end")
    parser.add_argument(
        "--duration", type=_duration, metavar="TIME", help="such as 8h or 90m (default: until a signal)"
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="(default: $KUBECONFIG, ~/.kube/config, the pod's service account)"
    )
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")
    parser.add_argument("--keep-names", action="store_true", help="write names instead of pseudonyms")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; 0, 1 where the recording failed, or 2 for wrong arguments."""
    if arguments.print_rbac:
        sys.stdout.write(role_manifest() + "\n")
        return 0
    configure_logging("joulie-sim", LogLevel.WARNING, LogFormat.CONSOLE)
    code = 0
    try:
        progress = asyncio.run(_record(arguments))
        sys.stdout.write(f"{_line(progress, arguments.duration)}\n")
        sys.stdout.write(f"recorded: {arguments.out}; simulate it with: joulie-sim try --recording {arguments.out}\n")
    except* (RecordingExistsError, ConfigError) as errors:
        code = _failed(errors, _EXIT_USAGE)
    except* (RecorderError, OSError) as errors:
        code = _failed(errors, _EXIT_FAILED)
    return code


def _failed(errors: BaseExceptionGroup[BaseException], code: int) -> int:
    for error in errors.exceptions:
        sys.stderr.write(f"joulie-sim record: {error}\n")
    return code


async def _record(arguments: argparse.Namespace) -> RecorderProgress:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    kubeconfig = arguments.kubeconfig or _default_kubeconfig()
    async with await KubeClient.connect(
        kubeconfig=kubeconfig, context=arguments.context, user_agent="joulie-sim-record"
    ) as client:
        with RecordingFiles(arguments.out) as files:
            if arguments.duration is not None:
                loop.call_later(arguments.duration, stop.set)
            console = Console(stderr=True)
            with console.status("reading nodes and pods") as status:
                shown = (
                    (lambda progress: status.update(_line(progress, arguments.duration)))
                    if console.is_terminal
                    else _plain(console, arguments.duration)
                )
                recorder = ClusterRecorder(client, files, keep_names=arguments.keep_names)
                return await recorder.run(stop, on_progress=shown)


def _plain(console: Console, duration_s: float | None) -> Callable[[RecorderProgress], None]:
    """Return a function that prints a line now and then."""
    next_s = 0.0

    def show(progress: RecorderProgress) -> None:
        nonlocal next_s
        if progress.elapsed_s >= next_s:
            next_s = progress.elapsed_s + _PLAIN_LINE_S
            console.print(_line(progress, duration_s), markup=False, highlight=False, soft_wrap=True)

    return show


def _line(progress: RecorderProgress, duration_s: float | None) -> str:
    time = format_duration(round(progress.elapsed_s))
    of = "" if duration_s is None else f" of {format_duration(duration_s)}"
    parts = [
        f"{time}{of}",
        f"{progress.nodes} nodes",
        f"{progress.pods} pods seen, {progress.running} running, {progress.waiting} waiting",
        f"{progress.gaps} gaps",
        f"{progress.written_bytes / _MEGA:.1f} MB",
    ]
    return " | ".join([*parts, f"API server cannot be read: {progress.problem}"] if progress.problem else parts)


def _default_kubeconfig() -> str | None:
    named = os.environ.get("KUBECONFIG")
    if named:
        return named
    usual = Path.home() / ".kube" / "config"
    return str(usual) if usual.is_file() else None


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds <= 0.0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return seconds
