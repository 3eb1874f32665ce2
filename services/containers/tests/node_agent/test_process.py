"""The whole process of the node agent beside a resource manager."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession
from services.containers.tests.node_agent.documents import make_policy
from services.containers.tests.node_agent.scripted_manager import ScriptedManager

from joulie_api.settings import SettingsError, read_settings
from joulie_containers.node_agent import process
from joulie_containers.node_agent.settings import NodeAgentSettings
from joulie_sim.stack.permissions import denied
from joulie_testing.api import make_node, make_node_power_profile, make_pod

GROUP = "joulie.io/container-policy-group"


@pytest.fixture
async def manager(tmp_path):
    scripted = ScriptedManager(tmp_path / "manager.sock")
    await scripted.start()
    yield scripted
    await scripted.stop()


@pytest.fixture
def running(fake_api, manager, tmp_path):
    """Run the process for node n1; yields the address of its endpoints."""

    @asynccontextmanager
    async def run(**env):
        settings = read_settings(
            NodeAgentSettings,
            {
                "KUBECONFIG": str(fake_api.kubeconfig(tmp_path)),
                "METRICS_ADDR": "127.0.0.1:0",
                "NODE_NAME": "n1",
                "RESOURCE_MANAGER_SOCKET": str(manager.socket),
                "NODE_AGENT_SOCKET": str(tmp_path / "agent.sock"),
                **env,
            },
        )
        port = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(process.run(settings, on_start=lambda app: port.set_result(app.metrics_port)))
        await asyncio.wait({task, port}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        try:
            yield f"http://127.0.0.1:{port.result()}"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


async def test_configuration_and_profile_of_the_node_reach_the_resource_manager_and_follow_changes(
    fake_api, manager, running
):
    fake_api.put_all([make_node("n1"), make_node_power_profile("n1", "eco")])
    fake_api.put_all([make_policy("default"), make_policy("group.a")])
    async with running() as url:
        await manager.until(lambda: manager.configs and manager.profiles)
        assert manager.profiles == ["eco"]
        assert '"name":"default"' in manager.configs[0]
        fake_api.put(make_node_power_profile("n1", "performance"))
        fake_api.patch("Node", "n1", {"metadata": {"labels": {GROUP: "a"}}})
        await manager.until(lambda: len(manager.configs) == 2 and len(manager.profiles) == 2)
        assert (manager.profiles[-1], '"name":"group.a"' in manager.configs[-1]) == ("performance", True)
        await fake_api.wait_for(lambda: fake_api.get("TemplatePolicy", "group.a").get("status"))
        async with ClientSession() as session, session.get(f"{url}/readyz") as response:
            assert response.status == 200
    assert fake_api.get("TemplatePolicy", "group.a")["status"]["nodes"] == {}
    assert denied("joulie-agent", fake_api.requests) == []


async def test_only_the_node_and_the_target_of_the_node_are_watched(fake_api, manager, running):
    fake_api.put_all([make_node("n1"), make_node("n2"), make_node_power_profile("n2", "eco"), make_policy("default")])
    async with running():
        await manager.until(lambda: manager.configs)
    of_nodes = [each for each in fake_api.requests if each.path.endswith(("/nodes", "/nodepowerprofiles"))]
    assert of_nodes
    assert all("metadata.name=n1" in str(each.query) for each in of_nodes)
    assert manager.profiles == []


async def test_what_pods_allow_is_told_by_the_settings_and_only_where_they_say_so(fake_api, manager, running):
    fake_api.put_all([make_node("n1"), make_policy("default"), make_pod("a", node="n1"), make_pod("b", node="n2")])
    fake_api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    async with running():
        await manager.until(lambda: manager.configs)
    assert manager.consents == []
    assert not [each for each in fake_api.requests if each.path.endswith(("/pods", "/namespaces"))]
    settings = {"POD_CONSENTS": "true", "DEFAULT_MAX_SLOWDOWN": "25%", "DEFAULT_SLOWDOWN_IS_CONSENT": "true"}
    async with running(**settings):
        await manager.until(lambda: manager.consents)
    (told,) = manager.consents[-1].values()
    assert (told.pod, told.allowed, told.source, told.consents) == ("a", "25%", "cluster", True)
    of_pods = [each for each in fake_api.requests if each.path.endswith("/pods")]
    assert of_pods
    assert all("spec.nodeName=n1" in str(each.query) for each in of_pods)
    assert denied("joulie-agent", fake_api.requests) == []


async def test_a_node_that_uses_its_configuration_is_left_out_where_only_failures_are_reported(
    fake_api, manager, running
):
    fake_api.put_all([make_node("n1"), make_policy("default")])
    manager.refusals["4000"] = "no such CPU"
    async with running(CONTAINER_POLICY_STATUS="failures"):
        await manager.until(lambda: manager.configs)
        fake_api.put(make_policy("default", availableResources={"cpu": "cpuset:4000"}))
        await fake_api.wait_for(lambda: (fake_api.get("TemplatePolicy", "default").get("status") or {}).get("nodes"))
        assert fake_api.get("TemplatePolicy", "default")["status"]["nodes"]["n1"]["status"] == "Failure"
        assert len([each for each in fake_api.requests if each.subresource == "status"]) == 1


def test_the_node_has_to_be_named():
    with pytest.raises(SettingsError, match="NODE_NAME"):
        read_settings(NodeAgentSettings, {})
