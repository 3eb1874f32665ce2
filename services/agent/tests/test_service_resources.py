"""The whole agent beside a resource manager."""

from services.agent.tests.node_agent.documents import make_policy
from services.agent.tests.node_agent.scripted_manager import ScriptedManager

GROUP = "joulie.io/container-policy-group"


async def test_configuration_and_profile_of_the_node_reach_the_resource_manager_and_follow_changes(cluster, tmp_path):
    manager = ScriptedManager(tmp_path / "manager.sock")
    await manager.start()
    cluster.add_node("n1")
    cluster.api.put_all([make_policy("default"), make_policy("group.a")])
    agent = await cluster.start_agent(
        AGENT_MODE="daemonset",
        NODE_NAME="n1",
        SIMULATE_ONLY="true",
        RESOURCE_MANAGER_SOCKET=str(manager.socket),
        NODE_AGENT_SOCKET=str(tmp_path / "agent.sock"),
    )
    await manager.until(lambda: manager.configs and manager.profiles)
    assert manager.profiles == ["eco"]
    assert '"name":"default"' in manager.configs[0]
    cluster.set_target("n1", "performance")
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {GROUP: "a"}}})
    await manager.until(lambda: len(manager.configs) == 2 and len(manager.profiles) == 2)
    assert (manager.profiles[-1], '"name":"group.a"' in manager.configs[-1]) == ("performance", True)
    await cluster.api.wait_for(lambda: cluster.api.get("TemplatePolicy", "group.a").get("status"))
    assert (await agent.get("/readyz"))[0] == 200
    await agent.kill()
    assert cluster.api.get("TemplatePolicy", "group.a")["status"]["nodes"] == {}
    await manager.stop()


async def test_without_a_resource_manager_no_policies_are_watched(cluster):
    cluster.add_node("n1")
    await cluster.start_agent(AGENT_MODE="daemonset", NODE_NAME="n1", SIMULATE_ONLY="true")
    await cluster.until_reported("n1", result="applied")
    assert not [each for each in cluster.api.requests if "policies" in each.path or "adjustments" in each.path]
