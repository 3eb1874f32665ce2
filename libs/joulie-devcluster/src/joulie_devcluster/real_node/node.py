"""A real node of a development cluster: containerd and kubelet as child processes, next to KWOK nodes.

Guarantees: all files are in the cluster's directory; every process, those of containers included, is killed when the
process or thread that called `up` ends, because all of them are in a process namespace.

Limits: `down` kills containers without SIGTERM. Pods must use the host's network (`hostNetwork: true`), images must
have been imported (`imagePullPolicy: Never`), and the node has no address, so that logs are available from `logs` only,
not from kubectl.
"""

import asyncio
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.oci import write_busybox_archive
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.node_pool import wait_nodes_schedulable
from joulie_devcluster.control_plane.pki import write_file
from joulie_devcluster.errors import RealNodeError
from joulie_devcluster.host.lifecycle import Startable
from joulie_devcluster.host.ports import LOOPBACK
from joulie_devcluster.host.process import ProcessExitedError, ServiceProcess, base_environment, stop_in_order
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.real_node import cgroups, cleanup, namespaces
from joulie_devcluster.real_node.config import NodeLayout, containerd_config, kubelet_config, network
from joulie_devcluster.real_node.requirements import find_busybox, find_runc, find_snapshotter, missing_requirements

NAMESPACES: Final = "namespaces"

_IMPORT_TIMEOUT_S: Final = 300
_CONTAINERD_STARTED: Final = "containerd successfully booted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealNodeConfig:
    """Configuration of a real node.

    Attributes:
        name: name of the Node.
        labels: labels of the Node, in addition to those that a kubelet sets.
        start_timeout_s: time that each step of the start may take.
    """

    name: str = "real-0"
    labels: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 180.0


