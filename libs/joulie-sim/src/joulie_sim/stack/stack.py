"""Joulie itself on a development cluster: operator, agents, extender and simulator as local processes.

Every process has a user of its own, bound to the roles of `joulie_sim.stack.roles`, so that a missing permission shows
here and not in production. The ports are chosen here and stay the same over restarts.
"""

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from joulie_api.client import KubeClient
from joulie_api.resources import CRDS
from joulie_core.kinds.crds import manifests as crd_manifests
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.manifests import apply_manifests
from joulie_devcluster.errors import StartError
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import stop_in_order
from joulie_sim.stack.roles import bindings, service_roles
from joulie_sim.stack.service import JoulieService, Service

NAMESPACE: Final = "joulie-system"

_CRD_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """Which services run, and with which settings.

    Attributes:
        agent_shards: how many agents share the nodes (pool mode).
        services: the services to start; leave one out to play its part in a test.
        env: settings by service, laid over those the stack chooses.
        start_timeout_s: how long all of them together may take to become ready.
    """

    agent_shards: int = 2
    services: Collection[Service] = tuple(Service)
    env: Mapping[Service, Mapping[str, str]] = field(default_factory=dict)
    start_timeout_s: float = 60.0


class JoulieStack:
    """The services of one cluster; `up` and `down`, or an async context manager.

    `operator`, `extender` and `sim` are the first of their kind, `agents` all shards; `services` has every process by
    name. A second operator, say, is made by `start(Service.OPERATOR, "joulie-operator-2")`.
    """

    def __init__(self, cluster: DevCluster, config: StackConfig | None = None) -> None:
        self.cluster = cluster
        self.config = config if config is not None else StackConfig()
        self.services: dict[str, JoulieService] = {}
        self._sim_port = free_port()

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    @property
    def operator(self) -> JoulieService:
        """The first operator; KeyError where it was left out."""
        return self.services[Service.OPERATOR]

    @property
    def extender(self) -> JoulieService:
        """The extender; KeyError where it was left out."""
        return self.services[Service.EXTENDER]

    @property
    def sim(self) -> JoulieService:
        """The simulator; KeyError where it was left out."""
        return self.services[Service.SIM]

    @property
    def agents(self) -> tuple[JoulieService, ...]:
        """All agents, by shard."""
        return tuple(service for service in self.services.values() if service.service is Service.AGENT)

    @property
    def sim_url(self) -> str:
        """Where the simulator is, or is expected by the agents if it was left out."""
        return f"http://{LOOPBACK}:{self._sim_port}"

    @property
    def extender_url(self) -> str:
        """Where kube-scheduler asks for filter and priority."""
        return f"http://{LOOPBACK}:{self.cluster.extender_port}"

    async def up(self) -> None:
        """Install CRDs and RBAC, start the services, wait until all are ready; StartError leaves none running."""
        try:
            await self.install()
            chosen = self.config.services
            for service in (Service.SIM, Service.OPERATOR, Service.EXTENDER):
                if service in chosen:
                    await self.start(service, wait=False)
            if Service.AGENT in chosen:
                for shard in range(self.config.agent_shards):
                    await self.start(
                        Service.AGENT, f"{Service.AGENT}-{shard}", env={"POOL_SHARD_ID": str(shard)}, wait=False
                    )
            await self.wait_ready(self.config.start_timeout_s)
        except BaseException:
            await self.down()
            raise

    async def down(self) -> None:
        """Stop all services; what they wrote into the cluster stays there."""
        await stop_in_order([list(self.services.values())])
        for name in self.services:
            self.cluster.release(name)
        self.services.clear()

    async def install(self) -> None:
        """Install what a deployment would: CRDs (established when this returns), namespace, roles and bindings."""
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
        """Start one more process of a service and, with `wait`, wait until it is ready.

        Args:
            service: which service.
            name: unique in the cluster; None is the service's name.
            env: settings of this process, laid over those of the configuration.
            wait: whether to wait for /readyz. A second operator is ready while it stands by.
        """
        name = name if name is not None else str(service)
        # Extender and agents take their work in on ports of their own; the simulator does everything on one.
        port = self._sim_port if service is Service.SIM else free_port()
        settings = self._settings(service, name, port) | dict(self.config.env.get(service, {})) | dict(env or {})
        log_path = self.cluster.layout.log(name)
        process = JoulieService(service, name, metrics_port=port, env=settings, log_path=log_path)
        # Known to the cluster before it runs: whatever happens next, somebody stops it.
        self.cluster.adopt(process)
        self.services[name] = process
        await process.start()
        if wait:
            await process.wait_ready(self.config.start_timeout_s)
        return process

    async def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until every service that runs is ready; StartError names the first that is not."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        for process in [process for process in self.services.values() if process.running]:
            await process.wait_ready(max(0.0, deadline - loop.time()))

    def _settings(self, service: Service, name: str, port: int) -> dict[str, str]:
        settings = {
            "KUBECONFIG": str(self.cluster.issue_kubeconfig(service.value)),
            "METRICS_ADDR": f"{LOOPBACK}:{port}",
            "LOG_FORMAT": "json",
            "POD_NAME": name,
            "POD_NAMESPACE": NAMESPACE,
        }
        match service:
            case Service.AGENT:
                settings |= self._agent_settings()
            case Service.EXTENDER:
                settings["EXTENDER_ADDR"] = f"{LOOPBACK}:{self.cluster.extender_port}"
            case Service.OPERATOR | Service.SIM:
                pass
        return settings

    def _agent_settings(self) -> dict[str, str]:
        telemetry, control = f"{self.sim_url}/telemetry/{{node}}", f"{self.sim_url}/control/{{node}}"
        return {
            "AGENT_MODE": "pool",
            "POOL_SHARDS": str(self.config.agent_shards),
            "TELEMETRY_CPU_SOURCE": "http",
            "TELEMETRY_CPU_HTTP_ENDPOINT": telemetry,
            "TELEMETRY_CPU_CONTROL": "http",
            "TELEMETRY_CPU_CONTROL_HTTP_ENDPOINT": control,
            "TELEMETRY_GPU_CONTROL": "http",
            "TELEMETRY_GPU_CONTROL_HTTP_ENDPOINT": control,
        }


async def _wait_established(client: KubeClient, name: str) -> None:
    while not _is_established(json.loads(await client.get(CRDS, name))):  # noqa: ASYNC110 - the event is on the server
        await asyncio.sleep(_POLL_S)


def _is_established(crd: Mapping[str, object]) -> bool:
    """Whether the API server serves a CRD; StartError where it refuses its names for good."""
    status = crd.get("status")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    for condition in conditions:
        if condition["type"] == "NamesAccepted" and condition["status"] == "False":
            raise StartError(f"CRD not accepted: {condition['message']}")
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
