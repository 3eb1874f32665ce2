"""pytest plugin: fixtures for clusters, real nodes, namespaces and reference runtimes.

Enable it with `pytest_plugins = ["joulie_devcluster.fixtures"]` in the top-level conftest. Requires pytest and
pytest-asyncio, which are not dependencies of this package. If a binary is neither found nor can be built, tests that
need it fail with a message that states what to do. Tests on a real node are skipped if the user is not root.
"""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from joulie_api.client import KubeClient
from joulie_api.errors import NotFound
from joulie_api.resources import NAMESPACES, Resource
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.kind import KindCluster
from joulie_devcluster.control_plane.audit import UserRequest, read_requests
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.components import AUDIT_LOG
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.progress import SilentReporter, terminal_reporter
from joulie_devcluster.kind_node import background
from joulie_devcluster.kind_node.engine import kind_obstacle
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_devcluster.real_node.requirements import missing_privileges

SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)

ClusterFactory = Callable[..., Awaitable[DevCluster]]
RealNodeFactory = Callable[..., Awaitable[RealNode]]
Starter = Callable[[ClusterConfig], Awaitable[DevCluster]]
RealNodeStarter = Callable[[DevCluster, RealNodeConfig], Awaitable[RealNode]]
KindStarter = Callable[[Path], AbstractContextManager[KindCluster]]

#: Users and groups whose requests every cluster of the session logs, beside those of its configuration.
AUDITED: Final = pytest.StashKey[tuple[tuple[str, ...], tuple[str, ...]]]()
#: The different requests of these users, of all clusters that have ended.
REQUESTS: Final = pytest.StashKey[set[UserRequest]]()

_ACCOUNT_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.05

