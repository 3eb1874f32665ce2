"""Operator and extender from their images, against the in-process API server on the host's network."""

import aiohttp
import pytest
from tests.images.conftest import until_ready

from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_testing.api import make_node, make_pod

pytestmark = pytest.mark.docker


def kubeconfig(fake_api, tmp_path):
    """The volume and the setting of a kubeconfig."""
    return f"{fake_api.kubeconfig(tmp_path)}:/etc/joulie/kubeconfig:ro", {"KUBECONFIG": "/etc/joulie/kubeconfig"}


async def test_the_extender_gets_ready_and_scores_nodes(start, fake_api, tmp_path):
    fake_api.put_all([make_node("n1"), make_node("n2")])
    volume, env = kubeconfig(fake_api, tmp_path)
    port, metrics_port = free_port(), free_port()
    env |= {"EXTENDER_ADDR": f"{LOOPBACK}:{port}", "METRICS_ADDR": f"{LOOPBACK}:{metrics_port}"}
    extender = await start("extender", env=env, volumes=(volume,), network_mode="host")
    await until_ready(f"http://{LOOPBACK}:{metrics_port}", extender)
    async with aiohttp.ClientSession(f"http://{LOOPBACK}:{port}") as http:
        async with http.get("/healthz") as answer:
            assert answer.status == 200
        body = {"Pod": make_pod(cpu=2), "Nodes": None, "NodeNames": ["n1", "n2"]}
        async with http.post("/prioritize", json=body) as answer:
            assert answer.status == 200
            assert [each["Host"] for each in await answer.json()] == ["n1", "n2"]
    await extender.signal("SIGTERM")
    assert await extender.end() == 0


async def test_the_operator_gets_ready_and_publishes_a_target(start, fake_api, tmp_path):
    fake_api.put(make_node("n1", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256))
    volume, env = kubeconfig(fake_api, tmp_path)
    port = free_port()
    env |= {"METRICS_ADDR": f"{LOOPBACK}:{port}", "POD_NAME": "operator-1"}
    operator = await start("operator", env=env, volumes=(volume,), network_mode="host")
    await until_ready(f"http://{LOOPBACK}:{port}", operator)
    await fake_api.wait_for(lambda: fake_api.get("NodePowerProfile", "n1"), timeout_s=30)
    await operator.signal("SIGTERM")
    assert await operator.end() == 0
