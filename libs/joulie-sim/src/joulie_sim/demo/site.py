"""Where a demo runs: a cluster with Joulie and simulated nodes; and the development cluster as such a place."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from joulie_api.presets import PRESETS
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.progress import Reporter
from joulie_sim.demo.options import Options
from joulie_sim.demo.scenario import Scenario
from joulie_sim.demo.settings import AGENT_SHARDS, agent_env, operator_env
from joulie_sim.demo.sleeping.servers import SleepingServers
from joulie_sim.demo.sleeping.settings import NODE_MONITOR_S, out_of_band_env
from joulie_sim.demo.sleeping.wall_power import WallPower
from joulie_sim.demo.supervisor import Supervisor
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig

#: Value of the workload label of the demo's pods.
WORKLOAD: Final = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in which everything runs.

    Attributes:
        kubeconfig: an administrator's credentials.
        sim_url: base URL of the simulator.
        page: address of the live page.
        supervisor: of the processes on this machine.
        extender_url: the extender's address where it is no Service of the cluster.
        node_selector: label selector of the simulated nodes.
        pod_spec: fields that pods for these nodes need.
        servers: of the nodes, where these sleep.
    """

    kubeconfig: Path
    sim_url: str
    page: str
    supervisor: Supervisor
    extender_url: str = ""
    node_selector: str = ""
    pod_spec: Mapping[str, Any] = field(default_factory=dict)
    servers: SleepingServers | None = None


#: Makes a site of a scenario; leaving it removes what it has made.
SiteOpener = Callable[[Options, Scenario, Reporter], AbstractAsyncContextManager[Site]]


@asynccontextmanager
async def open_devcluster(options: Options, scenario: Scenario, reporter: Reporter) -> AsyncIterator[Site]:
    """Run a development cluster with Joulie.

    Raises:
        DemoError: the servers were not powered off and on in time.
        DevClusterError: the cluster or a service failed; also in groups.
    """
    now_s = asyncio.get_running_loop().time
    begun_s = now_s()
    config = ClusterConfig(name="joulie-demo", nodes=scenario.classes)
    if options.sleeps:
        config = replace(config, node_monitor_period_s=NODE_MONITOR_S)
    async with DevCluster(config, reporter=reporter) as cluster, AsyncExitStack() as opened:
        reporter.note(f"control plane and {scenario.node_count} nodes are up in {now_s() - begun_s:.0f} s")
        address = f"{LOOPBACK}:{free_port()}"
        preset = PRESETS[options.preset]
        env: dict[Service, Mapping[str, str]] = {
            Service.OPERATOR: {**preset.operator, **operator_env(options), "UI_ADDR": address},
            Service.AGENT: agent_env(),
            Service.EXTENDER: preset.extender,
            Service.SIM: {"SIM_SPEED": f"{options.time_scale.speed:g}"},
            Service.OUTOFBAND: out_of_band_env(),
        }
        configured = StackConfig(agent_shards=AGENT_SHARDS, env=env)
        stack = await opened.enter_async_context(JoulieStack(cluster, configured))
        reporter.note(f"simulator, operator, agents and extender are up in {now_s() - begun_s:.0f} s")
        servers = None
        if options.sleeps:
            servers = SleepingServers(WallPower(scenario.classes), scale=options.time_scale, clock=now_s)
            client = await opened.enter_async_context(await cluster.client(user_agent="joulie-demo"))
            directory = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="joulie-bmc-")))
            await opened.enter_async_context(servers.running(stack, client, directory))
            reporter.note(f"every server was powered off and on by its BMC once; {now_s() - begun_s:.0f} s")
        yield Site(
            kubeconfig=cluster.kubeconfig,
            sim_url=stack.sim_url,
            page=f"http://{address}/ui/",
            supervisor=Supervisor(stack.services.values(), reporter, check_cluster=cluster.check),
            extender_url=stack.extender_url,
            servers=servers,
        )