_numbers = itertools.count(1)
_BUILD_ERROR: Final = pytest.StashKey[str]()
_NRI_BUILD_ERROR: Final = pytest.StashKey[str]()
_KIND_BUILD_ERROR: Final = pytest.StashKey[str]()
_KIND_NODE_BUILD_ERROR: Final = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the binaries before the first test: a first build takes minutes, longer than the timeout of a test."""
    if session.config.option.collectonly:
        return
    wanted = {
        _BUILD_ERROR: _cluster_binaries(session),
        _NRI_BUILD_ERROR: _binaries_of(session, "nri_runtime_binary", lookup.NRI_RUNTIMES),
        _KIND_BUILD_ERROR: _binaries_of(session, "kind_binaries", lookup.KIND_FILES),
        _KIND_NODE_BUILD_ERROR: _kind_node_binaries(session),
    }
    wanted = {key: binaries for key, binaries in wanted.items() if binaries}
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
        if len(wanted) > 1:
            # All at once, since binaries of one module share packages; what fails is found out below.
            with contextlib.suppress(BinaryError):
                _get([binary for binaries in wanted.values() for binary in binaries])
        for key, binaries in wanted.items():
            try:
                _get(binaries)
            except BinaryError as error:
                # Reported by each test that needs the binaries; other tests still run.
                session.config.stash[key] = str(error)


def _get(binaries: Sequence[Binary]) -> None:
    with terminal_reporter() as reporter:
        lookup.ensure(binaries, reporter=reporter)


def _uses(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


def _cluster_binaries(session: pytest.Session) -> tuple[Binary, ...]:
    items = session.items
    if not any(item.get_closest_marker("e2e") is not None or _uses(item, "start_cluster") for item in items):
        return ()
    real = missing_privileges() is None and any(_uses(item, "start_real_node") for item in items)
    return (*lookup.CONTROL_PLANE, Binary.KUBECTL, *(lookup.REAL_NODE if real else ()))


def _kind_node_binaries(session: pytest.Session) -> tuple[Binary, ...]:
    return _binaries_of(session, "start_kind_cluster", lookup.KIND_NODE) if kind_obstacle() is None else ()


def _binaries_of(session: pytest.Session, fixture: str, binaries: tuple[Binary, ...]) -> tuple[Binary, ...]:
    return binaries if any(_uses(item, fixture) for item in session.items) else ()


@pytest.fixture(params=lookup.NRI_RUNTIMES)
def nri_runtime_binary(request: pytest.FixtureRequest) -> Path:
    """Return the reference runtime, for a test that is run with each version. Fail it if they cannot be built."""
    if _NRI_BUILD_ERROR in request.config.stash:
        pytest.fail(request.config.stash[_NRI_BUILD_ERROR], pytrace=False)
    binary: Binary = request.param
    return lookup.ensure((binary,))[binary]


@pytest.fixture(scope="session")
def kind_binaries(pytestconfig: pytest.Config) -> Mapping[Binary, Path]:
    """Return kind, kubeadm, kube-scheduler and containerd. Fail the test if they cannot be built."""
    if _KIND_BUILD_ERROR in pytestconfig.stash:
        pytest.fail(pytestconfig.stash[_KIND_BUILD_ERROR], pytrace=False)
    return lookup.ensure(lookup.KIND_FILES)


@pytest.fixture(scope="session")
def start_cluster(pytestconfig: pytest.Config) -> Starter:
    """Return a function that starts a cluster. Fail the test if the binaries cannot be built."""
    if _BUILD_ERROR in pytestconfig.stash:
        pytest.fail(pytestconfig.stash[_BUILD_ERROR], pytrace=False)

    users, groups = pytestconfig.stash.get(AUDITED, ((), ()))
    requests = pytestconfig.stash.setdefault(REQUESTS, set())

    async def start(config: ClusterConfig) -> DevCluster:
        cluster = DevCluster(
            replace(
                config,
                audited_users=(*config.audited_users, *users),
                audited_groups=(*config.audited_groups, *groups),
            )
        )
        await cluster.up()
        if users or groups:
            log = cluster.layout.log(AUDIT_LOG)
            cluster.add_cleanup(lambda: requests.update(read_requests(log)))
        return cluster

    return start


@pytest.fixture(scope="session")
def start_real_node() -> RealNodeStarter:
    """Return a function that starts a real node in a cluster.

    Skip the test if the user is not root. The function fails if another requirement is missing.
    """
    privileges = missing_privileges()
    if privileges is not None:
        pytest.skip(privileges)

    async def start(cluster: DevCluster, config: RealNodeConfig) -> RealNode:
        node = RealNode(cluster, config)
        await node.up()
        return node

    return start


@pytest.fixture(scope="session")
def start_kind_cluster(pytestconfig: pytest.Config) -> KindStarter:
    """Return a function that runs a cluster of kind, with its files in a new directory, in a `with` statement.

    Skip the test if the user is not root. The function fails if another requirement is missing, or while the cluster of
    `just kind-up` has the engine. Its first call for a version of this package takes minutes.
    """
    obstacle = kind_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    if _KIND_NODE_BUILD_ERROR in pytestconfig.stash:
        pytest.fail(pytestconfig.stash[_KIND_NODE_BUILD_ERROR], pytrace=False)

    @contextlib.contextmanager
    def start(directory: Path) -> Iterator[KindCluster]:
        if background.running(background.home()) is not None:
            pytest.fail("a kind cluster is running: delete it with `just kind-down`", pytrace=False)
        try:
            yield background.start(directory, lookup.selected_kubernetes(), SilentReporter(), detach=False)
        finally:
            background.stop(directory)

    return start


# Processes are not bound to the event loop that started them, so tests with different loops can share the cluster.
@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def devcluster(start_cluster: Starter) -> AsyncIterator[DevCluster]:
    """Yield the cluster of the session, without nodes. Tests must not change more than a namespace of it."""
    cluster = await start_cluster(ClusterConfig(name="shared"))
    try:
        yield cluster
    finally:
        await cluster.down()


@pytest_asyncio.fixture
async def fresh_devcluster(start_cluster: Starter) -> AsyncIterator[ClusterFactory]:
    """Yield a function that starts a cluster for this test; its keyword arguments are those of `ClusterConfig`."""
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
    """Yield a function that starts a real node for this test.

    Its arguments are a cluster and the keyword arguments of `RealNodeConfig`.
    """
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
    """Yield an administrator's client of the session's cluster."""
    async with await devcluster.client(user_agent="joulie-tests") as client:
        yield client


@pytest_asyncio.fixture
async def kube_namespace(kube_client: KubeClient) -> AsyncIterator[str]:
    """Yield the name of a new namespace of the session's cluster in which pods can be created; delete it afterwards."""
    name = await create_namespace(kube_client)
    yield name
    await kube_client.delete(NAMESPACES, name)


async def create_namespace(client: KubeClient, name: str | None = None) -> str:
    """Create a namespace, wait until pods can be created in it, and return its name."""
    name = name if name is not None else f"test-{os.getpid()}-{next(_numbers)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # The API server rejects pods until the controller manager has created the default service account.
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
