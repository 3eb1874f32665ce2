"""pytest fixtures: a control plane for the session or for one test, and a namespace of one's own.

Enable with `pytest_plugins = ["joulie_devcluster.fixtures"]` in the top conftest. Needs pytest and pytest-asyncio,
which this package does not depend on. Where no binary is found and none can be built, the test fails and says what to
do. One thing skips: a test on a real node where the user is not root.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import pytest
import pytest_asyncio

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.resources import NAMESPACES, Resource
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.progress import terminal_reporter
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_devcluster.real_node.requirements import missing_rights

SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)

ClusterFactory = Callable[..., Awaitable[DevCluster]]
RealNodeFactory = Callable[..., Awaitable[RealNode]]
Starter = Callable[[ClusterConfig], Awaitable[DevCluster]]
RealNodeStarter = Callable[[DevCluster, RealNodeConfig], Awaitable[RealNode]]

_ACCOUNT_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.05

_numbers = itertools.count(1)
_BUILD_ERROR: Final = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the binaries before the first test: a cold build takes minutes, which no test's time limit should pay for."""
    if session.config.option.collectonly or not any(_needs_a_cluster(item) for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        try:
            with terminal_reporter() as reporter:
                lookup.ensure(_needed_binaries(session.items), reporter=reporter)
        except BinaryError as error:
            # Told by each test that needs them; the others still run.
            session.config.stash[_BUILD_ERROR] = str(error)


def _needs_a_cluster(item: pytest.Item) -> bool:
    return item.get_closest_marker("e2e") is not None or "start_cluster" in getattr(item, "fixturenames", ())


def _needed_binaries(items: Sequence[pytest.Item]) -> tuple[Binary, ...]:
    real = missing_rights() is None and any("start_real_node" in getattr(item, "fixturenames", ()) for item in items)
    return (*lookup.CONTROL_PLANE, *lookup.REAL_NODE) if real else lookup.CONTROL_PLANE


@pytest.fixture(scope="session")
def start_cluster(pytestconfig: pytest.Config) -> Starter:
    """A function that brings up a cluster. Fails where the binaries are neither here nor can be built."""
    if _BUILD_ERROR in pytestconfig.stash:
        pytest.fail(pytestconfig.stash[_BUILD_ERROR], pytrace=False)

    async def start(config: ClusterConfig) -> DevCluster:
        cluster = DevCluster(config)
        await cluster.up()
        return cluster

    return start


@pytest.fixture(scope="session")
def start_real_node() -> RealNodeStarter:
    """A function that brings up a real node in a cluster.

    Skips where the user is not root; where root lacks something, it fails and says what.
    """
    rights = missing_rights()
    if rights is not None:
        pytest.skip(rights)

    async def start(cluster: DevCluster, config: RealNodeConfig) -> RealNode:
        node = RealNode(cluster, config)
        await node.up()
        return node

    return start


# Processes outlive the event loop that started them: the cluster serves tests that each have a loop of their own.
@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def devcluster(start_cluster: Starter) -> AsyncIterator[DevCluster]:
    """One cluster for the whole session, without nodes; who changes more than a namespace of it takes an own one."""
    cluster = await start_cluster(ClusterConfig(name="shared"))
    try:
        yield cluster
    finally:
        await cluster.down()


@pytest_asyncio.fixture
async def fresh_devcluster(start_cluster: Starter) -> AsyncIterator[ClusterFactory]:
    """A function that brings up a cluster for this test, from the keyword arguments of `ClusterConfig`."""
    clusters: list[DevCluster] = []

    async def start(**config: Any) -> DevCluster:
        cluster = await start_cluster(ClusterConfig(**config))
        clusters.append(cluster)
        return cluster

    try:
        yield start
    finally:
        for cluster in clusters:
            await cluster.down()


@pytest_asyncio.fixture
async def real_node(start_real_node: RealNodeStarter) -> AsyncIterator[RealNodeFactory]:
    """A function that brings up a real node for this test, from a cluster and keyword arguments of `RealNodeConfig`."""
    nodes: list[RealNode] = []

    async def start(cluster: DevCluster, **config: Any) -> RealNode:
        node = await start_real_node(cluster, RealNodeConfig(**config))
        nodes.append(node)
        return node

    try:
        yield start
    finally:
        for node in nodes:
            await node.down()


@pytest_asyncio.fixture
async def kube_client(devcluster: DevCluster) -> AsyncIterator[KubeClient]:
    """An administrator's client of the session's cluster."""
    async with await devcluster.client(user_agent="joulie-tests") as client:
        yield client


@pytest_asyncio.fixture
async def kube_namespace(kube_client: KubeClient) -> AsyncIterator[str]:
    """The name of a new namespace of the session's cluster, ready for pods and deleted after the test."""
    name = await create_namespace(kube_client)
    yield name
    await kube_client.delete(NAMESPACES, name)


async def create_namespace(client: KubeClient, name: str | None = None) -> str:
    """Create a namespace and wait until pods can be created in it; its name."""
    name = name if name is not None else f"test-{os.getpid()}-{next(_numbers)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # Before the controller manager has made the default account, the API server refuses every pod.
    async with asyncio.timeout(_ACCOUNT_TIMEOUT_S):
        while not await _has_account(client, name):  # noqa: ASYNC110 - the event is on the server
            await asyncio.sleep(_POLL_S)
    return name


async def _has_account(client: KubeClient, namespace: str) -> bool:
    try:
        await client.get(SERVICE_ACCOUNTS, "default", namespace)
    except NotFound:
        return False
    return True
