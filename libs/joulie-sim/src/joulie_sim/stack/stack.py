"""Joulie on a development cluster: operator, agents, extender and simulator as local processes.

Each service has a user of its own, bound to its roles in `joulie_sim.stack.roles`, so that missing permissions are
found in tests and not in production. Ports are chosen here and do not change when a process is restarted.
"""

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_api.client import KubeClient
from joulie_api.resources import CRDS
from joulie_core.kinds.crds import manifests as crd_manifests
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.manifests import apply_manifests
from joulie_devcluster.errors import StartError
from joulie_devcluster.host.lifecycle import Startable
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import stop_in_order
from joulie_sim.stack.roles import bindings, service_roles
from joulie_sim.stack.service import JoulieService, Service

NAMESPACE: Final = "joulie-system"

_CRD_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """Services of a stack and their settings.

    Attributes:
        agent_shards: number of agents, among which the nodes are divided (pool mode).
        services: services to start. A test can omit a service and do its work itself. The out-of-band service and the
            node agent are started by `start` only, as nodes of a development cluster have neither a BMC nor a resource
            manager.
        env: settings by service, which override those of the stack.
        start_timeout_s: time that all services together have to become ready.
        commands: by service, in place of its console script.
    """

    agent_shards: int = 2
    services: Collection[Service] = tuple(Service)
    env: Mapping[Service, Mapping[str, str]] = field(default_factory=dict)
    start_timeout_s: float = 60.0
    commands: Mapping[Service, Sequence[str]] = field(default_factory=dict)