class RealNode(Startable):
    """The real node of a cluster, started with `up` and stopped with `down`, once each, or an async context manager.

    The cluster must be up and can have one real node. `DevCluster.down` also stops it.
    """

    def __init__(
        self, cluster: DevCluster, config: RealNodeConfig | None = None, *, reporter: Reporter | None = None
    ) -> None:
        self.cluster = cluster
        self.config = config if config is not None else RealNodeConfig()
        self.layout = NodeLayout(cluster.directory / "real-node", cluster.layout.logs)
        # Kept: `down` may be called after the cluster's `down`.
        self._directory = cluster.directory
        self._cgroup = cgroups.group_name(cluster.directory)
        self._reporter = reporter
        self._paths: Mapping[Binary, Path] = {}
        self._processes: dict[str, ServiceProcess] = {}
        self._init_pid = 0

    @property
    def name(self) -> str:
        """Name of the Node."""
        return self.config.name

    @property
    def processes(self) -> Mapping[str, ServiceProcess]:
        """Processes of the node by name: namespaces, containerd and kubelet."""
        return self._processes

    async def up(self) -> None:
        """Start the node and wait until it is schedulable. After an error no process of it is left running.

        Raises:
            RealNodeError: the host does not meet the requirements; the message lists each with its remedy.
            BinaryError: a binary is missing and cannot be built.
            StartError: a process or the node did not become ready.
        """
        missing = missing_requirements()
        if missing:
            raise RealNodeError("; ".join(missing))
        self._paths = await asyncio.to_thread(
            lookup.ensure,
            lookup.REAL_NODE,
            directory=self.cluster.config.binaries,
            reporter=self._reporter,
            kubernetes=self.cluster.config.kubernetes,
        )
        self.cluster.add_cleanup(partial(cleanup.remove, self._directory))
        try:
            self._write_files()
            cgroups.create(self._cgroup)
            await self._start_namespaces()
            await self._start_containerd()
            await self.import_image(await asyncio.to_thread(self._write_sandbox_image))
            await self._wait_schedulable(await self._start_kubelet())
        except BaseException:
            await self.down()
            raise

    async def down(self) -> None:
        """Stop the kubelet and containerd, kill all containers, and remove control groups.

        The cluster's `down` removes the files.
        """
        await self._stop(reversed(self._processes.values()))
        await asyncio.to_thread(cleanup.remove, self._directory)

    async def power_off(self) -> None:
        """Kill kubelet, containerd and all containers at once, as a loss of power does. Files are kept."""
        # The namespaces first: the kernel kills everything that runs in them.
        await self._stop(self._processes.values())

    async def power_on(self) -> None:
        """Start containerd and the kubelet of a node that is off, as a boot does: /run is empty, other files are kept.

        Does not wait for the node to become ready. After an error no process of it is left running.

        Raises:
            StartError: a process did not become ready.
        """
        shutil.rmtree(self.layout.run)
        self.layout.run.mkdir()
        await asyncio.to_thread(cgroups.remove, self._cgroup)
        cgroups.create(self._cgroup)
        try:
            await self._start_namespaces()
            await self._start_containerd()
            await self._start_kubelet()
        except BaseException:
            await self.power_off()
            raise

    def check(self) -> None:
        """Check that all processes of the node are running.

        Raises:
            ProcessExitedError: one has exited; the message contains the end of its log.
        """
        for process in self._processes.values():
            if process.returncode is not None:
                raise ProcessExitedError(process.name, process.returncode, process.log_tail())

    async def import_image(self, archive: Path) -> None:
        """Import the images of an archive: the output of `docker save`, or an OCI image layout in a tar file.

        Raises:
            RealNodeError: the archive cannot be imported; the message contains the error of containerd's client.
        """
        # Unpacked when the first container needs it, by the snapshotter that containers use.
        await asyncio.to_thread(self._ctr, "images", "import", "--local", "--no-unpack", str(archive))

    async def restart_containerd(self) -> None:
        """Stop containerd and start it again, and wait until it serves. Containers go on running."""
        process = self._processes[Binary.CONTAINERD]
        await process.restart()
        await process.wait_for_log(_CONTAINERD_STARTED, self.config.start_timeout_s)

    def logs(self, namespace: str, pod: str, container: str) -> str:
        """Return the log of a container, over all runs that the kubelet has kept, in the CRI log format."""
        files = sorted(self.layout.pod_logs.glob(f"{namespace}_{pod}_*/{container}/*.log"), key=_run_number)
        return "".join(path.read_text(errors="replace") for path in files)

    def container_pids(self, container_id: str) -> tuple[int, ...]:
        """Return the processes of a container, whose id is as in a Pod's status; empty if it is not running."""
        return cgroups.pids(self._cgroup, container_id.removeprefix("containerd://"))

    def _write_files(self) -> None:
        layout = self.layout
        for source in layout.binds.values():
            source.mkdir(parents=True)
        cleanup.make_mount_points(self._directory, layout.binds)
        for target, source in layout.kernel_settings.items():
            write_file(source, target.read_bytes())
        runc = find_runc()
        assert runc is not None
        snapshotter = find_snapshotter(layout.root)
        write_file(layout.containerd_config, containerd_config(layout, runc=runc, snapshotter=snapshotter).encode())
        write_file(layout.network / "10-none.conflist", network().encode())
        resolv_conf = write_file(layout.root / "resolv.conf", b"# no name servers on a development node\n")
        lease_s = self.cluster.config.node_lease_s
        kubelet = kubelet_config(layout, cgroup=self._cgroup, resolv_conf=resolv_conf, lease_s=lease_s)
        write_file(layout.kubelet_config, yaml.safe_dump(kubelet, sort_keys=False).encode())

    def _write_sandbox_image(self) -> Path:
        busybox = find_busybox()
        assert busybox is not None
        return write_busybox_archive(busybox, self.layout.root / "busybox.tar", machine=platform.machine())

    async def _start_namespaces(self) -> None:
        binds = [f"{source}:{target}" for target, source in (self.layout.binds | self.layout.kernel_settings).items()]
        argv = [sys.executable, "-I", "-S", namespaces.__file__, "create", *binds]
        process = await self._start(NAMESPACES, argv)
        match = await process.wait_for_log(r"^init process (\d+)$", self.config.start_timeout_s)
        self._init_pid = int(match[1])

    async def _start_containerd(self) -> None:
        argv = self._inside(Binary.CONTAINERD, "--config", str(self.layout.containerd_config))
        process = await self._start(Binary.CONTAINERD, argv)
        await process.wait_for_log(_CONTAINERD_STARTED, self.config.start_timeout_s)

    async def _start_kubelet(self) -> ServiceProcess:
        credentials = self.cluster.issue_kubeconfig(f"system:node:{self.name}", ["system:nodes"])
        options = {
            "config": self.layout.kubelet_config,
            "kubeconfig": credentials,
            "hostname-override": self.name,
            # Rejected by the kubelet, so that the node has no address. Otherwise addresses of node and pods, and
            # whether the node starts at all, depend on the network of the host.
            "node-ip": LOOPBACK,
            "node-labels": ",".join(f"{key}={value}" for key, value in self.config.labels.items()),
            "v": self.cluster.config.verbosity,
        }
        argv = self._inside(Binary.KUBELET, *(f"--{key}={value}" for key, value in options.items()))
        return await self._start(Binary.KUBELET, argv)

    async def _wait_schedulable(self, kubelet: ServiceProcess) -> None:
        async with asyncio.TaskGroup() as group, await self.cluster.client() as client:
            watch = group.create_task(_raise_on_exit(kubelet))
            await wait_nodes_schedulable(client, [self.name], timeout_s=self.config.start_timeout_s)
            watch.cancel()

    async def _start(self, name: str, argv: list[str]) -> ServiceProcess:
        process = ServiceProcess(name, argv, log_path=self.cluster.layout.log(name), env=self._environment())
        self._processes[name] = process
        self.cluster.adopt(process)
        await process.start()
        return process

    async def _stop(self, processes: Iterable[ServiceProcess]) -> None:
        await stop_in_order([[process] for process in processes])
        for name in self._processes:
            self.cluster.release(name)
        self._processes.clear()

    def _inside(self, binary: Binary, *arguments: str) -> list[str]:
        """Return the command line that runs a binary in the node's namespaces."""
        program = [sys.executable, "-I", "-S", namespaces.__file__, "enter", str(self._init_pid)]
        return [*program, str(self._paths[binary]), *arguments]

    def _ctr(self, *arguments: str) -> None:
        # "k8s.io" is containerd's namespace for images and containers of a kubelet.
        reply = subprocess.run(  # noqa: S603 - a fixed command
            self._inside(Binary.CTR, "--namespace", "k8s.io", *arguments),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=_IMPORT_TIMEOUT_S,
            check=False,
        )
        if reply.returncode != 0:
            raise RealNodeError(f"ctr {' '.join(arguments)} failed: {reply.stderr.strip()}")

    def _environment(self) -> dict[str, str]:
        """Return the inherited environment with a PATH that contains the shim and the helpers of runc."""
        inherited = base_environment()
        shim = self._paths[Binary.RUNC_SHIM].parent
        path = os.pathsep.join([str(shim), inherited.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        return {**inherited, "PATH": path}


async def _raise_on_exit(process: ServiceProcess) -> None:
    returncode = await process.wait()
    raise ProcessExitedError(process.name, returncode, process.log_tail())


def _run_number(log: Path) -> tuple[str, int]:
    # 0.log, 1.log, ...: one per run. Rotated files have longer names and are sorted first.
    return str(log.parent), int(log.stem) if log.stem.isdecimal() else -1
