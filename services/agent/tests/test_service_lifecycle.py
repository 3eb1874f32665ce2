"""The whole agent while nodes, targets and agents come and go."""

from structlog.testing import capture_logs

from joulie_api.resources import TELEMETRY_PROFILES
from joulie_core.fnv import shard_of
from joulie_core.labels import MANAGED
from joulie_testing.api import Respond, make_node

CPU_CAP, THROTTLE = "rapl.set_power_cap_watts", "dvfs.set_throttle_pct"


async def test_a_restarted_agent_continues_with_the_throttle_in_force(cluster):
    node = cluster.add_node("n1", cpu_watts=600, script={CPU_CAP: {"result": "blocked"}})
    agent = await cluster.start_agent(DVFS_COOLDOWN="0s", DVFS_MODE="stepped")
    await cluster.until_reported("n1", throttlePct=30)
    await agent.kill()
    held, node.cpu_watts, cluster.backend.bodies = node.throttle_pct, 290, []
    await cluster.start_agent(DVFS_COOLDOWN="1h")
    await cluster.backend.until(lambda: len(cluster.backend.bodies) > 3)
    assert held >= 30
    assert {body["throttlePct"] for body in cluster.backend.bodies if body["action"] == THROTTLE} == {held}


async def test_two_shards_own_disjoint_halves_and_one_end_leaves_the_other_alone(cluster):
    names = [f"n{index}" for index in range(12)]
    for name in names:
        cluster.add_node(name)
    first = await cluster.start_agent(POOL_SHARDS="2", POOL_SHARD_ID="0")
    second = await cluster.start_agent(POOL_SHARDS="2", POD_NAME="joulie-agent-1")
    for name in names:
        await cluster.until_reported(name, result="applied")
    halves = [{name for name in names if shard_of(name, 2) == shard} for shard in (0, 1)]
    assert all(halves)
    for agent, half in ((first, halves[0]), (second, halves[1])):
        _, text = await agent.get("/metrics")
        assert {name for name in names if f'node="{name}"' in text} == half
    await first.kill()
    cluster.backend.calls.clear()
    await cluster.backend.until(lambda: all(cluster.backend.count(name, CPU_CAP) > 2 for name in halves[1]))
    assert {node for node, _ in cluster.backend.calls} == halves[1]
    assert all(cluster.backend.nodes[name].cap_watts == 150 for name in halves[0])


async def test_a_node_is_restored_when_its_target_names_no_cap(cluster):
    node = cluster.add_node("n1", gpus=4, gpu={"capPctOfMax": 60}, gpu_watts=900)
    await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await cluster.until_reported("n1", "gpu", result="applied")
    cluster.set_target("n1")
    await cluster.until_reported("n1", result="none", reason="NoIntent")
    await cluster.until_reported("n1", "gpu", result="none", reason="NoIntent")
    assert (node.cap_watts, node.gpu_cap_watts, node.throttle_pct) == (250, 400, 0)


async def test_a_node_is_restored_when_its_target_is_deleted(cluster, capped):
    cluster.api.remove("NodePowerProfile", "n1")
    await cluster.until_reported("n1", result="none", reason="NoProfile")
    assert capped.node.cap_watts == 250


async def test_a_node_is_restored_when_its_target_was_deleted_while_no_agent_ran(cluster, capped):
    await capped.agent.kill()
    assert capped.node.cap_watts == 150
    cluster.api.remove("NodePowerProfile", "n1")
    await cluster.start_agent()
    await cluster.until_reported("n1", result="none", reason="NoProfile")
    assert capped.node.cap_watts == 250


async def test_a_node_that_leaves_management_is_restored_and_forgotten(cluster, capped):
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert capped.node.cap_watts == 250
    assert cluster.api.count("NodeHardware") == 0
    assert await capped.agent.series("n1") == {}
    cluster.backend.calls.clear()
    cluster.add_node("n2", target=False)
    await cluster.backend.until(lambda: cluster.backend.count("n2") > 5)
    assert cluster.backend.count("n1") == 0