class JoulieStack(Startable):
    """The services of one cluster, started with `up` and stopped with `down`, or an async context manager.

    `start` adds processes, for example a second operator: `start(Service.OPERATOR, "joulie-operator-2")`.

    Attributes:
        cluster: the cluster.
        config: services and settings.
        services: all processes by name.
    """

    def __init__(self, cluster: DevCluster, config: StackConfig | None = None) -> None:
        self.cluster = cluster
        self.config = config if config is not None else StackConfig()
        self.services: dict[str, JoulieService] = {}
        self._sim_port = free_port()

    @property
    def operator(self) -> JoulieService:
        """The first operator.

        Raises:
            KeyError: it was omitted.
        """
        return self.services[Service.OPERATOR]

    @property
    def extender(self) -> JoulieService:
        """The extender.

        Raises:
            KeyError: it was omitted.
        """
        return self.services[Service.EXTENDER]

    @property
    def sim(self) -> JoulieService:
        """The simulator.

        Raises:
            KeyError: it was omitted.
        """
        return self.services[Service.SIM]

    @property
    def agents(self) -> tuple[JoulieService, ...]:
        """All agents, ordered by shard."""
        return tuple(service for service in self.services.values() if service.service is Service.AGENT)

    @property
    def sim_url(self) -> str:
        """Base URL of the simulator. The agents use it also if the simulator was omitted."""
        return f"http://{LOOPBACK}:{self._sim_port}"

    @property
    def extender_url(self) -> str:
        """Base URL at which kube-scheduler calls the extender."""
        return f"http://{LOOPBACK}:{self.cluster.extender_port}"

    async def up(self) -> None:
        """Install CRDs and RBAC, start the services, and wait until all are ready.

        After an error no service is left running.

        Raises:
            StartError: a service did not become ready.
        """
        try:
            await self.install()
            selected = self.config.services
            for service in (Service.SIM, Service.OPERATOR, Service.EXTENDER):
                if service in selected:
                    await self.start(service, wait=False)
            if Service.SIM in selected:
                # The machines are there before their agents, as in a real cluster.
                await self.sim.wait_ready(self.config.start_timeout_s)
            if Service.AGENT in selected:
                for shard in range(self.config.agent_shards):
                    await self.start(
                        Service.AGENT, f"{Service.AGENT}-{shard}", env={"POOL_SHARD_ID": str(shard)}, wait=False
                    )
            await _wait_ready(list(self.services.values()), self.config.start_timeout_s)
        except BaseException:
            await self.down()
            raise

    async def down(self) -> None:
        """Stop all services. Objects that they created in the cluster are kept."""
        await stop_in_order([list(self.services.values())])
        for name in self.services:
            self.cluster.release(name)
        self.services.clear()

    async def install(self) -> None:
        """Install CRDs, namespace, roles and bindings, and wait until the CRDs are established."""
        crds = list(crd_manifests().values())
        roles = service_roles(NAMESPACE)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        bound = [binding for service in Service for binding in bindings(roles, service)]
        async with await self.cluster.client() as client:
            await apply_manifests(client, [*crds, namespace, *roles, *bound])
            async with asyncio.timeout(_CRD_TIMEOUT_S):
                await asyncio.gather(*(_wait_established(client, crd["metadata"]["name"]) for crd in crds))

    async def start(
        self, service: Service, name: str | None = None, *, env: Mapping[str, str] | None = None, wait: bool = True
    ) -> JoulieService:
        """Start one more process of a service.

        Args:
            service: which service.
            name: name of the process, unique in the cluster; None is the service's name.
            env: settings of this process, which override those of the configuration.
            wait: whether to wait until it is ready. A stand-by operator is ready without being the leader.

        Raises:
            StartError: the process did not become ready.
        """
        name = name if name is not None else str(service)
        # The simulator serves its API and its metrics on one port.
        port = self._sim_port if service is Service.SIM else free_port()
        settings = self._settings(service, name, port) | dict(self.config.env.get(service, {})) | dict(env or {})
        log_path = self.cluster.layout.log(name)
        process = JoulieService(
            service,
            name,
            metrics_port=port,
            env=settings,
            log_path=log_path,
            command=self.config.commands.get(service),
        )
        # Added to the cluster before it is started, so that it is stopped whatever happens.
        self.cluster.adopt(process)
        self.services[name] = process
        await process.start()
        if wait:
            await process.wait_ready(self.config.start_timeout_s)
        return process

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until all running services are ready.

        Raises:
            StartError: a service is not ready after `timeout_s` seconds.
        """
        await _wait_ready([process for process in self.services.values() if process.running], timeout_s)

    def _settings(self, service: Service, name: str, port: int) -> dict[str, str]:
        settings = {
            "KUBECONFIG": str(self.cluster.issue_kubeconfig(service.user)),
            "METRICS_ADDR": f"{LOOPBACK}:{port}",
            "LOG_FORMAT": "json",
            "POD_NAME": name,
            "POD_NAMESPACE": NAMESPACE,
        }
        match service:
            case Service.AGENT:
                settings |= pool_agent_env(self.sim_url, self.config.agent_shards)
            case Service.EXTENDER:
                settings["EXTENDER_ADDR"] = f"{LOOPBACK}:{self.cluster.extender_port}"
            case Service.OPERATOR | Service.SIM | Service.OUTOFBAND | Service.VEN | Service.CONTAINERS:
                pass
        return settings


def pool_agent_env(sim_url: str, shards: int) -> dict[str, str]:
    """Return the settings of agents that share the nodes of a simulator."""
    telemetry, control = f"{sim_url}/telemetry/{{node}}", f"{sim_url}/control/{{node}}"
    return {
        "AGENT_MODE": "pool",
        "POOL_SHARDS": str(shards),
        "TELEMETRY_CPU_SOURCE": "http",
        "TELEMETRY_CPU_HTTP_ENDPOINT": telemetry,
        "TELEMETRY_CPU_CONTROL": "http",
        "TELEMETRY_CPU_CONTROL_HTTP_ENDPOINT": control,
        "TELEMETRY_GPU_CONTROL": "http",
        "TELEMETRY_GPU_CONTROL_HTTP_ENDPOINT": control,
    }


async def _wait_ready(processes: Iterable[JoulieService], timeout_s: float) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    for process in processes:
        await process.wait_ready(max(0.0, deadline - loop.time()))


async def _wait_established(client: KubeClient, name: str) -> None:
    while not _is_established(json.loads(await client.get(CRDS, name))):  # noqa: ASYNC110 - the event is on the server
        await asyncio.sleep(_POLL_S)


def _is_established(crd: Mapping[str, object]) -> bool:
    """Return whether the API server serves a CRD.

    Raises:
        StartError: the API server rejected the names of the CRD.
    """
    status = crd.get("status")
    # Before the first condition the API server answers with null.
    conditions = (status.get("conditions") or []) if isinstance(status, dict) else []
    for condition in conditions:
        if condition["type"] == "NamesAccepted" and condition["status"] == "False":
            raise StartError(f"CRD rejected: {condition['message']}")
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
