"""The `up` command: starts a cluster and supervises it, in the foreground or in a background process."""

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from joulie_core.labels import MANAGED
from joulie_devcluster.binaries import lookup
from joulie_devcluster.cli.teardown import tear_down
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import NodeClass, default_node_classes, read_node_classes, scale
from joulie_devcluster.control_plane.state import ClusterState
from joulie_devcluster.errors import RealNodeError, StateError
from joulie_devcluster.host.progress import terminal_reporter
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_devcluster.real_node.requirements import missing_requirements

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CHECK_INTERVAL_S = 1.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest:
    """Options of the `up` command, see its `--help`."""

    name: str
    directory: Path
    nodes: int | None = None
    node_file: Path | None = None
    binaries: Path | None = None
    kubernetes: str | None = None
    extender: bool = True
    extender_port: int | None = None
    real_node: bool = False

    def node_classes(self) -> tuple[NodeClass, ...]:
        """Return the node classes: those of the file or the default mix, scaled to `nodes`; none if neither is set.

        Raises:
            NodeClassError: the file cannot be read or is invalid.
        """
        if self.node_file is None and self.nodes is None:
            return ()
        classes = default_node_classes() if self.node_file is None else read_node_classes(self.node_file)
        return classes if self.nodes is None else scale(classes, self.nodes)

    def arguments(self) -> list[str]:
        """Return the arguments of the command line that makes this request."""
        options = {
            "--name": self.name,
            "--dir": self.directory.absolute(),
            "--nodes": self.nodes,
            "--config": self.node_file,
            "--binaries": self.binaries,
            "--kubernetes": self.kubernetes,
            "--extender-port": self.extender_port,
        }
        given = [text for option, value in options.items() if value is not None for text in (option, str(value))]
        switches = {"--no-extender": not self.extender, "--real-node": self.real_node}
        return ["up", *given, *(switch for switch, is_on in switches.items() if is_on)]


def up(request: UpRequest) -> int:
    """Run a cluster until a signal arrives, and return the exit status.

    Raises:
        DevClusterError: the cluster did not start, or one of its processes exited.
    """
    config = _prepare(request)
    return asyncio.run(_serve(config, real_node=request.real_node))


def up_detached(request: UpRequest) -> int:
    """Run `up` in a background process, wait until the cluster is ready, and return the exit status."""
    _prepare(request)
    with tempfile.TemporaryFile() as log:
        supervisor = subprocess.Popen(  # noqa: S603 - this package
            [sys.executable, "-m", "joulie_devcluster", *request.arguments()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            state = _wait_ready(supervisor, request.directory)
        except BaseException:
            supervisor.terminate()
            supervisor.wait()
            raise
        if state is None:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            return 1
    # The supervisor keeps running; without this, Python would warn that it was not waited for.
    supervisor.returncode = 0
    _announce(state.kubeconfig, request.name)
    return 0


def _prepare(request: UpRequest) -> ClusterConfig:
    """Check everything that can fail before the first process starts (node file, directory), and get the binaries."""
    nodes = request.node_classes()
    missing = missing_requirements() if request.real_node else []
    if missing:
        raise RealNodeError("; ".join(missing))
    state = ClusterState.read(request.directory)
    if state is not None:
        if state.supervisor.alive:
            raise StateError(
                f"{request.name} is already running ({request.directory}): stop it with"
                f" `joulie-devcluster down --dir {request.directory}`, or choose another --name"
            )
        sys.stderr.write(f"removing the files of a killed cluster in {request.directory}\n")
        tear_down(request.directory)
    with terminal_reporter() as reporter:
        wanted = (*lookup.CONTROL_PLANE, *(lookup.REAL_NODE if request.real_node else ()))
        lookup.ensure(wanted, directory=request.binaries, reporter=reporter, kubernetes=request.kubernetes)
    return ClusterConfig(
        name=request.name,
        directory=request.directory,
        binaries=request.binaries,
        kubernetes=request.kubernetes,
        extender=request.extender,
        extender_port=request.extender_port,
        nodes=nodes,
    )


async def _serve(config: ClusterConfig, *, real_node: bool) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    cluster = DevCluster(config)
    node: RealNode | None = None

    async def start_real_node() -> None:
        nonlocal node
        node = RealNode(cluster, RealNodeConfig(labels={MANAGED: "true"}))
        await node.up()

    try:
        await cluster.up(before_ready=start_real_node if real_node else None)
        _announce(str(cluster.kubeconfig), config.name)
        sys.stderr.write("running; press Ctrl-C to stop it and remove its files\n")
        while True:
            cluster.check()
            if node is not None:
                node.check()
            await asyncio.sleep(_CHECK_INTERVAL_S)
    except asyncio.CancelledError:
        sys.stderr.write("stopping\n")
        return 0
    finally:
        # A second Ctrl-C must not interrupt the removal of the files.
        for number in _SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        if node is not None:
            await node.down()
        await cluster.down()


def _announce(kubeconfig: str, name: str) -> None:
    sys.stdout.write(f"export KUBECONFIG={kubeconfig}\n")
    sys.stdout.flush()
    sys.stderr.write(f"{name} is ready; show it with `joulie-devcluster status`\n")


def _wait_ready(supervisor: subprocess.Popen[bytes], directory: Path) -> ClusterState | None:
    """Return the state of the cluster when it is ready, or None if the supervisor exited before."""
    while supervisor.poll() is None:
        state = ClusterState.read(directory)
        if state is not None and state.ready:
            return state
        time.sleep(_POLL_S)
    return None