async def test_a_node_that_left_while_no_agent_ran_is_restored_at_the_next_start(cluster, capped):
    await capped.agent.kill()
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.start_agent()
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert capped.node.cap_watts == 250


async def test_a_managed_node_outside_the_selector_is_not_touched(cluster):
    cluster.add_node("n1", labels={"pool": "a"})
    cluster.add_node("n2", labels={"pool": "b"})
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await agent.kill()
    cluster.backend.calls.clear()
    await cluster.start_agent(POOL_NODE_SELECTOR="pool=b")
    await cluster.backend.until(lambda: cluster.backend.count("n2", CPU_CAP) > 3)
    assert cluster.backend.count("n1") == 0
    assert cluster.status("n1")["result"] == "applied"


async def test_a_node_that_comes_back_is_served_again(cluster, capped):
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: "true"}}})
    await cluster.until_reported("n1", result="applied", reason="Capped")
    assert capped.node.cap_watts == 150


async def test_a_shutdown_restores_nothing(cluster, capped):
    await capped.agent.kill()
    assert capped.node.cap_watts == 150
    assert cluster.api.count("TelemetryProfile") == 1


async def test_a_restart_with_a_silent_backend_leaves_the_hardware_as_published(cluster, capped):
    await capped.agent.kill()
    before = cluster.api.get("NodeHardware", "n1")
    capped.node.telemetry, capped.node.cap_watts = 500, None
    await cluster.start_agent()
    await cluster.backend.until(lambda: capped.node.cap_watts is not None)
    assert capped.node.cap_watts == 150
    assert cluster.api.get("NodeHardware", "n1") == before


async def test_a_deleted_status_profile_is_created_again_with_its_report(cluster):
    cluster.add_node("n1")
    await cluster.start_agent(RECONCILE_INTERVAL="1h")
    await cluster.until_reported("n1", result="applied")
    cluster.api.remove("TelemetryProfile", "n1")
    await cluster.until_reported("n1", result="applied")


async def test_a_failed_withdrawal_is_logged_with_the_reason_and_retried(cluster):
    cluster.add_node("n1", target=False)
    path = f"{TELEMETRY_PROFILES.plural}/n1"
    cluster.api.faults.add(Respond(403, message="not allowed"), verb="delete", path=path, times=2)
    with capture_logs() as logs:
        await cluster.start_agent()
        await cluster.until_reported("n1", reason="NoProfile")
        cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
        await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    [said] = [each for each in logs if each["event"] == "publishing failed"]
    assert (said["log_level"], said["node"]) == ("warning", "n1")
    assert "not allowed" in said["problem"]


async def test_a_pool_agent_does_not_touch_the_machine_it_runs_on(cluster):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", cpu={"packagePowerCapWatts": 200})
    await cluster.start_agent(TELEMETRY_CPU_SOURCE="host", TELEMETRY_CPU_CONTROL="host")
    await cluster.until_reported("n1", result="blocked", reason="HostInPool")


async def test_simulate_only_blocks_host_controls(cluster):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", cpu={"packagePowerCapWatts": 200})
    host = {"TELEMETRY_CPU_SOURCE": "host", "TELEMETRY_CPU_CONTROL": "host"}
    await cluster.start_agent(AGENT_MODE="daemonset", NODE_NAME="n1", SIMULATE_ONLY="true", **host)
    await cluster.until_reported("n1", result="blocked", reason="SimulateOnly")


async def test_a_daemonset_agent_serves_its_own_node_only(cluster):
    for name in ("mine", "other"):
        cluster.add_node(name)
    await cluster.start_agent(AGENT_MODE="daemonset", NODE_NAME="mine")
    await cluster.until_reported("mine", result="applied")
    assert cluster.backend.count("other") == 0
    cluster.api.patch("Node", "mine", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert cluster.backend.nodes["mine"].cap_watts == 250
