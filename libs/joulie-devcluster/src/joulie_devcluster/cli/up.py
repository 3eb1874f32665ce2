"""`up`: bring a cluster up and stay with it, in the foreground or as a process of its own."""

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
from joulie_devcluster.real_node.requirements import obstacles

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CHECK_INTERVAL_S = 1.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpRequest:
    """What `up` was asked for."""

    name: str
    directory: Path
    nodes: int | None = None
    node_file: Path | None = None
    binaries: Path | None = None
    extender: bool = True
    extender_port: int | None = None
    real_node: bool = False

    def node_classes(self) -> tuple[NodeClass, ...]:
        """The nodes to make: those of the file, scaled to a number if one was given; none where neither was."""
        if self.node_file is None and self.nodes is None:
            return ()
        classes = default_node_classes() if self.node_file is None else read_node_classes(self.node_file)
        return classes if self.nodes is None else scale(classes, self.nodes)

    def arguments(self) -> list[str]:
        """The same request as a command line."""
        options = {
            "--name": self.name,
            "--dir": self.directory.absolute(),
            "--nodes": self.nodes,
            "--config": self.node_file,
            "--binaries": self.binaries,
            "--extender-port": self.extender_port,
        }
        given = [text for option, value in options.items() if value is not None for text in (option, str(value))]
        switches = {"--no-extender": not self.extender, "--real-node": self.real_node}
        return ["up", *given, *(switch for switch, is_on in switches.items() if is_on)]


def up(request: UpRequest) -> int:
    """Run a cluster until a signal comes or one of its processes ends; the exit status."""
    config = _prepare(request)
    return asyncio.run(_serve(config, real_node=request.real_node))


def up_detached(request: UpRequest) -> int:
    """Run `up` in a process of its own that outlives this one; returns when the cluster is ready."""
    _prepare(request)
    with tempfile.TemporaryFile() as log:
        supervisor = subprocess.Popen(  # noqa: S603 - ourselves
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
    # The supervisor goes on by itself; without this, Python would warn that we forget it.
    supervisor.returncode = 0
    _announce(state.kubeconfig, request.name)
    return 0


def _prepare(request: UpRequest) -> ClusterConfig:
    """Everything that can fail or take long before the first process starts: node file, directory, binaries."""
    nodes = request.node_classes()
    found = obstacles() if request.real_node else []
    if found:
        raise RealNodeError("; ".join(found))
    state = ClusterState.read(request.directory)
    if state is not None:
        if state.supervisor.alive:
            raise StateError(
                f"{request.name} is up already ({request.directory}): stop it with"
                f" `joulie-devcluster down --dir {request.directory}`, or give this one another --name"
            )
        sys.stderr.write(f"removing what a killed cluster left in {request.directory}\n")
        tear_down(request.directory)
    with terminal_reporter() as reporter:
        wanted = (*lookup.CONTROL_PLANE, *(lookup.REAL_NODE if request.real_node else ()))
        lookup.ensure(wanted, directory=request.binaries, reporter=reporter)
    return ClusterConfig(
        name=request.name,
        directory=request.directory,
        binaries=request.binaries,
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
        sys.stderr.write("running; Ctrl-C stops it and removes its files\n")
        while True:
            cluster.check()
            if node is not None:
                node.check()
            await asyncio.sleep(_CHECK_INTERVAL_S)
    except asyncio.CancelledError:
        sys.stderr.write("stopping\n")
        return 0
    finally:
        # From here on an impatient second Ctrl-C must not keep files from being removed.
        for number in _SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        if node is not None:
            await node.down()
        await cluster.down()


def _announce(kubeconfig: str, name: str) -> None:
    sys.stdout.write(f"export KUBECONFIG={kubeconfig}\n")
    sys.stdout.flush()
    sys.stderr.write(f"{name} is ready; `joulie-devcluster status` shows it\n")


def _wait_ready(supervisor: subprocess.Popen[bytes], directory: Path) -> ClusterState | None:
    """The state of the cluster once it is ready; None when the supervisor ended instead."""
    while supervisor.poll() is None:
        state = ClusterState.read(directory)
        if state is not None and state.ready:
            return state
        time.sleep(_POLL_S)
    return None
