"""A cluster of kind without a registry that runs in the background until it is stopped.

The process is `python -m joulie_devcluster.kind_node.background DIRECTORY MINOR`. The engine and everything in it end
with it. Its directory has the state file, by which other processes find and stop it, the kubeconfig and the log.

Limits: one runs at a time on a machine; others wait.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import IO, Final, Never

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.engine import Engine, docker_client, engine_host
from joulie_devcluster.containers.kind import CLUSTER, KindCluster
from joulie_devcluster.control_plane.state import ClusterState, ProcessRecord, stop_processes
from joulie_devcluster.errors import DevClusterError, EngineError, StateError
from joulie_devcluster.host import die_with_parent
from joulie_devcluster.host.paths import state_home
from joulie_devcluster.host.progress import Reporter, terminal_reporter
from joulie_devcluster.kind_node.cluster import engine_data, kind_cluster

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S: Final = 0.1
#: Containers, engine and its control group, in this order.
_STOP_GRACE_S: Final = 90.0


def home() -> Path:
    """Return the directory of the cluster that the command line started: beside those of the development clusters."""
    return state_home().parent / "kind"


def running(directory: Path) -> KindCluster | None:
    """Return the cluster of a directory; None unless it is up."""
    state = ClusterState.read(directory)
    if state is None or not state.ready or not state.supervisor.alive:
        return None
    return KindCluster(
        engine=Engine(engine_host(engine_data()), docker_client()),
        kind=lookup.ensure((Binary.KIND,))[Binary.KIND],
        kubeconfig=Path(state.kubeconfig),
        private=True,
    )


def start(directory: Path, kubernetes: str, reporter: Reporter, *, detach: bool = True) -> KindCluster:
    """Start the cluster of a directory, and wait until it is up.

    Args:
        directory: is created; what a killed process left in it is removed.
        kubernetes: minor release of Kubernetes, like "1.37".
        reporter: receives the progress.
        detach: whether the cluster outlives this process.

    Raises:
        DevClusterError: it is running already, a build failed, or it did not start; the message contains its log.
    """
    state = ClusterState.read(directory)
    if state is not None and state.supervisor.alive:
        raise StateError(f"a kind cluster is running or being started ({directory}): stop it with `just kind-down`")
    shutil.rmtree(directory, ignore_errors=True)
    # Before the process starts: a build takes minutes, and shows its progress here.
    lookup.ensure(lookup.KIND_NODE, reporter=reporter, kubernetes=kubernetes)
    directory.mkdir(mode=0o700, parents=True)
    command = [sys.executable, "-m", "joulie_devcluster.kind_node.background", str(directory), kubernetes]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this package
            command if detach else die_with_parent.wrap(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        with (directory / "log").open(encoding="utf-8", errors="replace") as log_text:
            _wait_up(process, directory, log_text, reporter)
    except BaseException:
        process.terminate()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)
        raise
    # It keeps running; without this, Python would warn that it was not waited for.
    process.returncode = 0
    found = running(directory)
    assert found is not None
    return found


def stop(directory: Path) -> bool:
    """Stop the cluster of a directory and remove its files; return False if there is none."""
    if not stop_processes(directory, grace_s=_STOP_GRACE_S):
        return False
    shutil.rmtree(directory)
    return True


def _wait_up(process: subprocess.Popen[bytes], directory: Path, log: IO[str], reporter: Reporter) -> None:
    """Report the log's lines until the cluster is up."""
    lines: list[str] = []
    while True:
        # Before the log is read: the last lines of a process that ended must not be missed.
        ended = process.poll() is not None
        state = ClusterState.read(directory)
        for line in log.read().splitlines():
            lines.append(line)
            reporter.note(line)
        if ended:
            raise EngineError("\n".join(["the kind cluster did not start:", *lines]))
        if state is not None and state.ready:
            return
        time.sleep(_POLL_S)


def main(arguments: list[str]) -> int:
    """Run the cluster until a signal."""
    directory, minor = Path(arguments[0]), arguments[1]
    for number in _SIGNALS:
        signal.signal(number, _end)
    state = ClusterState(CLUSTER, ProcessRecord.of("kind cluster", os.getpid()))
    state.write(directory)
    try:
        with terminal_reporter() as reporter, kind_cluster(directory, reporter, kubernetes=minor) as cluster:
            kubeconfig = str(cluster.kubeconfig)
            ClusterState(CLUSTER, state.supervisor, kubeconfig=kubeconfig, ready=True).write(directory)
            while True:
                signal.pause()
    except DevClusterError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _end(_number: int, _frame: FrameType | None) -> Never:
    # Further signals must not interrupt the removal of the containers.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
