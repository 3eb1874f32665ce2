"""A real node of a cluster of its own whose GPUs the agent limits by class, for the tests of a file."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.e2e.conftest import FAILED
from tests.e2e.gpu_node import GpuNode, prepare
from tests.e2e.gpu_pods import GpuLayout

from joulie_core.labels import MANAGED
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.fixtures import RealNodeStarter, Starter, create_namespace
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_sim.stack.stack import JoulieStack


@asynccontextmanager
async def gpu_machine(
    start_cluster: Starter, start_real_node: RealNodeStarter, directory: Path
) -> AsyncIterator[RealNode]:
    """Run a cluster with a node that takes its runc from a directory, which is prepared for its GPUs."""
    prepare(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(directory), prepend=os.pathsep)
        cluster = await start_cluster(ClusterConfig())
        try:
            await JoulieStack(cluster).install()
            node = await start_real_node(cluster, RealNodeConfig(labels={MANAGED: "true"}))
            yield node
            await node.down()
        finally:
            await cluster.down()


@asynccontextmanager
async def gpu_site(node: RealNode, layout: GpuLayout, directory: Path) -> AsyncIterator[GpuNode]:
    """Give a node the GPUs of a layout, each of which a standard pod holds, and run the processes of its agent."""
    async with await node.cluster.client() as client:
        namespace = await create_namespace(client)
        site = GpuNode.over(node, client, namespace, layout, directory)
        async with site.running():
            await site.processes.start()
            try:
                yield site
            finally:
                await site.processes.stop()


def logs_of_failed(request: pytest.FixtureRequest, site: GpuNode) -> Iterator[None]:
    """Print the ends of the logs after a test that fails: the body of a fixture."""
    yield
    if request.node.stash.get(FAILED, False):
        for process in (*site.processes.running.values(), *site.node.processes.values()):
            print(f"--- {process.name}\n{process.log_tail()}")
