"""Limits by class while performance pods wait: real API server and kube-scheduler, the operator, and agents over GPUs.

Each node has two GPUs, of which one is held: half of a model is free, and a pod that wants both waits. Two of the nodes
have an agent: actuator, holders and controller as processes, over a stub of the driver's library and a kubelet that
speaks gRPC. Compared are the clocks that the driver holds the GPUs to.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from services.agent.tests.class_limits.agent_processes import AgentProcesses
from services.agent.tests.class_limits.stub_gpus import HIGHEST_MHZ, RESOURCE, StubGpus
from services.agent.tests.holders.scripted_kubelet import Kubelet, container
from services.agent.tests.holders.scripted_kubelet import pod as listed_pod
from tests.e2e.conftest import FAILED
from tests.e2e.plugin import Plugin
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually, holds

from joulie_core.labels import HW_GPU_MODEL, MAX_SLOWDOWN
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL, CpuClass, GpuClass, NodeClass
from joulie_devcluster.fixtures import Starter, create_namespace
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig

pytestmark = pytest.mark.e2e

H100, A100 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"
#: 1.25 times as long: the clock that the GPUs hold, over that.
LIMIT_MHZ = round(HIGHEST_MHZ / 1.25)
LIFTED = {"lifted": True, "reason": "GpusInDemand"}
HOLD_S = 10
_OPERATOR = {"STATIC_HP_FRAC": "1.0", "LIFT_CLASS_LIMITS": "true", "CLASS_LIMITS_LIFTED_FOR": f"{HOLD_S}s"}


@dataclass(frozen=True, slots=True)
class Site:
    """The operator of a cluster, and a view of the cluster."""

    stack: JoulieStack
    view: ClusterView


def _class(name: str, count: int, model: str) -> NodeClass:
    cpu = CpuClass(model="Intel-Xeon-Platinum-8480", cores=112)
    return NodeClass(name=name, count=count, cpu=cpu, gpu=GpuClass(model=model, count=2))


@pytest_asyncio.fixture
async def site(request: pytest.FixtureRequest, start_cluster: Starter) -> AsyncIterator[Site]:
    """Two nodes with H100 and one with A100 under an operator."""
    cluster = await start_cluster(ClusterConfig(nodes=(_class("h100", 2, H100), _class("a100", 1, A100))))
    stack = JoulieStack(cluster, StackConfig(services=(Service.OPERATOR,), env={Service.OPERATOR: _OPERATOR}))
    try:
        async with await cluster.client(user_agent="joulie-tests") as client:
            namespace = await create_namespace(client)
            await stack.up()
            yield Site(stack, ClusterView(client, sim_url="", namespace=namespace))
            cluster.check()
    finally:
        if request.node.stash.get(FAILED, False):
            print(stack.operator.log_tail())
        await stack.down()
        await cluster.down()


class GpuMachine:
    """The machine of a node: its GPUs, its kubelet and the processes of its agent."""

    def __init__(self, directory: Path, site: Site, node: str, model: str) -> None:
        directory.mkdir()
        self.node = node
        self._site = site
        self._kubelet, self._socket = Kubelet(), directory / "kubelet.sock"
        self._gpus = StubGpus(directory, 2, model)
        kubeconfig = site.stack.cluster.kubeconfig
        self.processes = AgentProcesses(directory, self._gpus, node=node, kubeconfig=kubeconfig, kubelet=self._socket)

    @property
    def limit_mhz(self) -> int:
        """Highest clock that the driver holds the held GPU to; 0 for none."""
        return self._gpus.locks_mhz[0]

    async def holds_limit(self) -> None:
        assert self.limit_mhz == LIMIT_MHZ, self.limit_mhz

    async def has_no_limit(self) -> None:
        assert self.limit_mhz == 0, self.limit_mhz

    def admit(self, pod: str) -> None:
        """Let the kubelet list a GPU for a pod."""
        devices = [(RESOURCE, ["GPU-0"])]
        namespace = self._site.view.namespace
        self._kubelet.answer = listed_pod(pod, container("main", devices=devices), namespace=namespace)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._kubelet.running(self._socket):
            await self.processes.start()
            try:
                yield
            finally:
                await self.processes.stop()


async def _hold(site: Site, node: str) -> None:
    """Let a standard pod that may be slowed hold a GPU of a node."""
    selector, consent = {HOSTNAME_LABEL: node}, {MAX_SLOWDOWN: "25%"}
    await site.view.create_pods(1, f"standard-{node}", gpu=1, node_selector=selector, annotations=consent)


async def _lifted(site: Site) -> set[str]:
    """Return the nodes whose targets lift limits by class."""
    targets = {node: await site.view.target(node) for node in ("h100-0", "h100-1", "a100-0")}
    return {node for node, target in targets.items() if target.get("classLimits") == LIFTED}


async def _are_lifted(site: Site, nodes: set[str]) -> None:
    found = await _lifted(site)
    assert found == nodes, found


@pytest.mark.timeout(300)
async def test_limits_of_a_model_are_lifted_while_a_performance_pod_waits_for_it(site: Site, tmp_path: Path) -> None:
    machines = [
        GpuMachine(tmp_path / "h100-0", site, "h100-0", "NVIDIA H100 80GB HBM3"),
        GpuMachine(tmp_path / "a100-0", site, "a100-0", "NVIDIA A100-SXM4-80GB"),
    ]
    h100, a100 = machines
    for node in ("h100-0", "h100-1", "a100-0"):
        await _hold(site, node)
    held = [f"standard-{node}-0" for node in ("h100-0", "h100-1", "a100-0")]
    await eventually(lambda: site.view.placed(held), within_s=60)
    async with contextlib.AsyncExitStack() as stack:
        for machine in machines:
            machine.admit(f"standard-{machine.node}-0")
            await stack.enter_async_context(machine.running())
        for machine in machines:
            await eventually(machine.holds_limit, within_s=90)
        assert await _lifted(site) == set()

        await site.view.create_pods(1, "serve", gpu=2, workload_class="performance", node_selector={HW_GPU_MODEL: H100})
        published_s = await eventually(lambda: _are_lifted(site, {"h100-0", "h100-1"}), within_s=30)
        lifted_s = await eventually(h100.has_no_limit, within_s=30)
        print(f"published {published_s:.1f} s after the pod was created, lifted {lifted_s:.1f} s later")
        assert a100.limit_mhz == LIMIT_MHZ
        assert (await site.view.placements(["serve-0"]))["serve-0"] is None
        await eventually(lambda: _is_shown(site, "h100-0"), within_s=30)
        await _outlasts_the_operator(site, h100, a100)

        await site.view.delete_pods(["standard-h100-1-0"])
        where = await eventually_placed(site, "serve-0")
        assert where == "h100-1"
        await eventually(lambda: _are_lifted(site, set()), within_s=HOLD_S + 30)
        await eventually(h100.holds_limit, within_s=30)
        assert a100.limit_mhz == LIMIT_MHZ


async def _is_shown(site: Site, node: str) -> None:
    assert "GpusInDemand" in await Plugin(site.stack.cluster.kubeconfig).run("devices", node)


async def _outlasts_the_operator(site: Site, h100: GpuMachine, a100: GpuMachine) -> None:
    """Limits stay as they are while the operator is away, and when the next one has begun."""
    await site.stack.operator.stop()
    await holds(h100.has_no_limit, for_s=2)
    await site.stack.operator.start()
    await site.stack.operator.wait_ready(30)
    await holds(h100.has_no_limit, for_s=2)
    assert a100.limit_mhz == LIMIT_MHZ
    await _are_lifted(site, {"h100-0", "h100-1"})


async def eventually_placed(site: Site, pod: str) -> str:
    """Return the node of a pod once it has one."""
    await eventually(lambda: site.view.placed([pod]), within_s=60)
    return (await site.view.placed([pod]))[pod]
