"""A cluster of kind as the place of a demo: the chart in it, and simulated nodes beside its real ones.

Operator, extender and the agents of real nodes are the chart's pods. KWOK, the simulator and the agents of simulated
nodes are processes of this machine with the administrator's kubeconfig, which the demo has anyway: they need no image,
and the cluster need not reach this machine. Leaving the site removes pods, nodes and processes; the chart stays.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from joulie_api.client import KubeClient
from joulie_core.labels import MANAGED
from joulie_devcluster import kind
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.kind import CLUSTER
from joulie_devcluster.control_plane import kwok
from joulie_devcluster.control_plane.node_pool import create_nodes, wait_nodes_schedulable
from joulie_devcluster.control_plane.nodes import node_manifests
from joulie_devcluster.errors import StartError
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess, stop_in_order
from joulie_devcluster.host.progress import Reporter
from joulie_devcluster.host.readiness import wait_until_ready
from joulie_sim.demo.kind_nodes import NODE_SELECTOR, POD_SPEC, beside_real_nodes, remove_simulated
from joulie_sim.demo.kind_release import OPERATOR, SERVICES, UI_PORT, install_release, release_values
from joulie_sim.demo.options import Options
from joulie_sim.demo.scenario import Scenario
from joulie_sim.demo.settings import AGENT_SHARDS, agent_env
from joulie_sim.demo.site import Site
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.stack.service import JoulieService, Service
from joulie_sim.stack.stack import NAMESPACE, pool_agent_env

#: Less than the grace period of nodes of a controller manager with defaults, 40 to 50 s by release.
_LEASE_S: Final = 40
_START_S: Final = 60.0
_SECONDS_PER_NODE: Final = 0.2


@dataclass(frozen=True, slots=True)
class KindTools:
    """A cluster of kind with the images of the services, and the programs that a demo needs."""

    kubeconfig: Path
    binaries: Mapping[Binary, Path]

    @classmethod
    def prepare(cls, reporter: Reporter) -> "KindTools":
        """Find the cluster, build what is missing, and load the images. Blocks, the first time for minutes.

        Raises:
            DevClusterError: no cluster is running, or a build failed.
        """
        cluster = kind.find(reporter)
        assert cluster.kubeconfig is not None
        binaries = lookup.ensure((Binary.KWOK, Binary.HELM, Binary.KUBECTL), reporter=reporter)
        cluster.load_images(SERVICES, reporter)
        return cls(cluster.kubeconfig, binaries)

    @asynccontextmanager
    async def open(self, options: Options, scenario: Scenario, reporter: Reporter) -> AsyncIterator[Site]:
        """Install or upgrade the chart, and add the nodes of a scenario to the cluster.

        Raises:
            DemoError: Helm failed.
            DevClusterError: a process or a node is not ready in time.
            joulie_api.errors.KubeError: the API server cannot be reached or refuses; also in groups.
        """
        now_s = asyncio.get_running_loop().time
        begun_s = now_s()
        async with AsyncExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="joulie-demo-")))
            client = await KubeClient.connect(kubeconfig=str(self.kubeconfig), user_agent="joulie-demo")
            await stack.enter_async_context(client)
            # What a killed demo has left: its simulator is gone.
            await remove_simulated(client)
            reporter.begin(f"chart, release {CLUSTER} in {NAMESPACE}")
            await install_release(self.binaries[Binary.HELM], self.kubeconfig, client, release_values(options))
            reporter.finish()
            host = _Host(self, directory)
            stack.push_async_callback(stop_in_order, [host.processes])
            stack.push_async_callback(remove_simulated, client)
            await host.start_machines()
            manifests = node_manifests(beside_real_nodes(scenario.classes))
            await create_nodes(client, manifests)
            names = [each["metadata"]["name"] for each in manifests]
            await wait_nodes_schedulable(client, names, timeout_s=_START_S + _SECONDS_PER_NODE * len(names))
            await host.start_agents()
            page = await host.forward_page()
            reporter.note(f"{len(names)} simulated nodes have joined; everything is up in {now_s() - begun_s:.0f} s")
            yield Site(
                kubeconfig=self.kubeconfig,
                sim_url=host.sim_url,
                page=page,
                supervisor=Supervisor(host.processes, reporter),
                node_selector=NODE_SELECTOR,
                pod_spec=POD_SPEC,
            )


class _Host:
    """The processes of a demo on this machine; `processes` has those that were started."""

    def __init__(self, tools: KindTools, directory: Path) -> None:
        self.processes: list[ServiceProcess] = []
        self._tools = tools
        self._directory = directory
        self._sim_port = free_port()

    @property
    def sim_url(self) -> str:
        """Base URL of the simulator."""
        return f"http://{LOOPBACK}:{self._sim_port}"

    async def start_machines(self) -> None:
        """Start KWOK and the simulator, and wait until they are ready."""
        configuration, port = self._directory / "kwok.yaml", free_port()
        kwok.write_configuration(configuration, lease_s=_LEASE_S)
        command = [str(self._tools.binaries[Binary.KWOK])]
        command += kwok.arguments(configuration, self._tools.kubeconfig, port)
        process = ServiceProcess("kwok", command, log_path=self._directory / "kwok.log")
        await self._start(process)
        simulator = await self._start_service(
            Service.SIM, str(Service.SIM), self._sim_port, {"SIM_NODE_SELECTOR": NODE_SELECTOR}
        )
        await wait_until_ready(process, f"http://{LOOPBACK}:{port}/healthz", timeout_s=_START_S)
        await simulator.wait_ready(_START_S)

    async def start_agents(self) -> None:
        """Start the agents of the simulated nodes, and wait until they are ready."""
        selector = f"{MANAGED}=true,{NODE_SELECTOR}"
        env = pool_agent_env(self.sim_url, AGENT_SHARDS) | agent_env() | {"POOL_NODE_SELECTOR": selector}
        agents = [
            await self._start_service(
                Service.AGENT, f"{Service.AGENT}-{shard}", free_port(), {**env, "POOL_SHARD_ID": str(shard)}
            )
            for shard in range(AGENT_SHARDS)
        ]
        for agent in agents:
            await agent.wait_ready(_START_S)

    async def forward_page(self) -> str:
        """Forward a port to the operator's live page, and return its address."""
        port = free_port()
        command = [str(self._tools.binaries[Binary.KUBECTL]), f"--kubeconfig={self._tools.kubeconfig}"]
        command += [f"--namespace={NAMESPACE}", "port-forward", f"--address={LOOPBACK}", OPERATOR, f"{port}:{UI_PORT}"]
        process = ServiceProcess("live page", command, log_path=self._directory / "page.log")
        await self._start(process)
        try:
            await process.wait_for_log("^Forwarding from", _START_S)
        except TimeoutError as error:
            raise StartError(str(error)) from error
        return f"http://{LOOPBACK}:{port}/ui/"

    async def _start_service(self, service: Service, name: str, port: int, env: Mapping[str, str]) -> JoulieService:
        settings = {
            "KUBECONFIG": str(self._tools.kubeconfig),
            "METRICS_ADDR": f"{LOOPBACK}:{port}",
            "LOG_FORMAT": "json",
            "POD_NAME": name,
            "POD_NAMESPACE": NAMESPACE,
            **env,
        }
        log_path = self._directory / f"{name}.log"
        process = JoulieService(service, name, metrics_port=port, env=settings, log_path=log_path)
        await self._start(process)
        return process

    async def _start(self, process: ServiceProcess) -> None:
        # Added before it is started, so that it is stopped whatever happens.
        self.processes.append(process)
        await process.start()
