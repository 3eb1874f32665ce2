"""Commands that inspect or stop a running cluster, and `build`. Each returns an exit status."""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from joulie_api.client import KubeClient
from joulie_api.errors import KubeError
from joulie_api.resources import NODES
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.cli.teardown import tear_down
from joulie_devcluster.control_plane.node_pool import is_ready
from joulie_devcluster.control_plane.state import ClusterState, ProcessRecord
from joulie_devcluster.errors import StateError
from joulie_devcluster.host.progress import terminal_reporter
from joulie_devcluster.host.usage import resident_mib

NO_CLUSTER = 3

_SUMMARY_LINES = 5
_FOLLOW_INTERVAL_S = 0.2


def down(directory: Path) -> int:
    """Stop the cluster in `directory` and remove its files."""
    if not tear_down(directory):
        return _report_missing(directory)
    sys.stderr.write("stopped\n")
    return 0


def status(directory: Path) -> int:
    """Print addresses, processes and nodes of a cluster.

    Returns:
        0 if the cluster is ready and all processes are running, 1 if not, 3 if there is no cluster.
    """
    state = ClusterState.read(directory)
    if state is None:
        return _report_missing(directory)
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"{state.name}  {state.server}  {_nodes(state)}", markup=False)
    console.print(f"kubeconfig  {state.kubeconfig}", markup=False)
    console.print(f"extender    {_extender(state)}", markup=False)
    table = Table("process", "pid", "state", "MiB", "log", box=None, pad_edge=False)
    records = (state.supervisor, *state.processes)
    for record in records:
        table.add_row(record.name, str(record.pid), _process_state(record), _memory(record), record.log)
    console.print(table)
    return 0 if state.ready and all(record.alive for record in records) else 1


def kubeconfig(directory: Path) -> int:
    """Print the path of the administrator's kubeconfig."""
    state = ClusterState.read(directory)
    if state is None:
        return _report_missing(directory)
    sys.stdout.write(f"{state.kubeconfig}\n")
    return 0


def logs(directory: Path, process: str | None, *, lines: int, follow: bool) -> int:
    """Print the end of the log of one process or of all processes.

    Raises:
        StateError: the process does not exist, or `follow` is set without a process.
    """
    state = ClusterState.read(directory)
    if state is None:
        return _report_missing(directory)
    paths = {record.name: Path(record.log) for record in state.processes if record.log}
    if process is None:
        if follow:
            raise StateError(f"--follow requires a process: one of {', '.join(paths)}")
        for name, path in paths.items():
            sys.stdout.write(f"==> {name} ({path}) <==\n{_tail(path, min(lines, _SUMMARY_LINES))}\n")
        return 0
    if process not in paths:
        raise StateError(f"unknown process {process!r}: must be one of {', '.join(paths)}")
    sys.stdout.write(_tail(paths[process], lines))
    if follow:
        _follow(paths[process])
    return 0


def build(wanted: Sequence[Binary], directory: Path | None, *, kubernetes: str | None, from_source: bool) -> int:
    """Find, download or build binaries, for a minor release of Kubernetes, and print their paths."""
    with terminal_reporter() as reporter:
        paths = lookup.ensure(
            wanted or lookup.CONTROL_PLANE,
            directory=directory,
            reporter=reporter,
            kubernetes=kubernetes,
            from_source=from_source,
        )
    for path in paths.values():
        sys.stdout.write(f"{path}\n")
    return 0


def _report_missing(directory: Path) -> int:
    names = sorted(path.parent.name for path in directory.parent.glob("*/cluster.json"))
    others = f" (running here: {', '.join(names)})" if names else ""
    sys.stderr.write(f"no cluster in {directory}{others}; start one with `joulie-devcluster up`\n")
    return NO_CLUSTER


def _nodes(state: ClusterState) -> str:
    try:
        ready = asyncio.run(_count_nodes(state.kubeconfig))
    except KubeError as error:
        return f"API server does not respond: {error}"
    return f"{sum(ready)} nodes ready" if all(ready) else f"{len(ready)} nodes, {sum(ready)} ready"


async def _count_nodes(path: str) -> list[bool]:
    async with await KubeClient.connect(kubeconfig=path, user_agent="joulie-devcluster") as client:
        return [is_ready(node) for node in await client.list(NODES)]


def _extender(state: ClusterState) -> str:
    return "none" if state.extender_port is None else f"expected at http://127.0.0.1:{state.extender_port}"


def _process_state(record: ProcessRecord) -> str:
    return "running" if record.alive else "exited"


def _memory(record: ProcessRecord) -> str:
    try:
        return f"{resident_mib(record.pid):.0f}"
    except (FileNotFoundError, ValueError):
        return "-"


def _tail(path: Path, lines: int) -> str:
    if not path.exists():
        return ""
    return "".join(path.read_text(errors="replace").splitlines(keepends=True)[-lines:])


def _follow(path: Path) -> None:
    """Print what is appended to a file until it is removed with its cluster, or until interrupted."""
    with path.open(errors="replace") as stream:
        stream.seek(0, 2)
        while path.exists():
            sys.stdout.write(stream.read())
            sys.stdout.flush()
            time.sleep(_FOLLOW_INTERVAL_S)
