"""A whole system for each test: control plane, nodes, simulator, operator, two agents and the extender."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from services.ven.tests.specification import Specification, find
from services.ven.tests.vtn import Vtn
from tests.e2e.system import System
from tests.e2e.view import ClusterView

from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import read_node_classes
from joulie_devcluster.fixtures import Starter, create_namespace
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig

FAILED = pytest.StashKey[bool]()

_NODES = Path(__file__).parent / "nodes.yaml"


@pytest_asyncio.fixture
async def bare(devcluster: DevCluster) -> AsyncIterator[ClusterView]:
    """The session's cluster with the CRDs installed and no service."""
    await JoulieStack(devcluster).install()
    async with await devcluster.client() as client:
        yield ClusterView(client, sim_url="", namespace="default")


@pytest_asyncio.fixture
async def vtn() -> AsyncIterator[Vtn]:
    """A VTN; what violates the specification, where that is here, fails the test."""
    path = find()
    async with Vtn(None if path is None else Specification(path)) as found:
        yield found
    assert found.violations == []


@pytest_asyncio.fixture
async def system(request: pytest.FixtureRequest, start_cluster: Starter) -> AsyncIterator[System]:
    """Twelve mixed nodes under Joulie, in a cluster of the test's own.

    The marker `system(operator={...}, agent={...}, extender={...}, sim={...})` sets the services' environment, its
    argument `nodes` other classes of nodes, `etcd_members` the members of etcd.
    """
    marker = request.node.get_closest_marker("system")
    options = dict(marker.kwargs) if marker else {}
    nodes = options.pop("nodes", None) or read_node_classes(_NODES)
    etcd_members = options.pop("etcd_members", 1)
    env = {Service(f"joulie-{name}"): values for name, values in options.items()}
    cluster = await start_cluster(ClusterConfig(nodes=nodes, etcd_members=etcd_members))
    stack = JoulieStack(cluster, StackConfig(env=env))
    try:
        async with await cluster.client(user_agent="joulie-tests") as client:
            namespace = await create_namespace(client)
            await stack.up()
            yield System(stack, ClusterView(client, sim_url=stack.sim_url, namespace=namespace))
            cluster.check()
    finally:
        if request.node.stash.get(FAILED, False):
            for name, process in stack.services.items():
                print(f"--- {name}\n{process.log_tail()}")
        await stack.down()
        await cluster.down()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Let the fixture know whether the test failed, so that it can show the services' logs."""
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report
