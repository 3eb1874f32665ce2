"""A real control plane on loopback: etcd, API server, scheduler, controller manager and KWOK as child processes.

Guarantees: all connections use TLS and RBAC is enabled; ports are free ones, so that any number of clusters can run at
the same time; all files are in one directory; `down` stops every process by its pid, and the kernel kills every process
when this process, or the thread that called `up`, ends.

Limits: a process that exits is not restarted; `check` reports it.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tenacity import retry, retry_if_exception_type, stop_after_attempt

from joulie_api.client import KubeClient
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.audit import AuditLog
from joulie_devcluster.control_plane.components import (
    ADMIN,
    AUDIT_LOG,
    Credentials,
    Layout,
    arguments,
    etcd_arguments,
    etcd_name,
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
from joulie_devcluster.host.lifecycle import Startable
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess, stop_in_order
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.host.readiness import tls_context, wait_until_ready

_ATTEMPTS = 3
_USER_AGENT = "joulie-devcluster"
_NODES_READY_S = 60.0
_SECONDS_PER_NODE = 0.1


class DevCluster(Startable):
    """A cluster, started with `up` and stopped with `down`, once each, or used as an async context manager.

    Its properties are available while it is up.
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

    @property
    def layout(self) -> Layout:
        """Paths of the files of the cluster.

        Raises:
            RuntimeError: the cluster is not up.
        """
        if self._layout is None:
            raise RuntimeError("the cluster is not up")
        return self._layout

    @property
    def directory(self) -> Path:
        """Directory of all files of the cluster."""
        return self.layout.root

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.layout.admin_kubeconfig

    @property
    def ca_path(self) -> Path:
        """Certificate of the authority that signed the API server's certificate."""
        return self.layout.pki / "ca.crt"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return server_url(self._up_ports)

    def port_of(self, binary: Binary) -> int:
        """Return the loopback port of a process of the control plane.

        Raises:
            RuntimeError: the cluster is not up.
        """
        return self._up_ports.of(binary)

    @property
    def extender_port(self) -> int:
        """Loopback port on which kube-scheduler calls its extender.

        Raises:
            RuntimeError: the cluster is not up or has no extender.
        """
        if self._extender_port is None:
            raise RuntimeError("the cluster is not up or has no extender")
        return self._extender_port

    def audit_log(self) -> AuditLog:
        """Return the API server's log of the requests of `ClusterConfig.audited_users`, from its start."""
        return AuditLog(self.layout.log(AUDIT_LOG))

    @property
    def processes(self) -> Mapping[str, ServiceProcess]:
        """All processes by name, adopted ones included."""
        return self._processes

    async def up(self, *, before_ready: Callable[[], Awaitable[None]] | None = None) -> None:
        """Start the cluster and wait until all processes are ready and all configured nodes are schedulable.

        After an error no process is left running and no file is left.

        Args:
            before_ready: awaited before the cluster is recorded as ready in its state file.

        Raises:
            BinaryError: a binary is missing and cannot be built.
            StartError: a process or a node did not become ready; the message contains the end of the process's log.
            StateError: the directory already exists.
        """
        self._paths = await asyncio.to_thread(
            lookup.ensure,
            directory=self.config.binaries,
            reporter=self._reporter,
            kubernetes=self.config.kubernetes,
        )
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
        """Stop all processes, call the cleanup functions, and remove the directory. Do nothing if not up."""
        if self._layout is None:
            return
        self._is_up = False
        await self._stop()
        while self._cleanups:
            await asyncio.to_thread(self._cleanups.pop())
        shutil.rmtree(self._layout.root)
        self._layout = self._ports = self._credentials = self._extender_port = None

    async def client(self, *, user_agent: str = _USER_AGENT) -> KubeClient:
        """Return a new client with the administrator's permissions.

        The caller closes it: `async with await cluster.client() as client`.
        """
        return await KubeClient.connect(kubeconfig=str(self.kubeconfig), user_agent=user_agent)

    async def add_nodes(self, classes: Sequence[NodeClass]) -> list[str]:
        """Create the nodes of some classes, wait until they are schedulable, and return their names.

        Raises:
            StartError: some nodes did not become schedulable.
        """
        manifests = node_manifests(classes)
        names = [manifest["metadata"]["name"] for manifest in manifests]
        async with await self.client() as client:
            await create_nodes(client, manifests)
            timeout_s = _NODES_READY_S + _SECONDS_PER_NODE * len(names)
            await wait_nodes_schedulable(client, names, timeout_s=timeout_s)
        return names

    def issue_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write a kubeconfig for a user of any name and return its path.

        Without RBAC bindings the user has almost no permissions.
        """
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
        """Add a process to the cluster: `status` shows it, and `down` stops it before the control plane.

        Raises:
            ValueError: the cluster already has a process of that name.
        """
        if process.name in self._processes:
            raise ValueError(f"the cluster already has a process named {process.name}")
        self._processes[process.name] = process
        process.on_start = self._write_state
        self._write_state()

    def release(self, name: str) -> None:
        """Remove an adopted process from the cluster without stopping it. Do nothing for an unknown name."""
        if self._layout is not None and self._processes.pop(name, None) is not None:
            self._write_state()

    def check(self) -> None:
        """Check that all processes of the control plane are running.

        Raises:
            StartError: one has exited; the message contains the end of its log.
        """
        for binary in lookup.CONTROL_PLANE:
            process = self._processes[binary]
            if not process.running:
                raise StartError(
                    f"{process.name} exited with status {process.returncode}; end of its log:\n{process.log_tail()}"
                )

    @property
    def _up_ports(self) -> Ports:
        if self._ports is None:
            raise RuntimeError("the cluster is not up")
        return self._ports

    @retry(retry=retry_if_exception_type(PortTakenError), stop=stop_after_attempt(_ATTEMPTS), reraise=True)
    async def _start_with_free_ports(self) -> None:
        self._ports = Ports(*(free_port() for _ in range(5)))
        members = self.config.etcd_members
        if members > 1:
            more, peers = ([free_port() for _ in range(count)] for count in (members - 1, members))
            self._ports = replace(self._ports, more_etcd=tuple(more), etcd_peers=tuple(peers))
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
        await self._start_process(Binary.ETCD)
        for number in range(1, self.config.etcd_members):
            options = etcd_arguments(self.layout, self._up_ports, number)
            await self._run(Binary.ETCD, etcd_name(number), options)
        # It is once a leader is elected, for which most members have to run.
        await self._wait_ready(Binary.ETCD)
        await self._start_process(Binary.APISERVER)
        await self._wait_ready(Binary.APISERVER)
        async with await self.client() as client:
            await apply_manifests(client, load_manifests(DATA / "kwok-rbac.yaml"))
        rest = (Binary.SCHEDULER, Binary.CONTROLLER_MANAGER, Binary.KWOK)
        for binary in rest:
            await self._start_process(binary)
        await asyncio.gather(*(self._wait_ready(binary) for binary in rest))

    async def _start_process(self, binary: Binary) -> None:
        await self._run(binary, binary, arguments(binary, self.layout, self.config, self._up_ports))

    async def _run(self, binary: Binary, name: str, options: Sequence[str]) -> None:
        layout = self.layout
        process = ServiceProcess(name, [str(self._paths[binary]), *options], log_path=layout.log(name), cwd=layout.root)
        self._processes[name] = process
        process.on_start = self._write_state
        await process.start()

    async def _wait_ready(self, binary: Binary) -> None:
        pki = self.layout.pki
        client = "apiserver-etcd-client" if binary is Binary.ETCD else ADMIN
        authority = "etcd-ca" if binary is Binary.ETCD else "ca"
        context = tls_context(pki / f"{authority}.crt", pki / f"{client}.crt", pki / f"{client}.key")
        url = ready_url(binary, self._up_ports)
        timeout_s = self.config.start_timeout_s
        await wait_until_ready(self._processes[binary], url, timeout_s=timeout_s, context=context)

    async def _stop(self) -> None:
        """Stop adopted processes first, then the clients of the API server, then the API server, then etcd."""
        members = [self._processes.pop(etcd_name(number), None) for number in range(self.config.etcd_members)]
        server = self._processes.pop(Binary.APISERVER, None)
        clients = [self._processes.pop(binary, None) for binary in lookup.CONTROL_PLANE]
        adopted: list[ServiceProcess | None] = list(self._processes.values())
        groups: list[list[ServiceProcess | None]] = [adopted, clients, [server], members]
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
        raise StateError(
            f"{directory} already exists: choose another directory, or stop the cluster in it first"
        ) from error
    return directory.resolve()
