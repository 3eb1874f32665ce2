"""A real control plane on loopback: etcd, API server, scheduler, controller manager and KWOK as child processes.

Promises: TLS everywhere and RBAC on; free ports, so that any number of clusters runs side by side; every file under one
directory; every process is stopped by its pid on `down` and killed by the kernel when this process, or the thread that
called `up`, dies. Does not restart a process that dies: `check` says so.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tenacity import retry, retry_if_exception_type, stop_after_attempt

from joulie_api.client import KubeClient
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.components import (
    ADMIN,
    Credentials,
    Layout,
    arguments,
    ready_url,
    server_url,
    write_configuration,
    write_pki,
)
from joulie_devcluster.control_plane.config import ClusterConfig, Ports
from joulie_devcluster.control_plane.kubeconfig import write_kubeconfig
from joulie_devcluster.control_plane.manifests import DATA, apply_manifests, load_manifests
from joulie_devcluster.control_plane.node_pool import create_nodes, wait_nodes_schedulable
from joulie_devcluster.control_plane.nodes import NodeClass, node_manifests
from joulie_devcluster.control_plane.state import ClusterState, ProcessRecord
from joulie_devcluster.errors import PortTakenError, StartError, StateError
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess, stop_in_order
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.host.readiness import tls_context, wait_until_ready

_ATTEMPTS = 3
_USER_AGENT = "joulie-devcluster"
_NODES_READY_S = 60.0
_SECONDS_PER_NODE = 0.1


class DevCluster:
    """One cluster; `up` and `down` once each, or as an async context manager.

    Attributes of a cluster that is up: `directory`, `kubeconfig` (admin), `server` (URL), `ca_path`, `extender_port`,
    `processes`.
    """

    def __init__(self, config: ClusterConfig | None = None, *, reporter: Reporter | None = None) -> None:
        self.config = config if config is not None else ClusterConfig()
        self._reporter = reporter
        self._layout: Layout | None = None
        self._credentials: Credentials | None = None
        self._ports: Ports | None = None
        self._extender_port: int | None = None
        self._paths: Mapping[Binary, Path] = {}
        self._processes: dict[str, ServiceProcess] = {}
        self._cleanups: list[Callable[[], None]] = []
        self._is_up = False

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    @property
    def layout(self) -> Layout:
        """Where its files lie; RuntimeError before `up`."""
        if self._layout is None:
            raise RuntimeError("the cluster is not up")
        return self._layout

    @property
    def directory(self) -> Path:
        """The one directory of all its files."""
        return self.layout.root

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.admin_kubeconfig

    @property
    def ca_path(self) -> Path:
        """The certificate of the authority that signed the API server's."""
        return self.layout.pki / "ca.crt"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return server_url(self._up_ports)

    @property
    def extender_port(self) -> int:
        """The loopback port on which kube-scheduler looks for its extender; RuntimeError where it has none."""
        if self._extender_port is None:
            raise RuntimeError("the cluster is not up or has no extender")
        return self._extender_port

    @property
    def processes(self) -> Mapping[str, ServiceProcess]:
        """All its processes by name, those of `adopt` included."""
        return self._processes

    async def up(self, *, before_ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Bring it up; returns when every process says that it is ready and every configured node is schedulable.

        Args:
            before_ready: awaited before `status` (and whoever waits for a detached cluster) counts it as ready.

        Raises:
            BinaryError: a binary is missing and cannot be built.
            StartError: something did not become ready; carries the end of its log. Nothing is left running then, and no
            file. StateError: the directory exists already.
        """
        self._paths = await asyncio.to_thread(lookup.ensure, directory=self.config.binaries, reporter=self._reporter)
        self._layout = Layout(_create_directory(self.config.directory))
        try:
            self._write_state()
            self._credentials = write_pki(self._layout)
            await self._start_with_free_ports()
            if self.config.nodes:
                await self.add_nodes(self.config.nodes)
            if before_ready is not None:
                await before_ready()
            self._is_up = True
            self._write_state()
        except BaseException:
            await self.down()
            raise

    async def down(self) -> None:
        """Stop every process, the last started first, and remove the directory; nothing happens where it is not up."""
        if self._layout is None:
            return
        self._is_up = False
        await self._stop()
        while self._cleanups:
            await asyncio.to_thread(self._cleanups.pop())
        shutil.rmtree(self._layout.root)
        self._layout = self._ports = self._credentials = self._extender_port = None

    async def client(self, *, user_agent: str = _USER_AGENT) -> KubeClient:
        """A new client with the administrator's rights; close it (`async with await cluster.client() as client`)."""
        return await KubeClient.connect(kubeconfig=str(self.kubeconfig), user_agent=user_agent)

    async def add_nodes(self, classes: Sequence[NodeClass]) -> list[str]:
        """Create the nodes of some classes and wait until pods can be put on them; their names."""
        manifests = node_manifests(classes)
        names = [manifest["metadata"]["name"] for manifest in manifests]
        async with await self.client() as client:
            await create_nodes(client, manifests)
            timeout_s = _NODES_READY_S + _SECONDS_PER_NODE * len(names)
            await wait_nodes_schedulable(client, names, timeout_s=timeout_s)
        return names

    def issue_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for a user of any name; without RBAC bindings the user may do next to nothing."""
        if self._credentials is None:
            raise RuntimeError("the cluster is not up")
        authority = self._credentials.authority
        return write_kubeconfig(
            self.layout.kubeconfig(user),
            server=self.server,
            cluster=self.config.name,
            user=user,
            ca_pem=authority.pair.cert_pem,
            credentials=authority.issue_client(user, groups),
        )

    def add_cleanup(self, cleanup: Callable[[], None]) -> None:
        """Register a blocking function that `down` calls after all processes have ended, before it removes the files.

        Functions are called in reverse order of their registration, once each.
        """
        self._cleanups.append(cleanup)

    def adopt(self, process: ServiceProcess) -> None:
        """Count somebody else's process among the cluster's: `status` shows it, `down` stops it before its own."""
        if process.name in self._processes:
            raise ValueError(f"there is a process named {process.name} already")
        self._processes[process.name] = process
        process.on_start = self._write_state
        self._write_state()

    def release(self, name: str) -> None:
        """Count an adopted process no longer; nothing happens for a name that is unknown."""
        if self._layout is not None and self._processes.pop(name, None) is not None:
            self._write_state()

    def check(self) -> None:
        """Raise StartError if a process of the control plane has ended, with the end of its log."""
        for binary in lookup.CONTROL_PLANE:
            process = self._processes[binary]
            if not process.running:
                raise StartError(f"{process.name} ended with {process.returncode}; its log ends:\n{process.log_tail()}")

    @property
    def _up_ports(self) -> Ports:
        if self._ports is None:
            raise RuntimeError("the cluster is not up")
        return self._ports

    @retry(retry=retry_if_exception_type(PortTakenError), stop=stop_after_attempt(_ATTEMPTS), reraise=True)
    async def _start_with_free_ports(self) -> None:
        self._ports = Ports(*(free_port() for _ in range(5)))
        try:
            await self._start()
        except PortTakenError:
            await self._stop()
            raise

    async def _start(self) -> None:
        assert self._credentials is not None
        if self.config.extender:
            self._extender_port = self.config.extender_port or self._extender_port or free_port()
        extender_url = f"http://{LOOPBACK}:{self._extender_port}" if self._extender_port else None
        write_configuration(self.layout, self.config, self._up_ports, self._credentials, extender_url)
        await self._launch(Binary.ETCD)
        await self._ready(Binary.ETCD)
        await self._launch(Binary.APISERVER)
        await self._ready(Binary.APISERVER)
        async with await self.client() as client:
            await apply_manifests(client, load_manifests(DATA / "kwok-rbac.yaml"))
        rest = (Binary.SCHEDULER, Binary.CONTROLLER_MANAGER, Binary.KWOK)
        for binary in rest:
            await self._launch(binary)
        await asyncio.gather(*(self._ready(binary) for binary in rest))

    async def _launch(self, binary: Binary) -> None:
        layout = self.layout
        argv = [str(self._paths[binary]), *arguments(binary, layout, self.config, self._up_ports)]
        process = ServiceProcess(binary, argv, log_path=layout.log(binary), cwd=layout.root)
        self._processes[binary] = process
        process.on_start = self._write_state
        await process.start()

    async def _ready(self, binary: Binary) -> None:
        pki = self.layout.pki
        client = "apiserver-etcd-client" if binary is Binary.ETCD else ADMIN
        authority = "etcd-ca" if binary is Binary.ETCD else "ca"
        context = tls_context(pki / f"{authority}.crt", pki / f"{client}.crt", pki / f"{client}.key")
        url = ready_url(binary, self._up_ports)
        timeout_s = self.config.start_timeout_s
        await wait_until_ready(self._processes[binary], url, timeout_s=timeout_s, context=context)

    async def _stop(self) -> None:
        """Services first, then those who only read the API server, then the server, then its store."""
        plane = [self._processes.pop(binary, None) for binary in (Binary.APISERVER, Binary.ETCD)]
        clients = [self._processes.pop(binary, None) for binary in lookup.CONTROL_PLANE]
        services: list[ServiceProcess | None] = list(self._processes.values())
        groups: list[list[ServiceProcess | None]] = [services, clients, *([process] for process in plane)]
        await stop_in_order([process for process in group if process is not None] for group in groups)
        self._processes.clear()

    def _write_state(self) -> None:
        state = ClusterState(
            name=self.config.name,
            supervisor=ProcessRecord.of("supervisor", os.getpid()),
            processes=tuple(
                ProcessRecord.of(process.name, process.pid, process.log_path)
                for process in self._processes.values()
                if process.started
            ),
            kubeconfig=str(self.layout.admin_kubeconfig),
            extender_port=self._extender_port,
            ready=self._is_up,
        )
        server = "" if self._ports is None else server_url(self._ports)
        replace(state, server=server).write(self.layout.root)


def _create_directory(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="joulie-devcluster-"))
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)
    except FileExistsError as error:
        raise StateError(f"{directory} exists: take another directory, or stop the cluster in it first") from error
    return directory.resolve()
