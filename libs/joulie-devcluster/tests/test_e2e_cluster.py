"""The real control plane: start, several clusters, stop and failures."""

import asyncio
import json
import time

import pytest
from aiohttp import web

from joulie_api.errors import Forbidden
from joulie_api.resources import NODES, PODS
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane import cluster as cluster_module
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.node_pool import is_schedulable
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.control_plane.state import start_ticks
from joulie_devcluster.fixtures import create_namespace
from joulie_devcluster.host.ports import free_port
from joulie_testing.api.builders import make_pod

pytestmark = pytest.mark.e2e


def all_exited(pids) -> bool:
    return all(start_ticks(pid) is None for pid in pids)


async def wait_bound(client, namespace, name, timeout_s=30.0) -> str:
    async with asyncio.timeout(timeout_s):
        while True:
            pod = json.loads(await client.get(PODS, name, namespace))
            if pod["status"].get("phase") == "Running":
                return pod["spec"]["nodeName"]
            await asyncio.sleep(0.05)


async def test_a_control_plane_is_ready_within_15_seconds_if_the_binaries_are_built(fresh_devcluster):
    await asyncio.to_thread(lookup.ensure)
    begun = time.monotonic()
    cluster = await fresh_devcluster()
    assert time.monotonic() - begun <= 15
    cluster.check()
    assert set(cluster.processes) == set(lookup.CONTROL_PLANE)


async def test_two_clusters_run_at_the_same_time_and_down_leaves_no_process_and_no_file(tmp_path):
    first, second = (DevCluster(ClusterConfig(name=name, directory=tmp_path / name)) for name in ("one", "two"))
    try:
        await asyncio.gather(first.up(), second.up())
        assert first.server != second.server
        pids = [process.pid for cluster in (first, second) for process in cluster.processes.values()]
        for cluster in (first, second):
            async with await cluster.client() as client:
                assert await client.list(NODES) == []
        await first.down()
        async with await second.client() as client:
            assert await client.list(NODES) == []
    finally:
        await first.down()
        await second.down()
    assert all_exited(pids)
    assert list(tmp_path.iterdir()) == []


async def test_two_hundred_nodes_of_the_default_mix_become_ready(fresh_devcluster):
    cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 200))
    async with await cluster.client() as client:
        nodes = await client.list(NODES)
    assert len(nodes) == 200
    assert all(is_schedulable(node) for node in nodes)
    assert sum("nvidia.com/gpu" in node["status"]["allocatable"] for node in nodes) == 60
    assert sum("amd.com/gpu" in node["status"]["allocatable"] for node in nodes) == 10


async def test_the_scheduler_passes_the_names_of_all_feasible_nodes_to_the_extender(fresh_devcluster):
    asked = []

    async def answer(request):
        body = await request.json()
        asked.append((request.path, body))
        if request.path == "/filter":
            return web.json_response({"NodeNames": ["epyc-9654-7"]})
        return web.json_response([{"Host": name, "Score": 0} for name in body["NodeNames"]])

    cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 120))
    application = web.Application()
    application.router.add_post("/{verb}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", cluster.extender_port).start()
    try:
        async with await cluster.client() as client:
            namespace = await create_namespace(client)
            await client.create(PODS, make_pod("steered", namespace, cpu=1), namespace)
            assert await wait_bound(client, namespace, "steered") == "epyc-9654-7"
    finally:
        await runner.cleanup()
    path, body = asked[0]
    assert path == "/filter"
    assert body["Nodes"] is None
    assert len(body["NodeNames"]) == 120


async def test_pods_run_while_no_extender_listens(fresh_devcluster):
    cluster = await fresh_devcluster(nodes=scale(default_node_classes(), 3))
    async with await cluster.client() as client:
        namespace = await create_namespace(client)
        await client.create(PODS, make_pod("lonely", namespace, cpu=1), namespace)
        assert await wait_bound(client, namespace, "lonely", timeout_s=10)


async def test_a_start_is_retried_with_other_ports_if_a_port_is_taken(monkeypatch, tmp_path):
    taken = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", free_port())
    port = taken.sockets[0].getsockname()[1]
    ports = iter([free_port(), port])
    monkeypatch.setattr(cluster_module, "free_port", lambda: next(ports, None) or free_port())
    async with taken, DevCluster(ClusterConfig(directory=tmp_path / "c", extender=False)) as cluster:
        assert str(port) not in cluster.server
        cluster.check()


async def test_a_user_without_a_role_has_no_permissions(devcluster):
    from joulie_api.client import KubeClient

    kubeconfig = devcluster.issue_kubeconfig("unprivileged")
    async with await KubeClient.connect(kubeconfig=str(kubeconfig), user_agent="test") as client:
        with pytest.raises(Forbidden, match="unprivileged"):
            await client.list(NODES)


async def test_pods_can_be_created_in_a_new_namespace(kube_client, kube_namespace):
    await kube_client.create(PODS, make_pod("pending", kube_namespace, cpu=1), kube_namespace)
    assert len(await kube_client.list(PODS, kube_namespace)) == 1


async def test_a_failed_start_leaves_no_process_and_no_file(tmp_path, monkeypatch):
    broken = tmp_path / "bin"
    broken.mkdir()
    for binary in lookup.CONTROL_PLANE:
        (broken / binary).symlink_to((await asyncio.to_thread(lookup.ensure, (binary,)))[binary])
    (broken / Binary.KWOK).unlink()
    (broken / Binary.KWOK).write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo kwok version v0.7.0\necho out of order\nexit 1\n'
    )
    (broken / Binary.KWOK).chmod(0o755)
    cluster = DevCluster(ClusterConfig(directory=tmp_path / "cluster", binaries=broken))
    started = []
    start_process = DevCluster._start_process

    async def spy(self, binary):
        await start_process(self, binary)
        started.append(self.processes[binary].pid)

    monkeypatch.setattr(DevCluster, "_start_process", spy)
    with pytest.raises(Exception, match=r"kwok exited with status 1.*\n.*out of order"):
        await cluster.up()
    assert len(started) == 5
    assert all_exited(started)
    assert not (tmp_path / "cluster").exists()
