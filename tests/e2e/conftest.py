"""A whole system for each test, or for those of a module: control plane, nodes, simulator, and Joulie's services."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from services.ven.tests.specification import Specification, find
from services.ven.tests.vtn import Vtn
from tests.e2e.shared import SharedStack, delete_all_pods
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
    options = _settings(request.node.get_closest_marker("system"))
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
            _show_logs(stack)
        await stack.down()
        await cluster.down()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_stack(start_cluster: Starter) -> AsyncIterator[SharedStack]:
    """The cluster of the tests of a module that use `shared_system`; the first of them starts the services."""
    cluster = await start_cluster(ClusterConfig(nodes=read_node_classes(_NODES)))
    shared = SharedStack(JoulieStack(cluster))
    try:
        yield shared
    finally:
        await shared.stack.down()
        await cluster.down()


@pytest_asyncio.fixture
async def shared_system(request: pytest.FixtureRequest, shared_stack: SharedStack) -> AsyncIterator[System]:
    """Twelve mixed nodes under Joulie, in a cluster that the tests of a module share, one after another.

    Services run with the settings of the marker `system`, as for the fixture `system`, and with no other; those whose
    settings differ from the last test's are restarted. No pod of an earlier test is left. A test must not change nodes,
    leave objects outside its namespace or start more services, and must not need a past without pods.
    """
    settings = _settings(request.node.get_closest_marker("system"))
    stack = shared_stack.stack
    try:
        async with await stack.cluster.client(user_agent="joulie-tests") as client:
            namespace = await create_namespace(client)
            await shared_stack.run_with({Service(f"joulie-{name}"): env for name, env in settings.items()})
            try:
                yield System(stack, ClusterView(client, sim_url=stack.sim_url, namespace=namespace))
            finally:
                await delete_all_pods(client, namespace)
            stack.cluster.check()
    finally:
        if request.node.stash.get(FAILED, False):
            _show_logs(stack)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Let the fixture know whether the test failed, so that it can show the services' logs."""
    report = yield
    if call.when == "call":
        item.stash[FAILED] = report.failed
    return report


def _settings(marker: pytest.Mark | None) -> dict[str, Any]:
    return dict(marker.kwargs) if marker else {}


def _show_logs(stack: JoulieStack) -> None:
    for name, process in stack.services.items():
        print(f"--- {name}\n{process.log_tail()}")
