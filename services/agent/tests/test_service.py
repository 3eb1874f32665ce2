"""The whole agent: real watches of an in-process API server, real HTTP to a scripted backend."""

import asyncio

import pytest
from structlog.testing import capture_logs

from joulie_api.resources import TELEMETRY_PROFILES
from joulie_api.testing import Respond, make_node
from joulie_core.fnv import shard_of
from joulie_core.labels import MANAGED, MANAGED_BY

CPU_CAP, THROTTLE, GPU_CAP = "rapl.set_power_cap_watts", "dvfs.set_throttle_pct", "gpu.set_power_cap_watts"
ECO = {"cpu": {"packagePowerCapPctOfMax": 60}}
RANGE = {
    "cpu": {"model": "Test CPU", "sockets": 2, "capRange": {"minWattsPerSocket": 100, "maxWattsPerSocket": 250}},
    "gpu": {
        "present": True,
        "count": 4,
        "capRangePerGpu": {"minWatts": 100, "maxWatts": 400, "defaultWatts": 350},
        "capWattsPerGpu": 400,
        "currentCapWatts": 400,
    },
}


async def test_a_percentage_becomes_a_cap_at_the_backend_and_a_report(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent()
    report = await cluster.until_reported("n1", result="applied")
    assert node.cap_watts == 150
    assert (report["backend"], report["reason"], report["requestedWatts"], report["enforcedWatts"]) == (
        "http-rapl",
        "Capped",
        150,
        150,
    )


async def test_a_changed_target_is_enforced_without_waiting_for_the_interval(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent(RECONCILE_INTERVAL="1h")
    await cluster.until_reported("n1", enforcedWatts=150)
    cluster.set_target("n1", "performance", cpu={"packagePowerCapPctOfMax": 100})
    await cluster.until_reported("n1", enforcedWatts=250)
    assert node.cap_watts == 250


async def test_gpu_caps_are_applied_and_power_is_reported(cluster):
    cluster.api.put(make_node("n1", gpus=4))
    node = cluster.backend.add("n1", gpu_watts=900, facts=RANGE)
    cluster.set_target("n1", gpu={"powerCap": {"scope": "perGpu", "capPctOfMax": 60}})
    await cluster.start_agent()
    await cluster.until_reported("n1", "gpu", result="applied", enforcedWatts=240)
    assert node.gpu_cap_watts == 240
    power = cluster.api.get("TelemetryProfile", "n1")["status"]["power"]
    assert (power["cpuWatts"], power["gpuWatts"]) == (300, 900)


@pytest.mark.parametrize(
    ("script", "result", "reason"),
    [
        ({"result": "blocked", "message": "locked"}, "blocked", "Refused"),
        ({"result": "error", "message": "write failed"}, "error", "BackendFailed"),
        (500, "error", "HttpStatus"),
        (404, "error", "NotFound"),
        (b"<html>", "error", "MalformedReply"),
        ({"message": "all is well"}, "error", "MalformedReply"),
        ({"result": "none"}, "error", "MalformedReply"),
    ],
)
async def test_what_the_backend_answers_is_what_the_report_says(cluster, script, result, reason):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE, script={CPU_CAP: script})
    cluster.set_target("n1", **ECO)
    await cluster.start_agent(TELEMETRY_CPU_CONTROL_MODE="rapl")
    await cluster.until_reported("n1", result=result, reason=reason)


async def test_without_rapl_dvfs_holds_the_power_until_rapl_is_back(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", cpu_watts=600, facts=RANGE, script={CPU_CAP: {"result": "blocked"}})
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent(DVFS_COOLDOWN="0s", DVFS_MODE="stepped")
    await cluster.until_reported("n1", backend="http-dvfs", throttlePct=20)
    series = await agent.series("n1")
    assert (series['joulie_backend_mode{mode="dvfs"}'], series['joulie_backend_mode{mode="rapl"}']) == (1, 0)
    assert series['joulie_dvfs_actions_total{action="throttle_up"}'] >= 2
    node.script.clear()
    await cluster.until_reported("n1", backend="http-rapl", result="applied")
    await cluster.backend.until(lambda: node.throttle_pct == 0)
    series = await agent.series("n1")
    assert series['joulie_backend_mode{mode="rapl"}'] == 1


async def test_a_restarted_agent_goes_on_with_the_throttle_of_the_one_before(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", cpu_watts=600, facts=RANGE, script={CPU_CAP: {"result": "blocked"}})
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent(DVFS_COOLDOWN="0s", DVFS_MODE="stepped")
    await cluster.until_reported("n1", throttlePct=30)
    await agent.kill()
    held, node.cpu_watts, cluster.backend.bodies = node.throttle_pct, 290, []
    await cluster.start_agent(DVFS_COOLDOWN="1h")
    await cluster.backend.until(lambda: len(cluster.backend.bodies) > 3)
    assert held >= 30
    assert {body["throttlePct"] for body in cluster.backend.bodies if body["action"] == THROTTLE} == {held}


async def test_a_percentage_that_no_range_translates_becomes_a_throttle(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1")
    cluster.set_target("n1", **ECO)
    await cluster.start_agent()
    await cluster.until_reported("n1", reason="ThrottledByPercent", throttlePct=40)
    assert node.throttle_pct == 40
    assert cluster.backend.count("n1", CPU_CAP) == 0


async def test_two_shards_own_disjoint_halves_and_one_end_leaves_the_other_alone(cluster):
    names = [f"n{index}" for index in range(12)]
    for name in names:
        cluster.api.put(make_node(name))
        cluster.backend.add(name, facts=RANGE)
        cluster.set_target(name, **ECO)
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


async def test_a_backend_that_hangs_delays_no_other_node(cluster):
    never = asyncio.Event()
    for name in ("good", "hung"):
        cluster.api.put(make_node(name))
        cluster.set_target(name, **ECO)
    cluster.backend.add("good", facts=RANGE)
    cluster.backend.add("hung", facts=RANGE, script={CPU_CAP: never, THROTTLE: never})
    await cluster.start_agent(TELEMETRY_HTTP_TIMEOUT_SECONDS="1")
    await cluster.backend.until(lambda: cluster.backend.count("good", CPU_CAP) >= 5)
    assert cluster.backend.count("hung", CPU_CAP) == 0
    report = await cluster.until_reported("hung", result="error", reason="Timeout")
    assert report["message"] == "no answer within 1 s"


async def test_a_vanished_stanza_gives_the_hardware_back(cluster):
    cluster.api.put(make_node("n1", gpus=4))
    node = cluster.backend.add("n1", gpu_watts=900, facts=RANGE)
    cluster.set_target("n1", gpu={"powerCap": {"capPctOfMax": 60}}, **ECO)
    await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await cluster.until_reported("n1", "gpu", result="applied")
    cluster.set_target("n1")
    await cluster.until_reported("n1", result="none", reason="NoIntent")
    await cluster.until_reported("n1", "gpu", result="none", reason="NoIntent")
    assert (node.cap_watts, node.gpu_cap_watts, node.throttle_pct) == (250, 400, 0)


async def test_a_deleted_target_gives_the_hardware_back(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    cluster.api.remove("NodePowerProfile", "n1")
    await cluster.until_reported("n1", result="none", reason="NoProfile")
    assert node.cap_watts == 250


async def test_a_target_deleted_while_no_agent_ran_gives_the_hardware_back(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await agent.kill()
    assert node.cap_watts == 150
    cluster.api.remove("NodePowerProfile", "n1")
    await cluster.start_agent()
    await cluster.until_reported("n1", result="none", reason="NoProfile")
    assert node.cap_watts == 250


async def test_a_node_that_leaves_management_is_restored_and_forgotten(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert node.cap_watts == 250
    assert cluster.api.count("NodeHardware") == 0
    assert await agent.series("n1") == {}
    cluster.backend.calls.clear()
    cluster.api.put(make_node("n2"))
    cluster.backend.add("n2", facts=RANGE)
    await cluster.backend.until(lambda: cluster.backend.count("n2") > 5)
    assert cluster.backend.count("n1") == 0


async def test_a_node_that_left_while_no_agent_ran_is_restored_at_the_next_start(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await agent.kill()
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.start_agent()
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert node.cap_watts == 250


async def test_a_managed_node_of_another_selector_is_left_to_its_own_agent(cluster):
    cluster.api.put(make_node("n1", labels={"pool": "a"}))
    cluster.api.put(make_node("n2", labels={"pool": "b"}))
    for name in ("n1", "n2"):
        cluster.backend.add(name, facts=RANGE)
        cluster.set_target(name, **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await agent.kill()
    cluster.backend.calls.clear()
    await cluster.start_agent(POOL_NODE_SELECTOR="pool=b")
    await cluster.backend.until(lambda: cluster.backend.count("n2", CPU_CAP) > 3)
    assert cluster.backend.count("n1") == 0
    assert cluster.status("n1")["result"] == "applied"


async def test_a_node_that_comes_back_is_served_again(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: "true"}}})
    await cluster.until_reported("n1", result="applied", reason="Capped")
    assert node.cap_watts == 150


async def test_a_shutdown_gives_nothing_back(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await agent.kill()
    assert node.cap_watts == 150
    assert cluster.api.count("TelemetryProfile") == 1


async def test_a_quiet_node_causes_no_write(cluster):
    cluster.api.put(make_node("n1", gpus=4))
    cluster.backend.add("n1", gpu_watts=900, facts=RANGE)
    cluster.set_target("n1", gpu={"powerCap": {"capPctOfMax": 60}}, **ECO)
    await cluster.start_agent(RECONCILE_INTERVAL="20ms")
    await cluster.until_reported("n1", result="applied")
    await cluster.api.wait_for(lambda: cluster.api.get("NodeHardware", "n1"))
    settled = cluster.backend.count("n1", "telemetry") + 2
    await cluster.backend.until(lambda: cluster.backend.count("n1", "telemetry") > settled)
    cluster.api.requests.clear()
    seen = cluster.backend.count("n1", "telemetry")
    await cluster.backend.until(lambda: cluster.backend.count("n1", "telemetry") > seen + 20)
    assert [request for request in cluster.api.requests if request.verb != "watch"] == []


async def test_power_that_moves_is_reported_and_power_that_trembles_is_not(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", cpu_watts=300, facts=RANGE)
    await cluster.start_agent(RECONCILE_INTERVAL="20ms")

    def reported():
        return ((cluster.api.get("TelemetryProfile", "n1") or {}).get("status", {}).get("power") or {}).get("cpuWatts")

    await cluster.api.wait_for(lambda: reported() == 300)
    node.cpu_watts = 304
    seen = cluster.backend.count("n1")
    await cluster.backend.until(lambda: cluster.backend.count("n1") > seen + 5)
    assert reported() == 300
    node.cpu_watts = 330
    await cluster.api.wait_for(lambda: reported() == 330)


async def test_hardware_is_published_once_with_what_the_backend_tells(cluster):
    cluster.api.put(make_node("n1", gpus=4, gpu_model="NVIDIA-A100-SXM4-80GB"))
    cluster.backend.add("n1", gpu_watts=900, facts=RANGE)
    await cluster.start_agent()
    await cluster.api.wait_for(lambda: (cluster.api.get("NodeHardware", "n1") or {}).get("status"))
    found = cluster.api.get("NodeHardware", "n1")
    assert found["spec"] == {"nodeName": "n1"}
    assert found["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert found["status"]["cpu"]["sockets"] == 2
    assert found["status"]["cpu"]["capRange"] == {"minWattsPerSocket": 100, "maxWattsPerSocket": 250}
    assert found["status"]["gpu"]["count"] == 4
    assert "currentCapWatts" not in found["status"]["gpu"]
    assert found["status"]["capabilities"] == {
        "cpuControl": True,
        "gpuControl": True,
        "cpuTelemetry": True,
        "gpuTelemetry": True,
    }


async def test_a_restart_with_a_silent_backend_leaves_the_hardware_as_published(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    await agent.kill()
    before = cluster.api.get("NodeHardware", "n1")
    node.telemetry, node.cap_watts = 500, None
    await cluster.start_agent()
    await cluster.backend.until(lambda: node.cap_watts is not None)
    assert node.cap_watts == 150
    assert cluster.api.get("NodeHardware", "n1") == before


def user_profile(name, target, endpoint, **extra):
    http = {"type": "http", "http": {"endpoint": endpoint, **extra}}
    return {
        "apiVersion": "joulie.io/v1alpha1",
        "kind": "TelemetryProfile",
        "metadata": {"name": name},
        "spec": {
            "target": target,
            "sources": {"cpu": http},
            "controls": {"cpu": {"type": "http", "http": http["http"]}},
        },
    }


async def test_a_cluster_profile_written_later_takes_over_from_the_environment(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent(TELEMETRY_CPU_SOURCE="none", TELEMETRY_CPU_CONTROL="none", RECONCILE_INTERVAL="1h")
    await cluster.until_reported("n1", result="none", reason="TurnedOff")
    home = cluster.api.get("TelemetryProfile", "n1")
    assert home["metadata"]["labels"][MANAGED_BY] == "joulie-agent"
    assert home["spec"]["controls"]["cpu"]["type"] == "none"
    cluster.api.put(user_profile("all", {"scope": "cluster"}, cluster.backend.url))
    await cluster.until_reported("n1", result="applied", enforcedWatts=150)
    assert node.cap_watts == 150
    assert cluster.api.get("TelemetryProfile", "n1")["spec"]["controls"]["cpu"]["type"] == "http"


async def test_a_change_of_the_control_mode_releases_the_cap_once_the_throttle_is_in_force(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied", enforcedWatts=150)
    await agent.kill()
    await cluster.start_agent(TELEMETRY_CPU_CONTROL_MODE="dvfs")
    await cluster.until_reported("n1", backend="http-dvfs", result="applied")
    assert (node.cap_watts, node.throttle_pct) == (250, 40)


async def test_the_loop_samples_on_its_own_interval_and_sends_only_what_changes(cluster):
    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", cpu_watts=600, facts=RANGE, script={CPU_CAP: {"result": "blocked"}})
    cluster.set_target("n1", **ECO)
    await cluster.start_agent(RECONCILE_INTERVAL="1h", DVFS_INTERVAL="200ms", DVFS_COOLDOWN="0s")
    await cluster.backend.until(lambda: node.throttle_pct == 100)
    writes, reads = cluster.backend.count("n1", THROTTLE), cluster.backend.count("n1", "telemetry")
    await cluster.backend.until(lambda: cluster.backend.count("n1", "telemetry") > reads + 5)
    assert cluster.backend.count("n1", THROTTLE) == writes <= 6
    assert cluster.backend.count("n1", CPU_CAP) <= 3


async def test_controls_that_move_are_released_at_the_old_place(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
    other = cluster.backend.add("n1-twin", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    target = {"scope": "node", "nodeName": "n1"}
    cluster.api.put(user_profile("moved", target, cluster.backend.url + "/control/{node}-twin"))
    await cluster.backend.until(lambda: other.cap_watts and cluster.backend.nodes["n1"].cap_watts == 250)
    assert other.cap_watts == 150


async def test_a_profile_that_a_user_names_as_the_node_is_used_and_keeps_its_spec(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    mine = user_profile("n1", {"scope": "node", "nodeName": "n1"}, cluster.backend.url)
    cluster.api.put(mine, manager="kubectl")
    await cluster.start_agent(TELEMETRY_CPU_CONTROL="none")
    await cluster.until_reported("n1", result="applied")
    found = cluster.api.get("TelemetryProfile", "n1")
    assert found["spec"] == mine["spec"]
    assert MANAGED_BY not in found["metadata"].get("labels", {})


async def test_a_generated_profile_that_a_user_edits_becomes_the_users(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    cluster.api.patch("TelemetryProfile", "n1", {"spec": {"controls": {"cpu": {"type": "none"}}}}, manager="kubectl")
    await cluster.until_reported("n1", result="none", reason="TurnedOff")
    await cluster.api.wait_for(
        lambda: MANAGED_BY not in cluster.api.get("TelemetryProfile", "n1")["metadata"].get("labels", {})
    )
    seen = cluster.backend.count("n1")
    await cluster.backend.until(lambda: cluster.backend.count("n1") > seen + 5)
    assert cluster.api.get("TelemetryProfile", "n1")["spec"]["controls"]["cpu"]["type"] == "none"


async def test_a_home_that_somebody_deletes_comes_back_with_its_report(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    await cluster.start_agent(RECONCILE_INTERVAL="1h")
    await cluster.until_reported("n1", result="applied")
    cluster.api.remove("TelemetryProfile", "n1")
    await cluster.until_reported("n1", result="applied")


async def test_headers_come_from_a_secret_of_the_agents_namespace(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    cluster.api.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "power", "namespace": "here"},
            "data": {"X-Token": "c2VzYW1lCg=="},
        }
    )
    secret = {"headersSecretRef": {"name": "power"}}
    cluster.api.put(user_profile("all", {"scope": "cluster"}, cluster.backend.url, **secret))
    await cluster.start_agent(POD_NAMESPACE="here")
    await cluster.until_reported("n1", result="applied")
    sent = [
        headers
        for call, headers in zip(cluster.backend.calls, cluster.backend.headers, strict=True)
        if call[1] == CPU_CAP
    ]
    assert sent
    assert all(headers["X-Token"] == "sesame" for headers in sent)


async def test_a_missing_secret_is_an_error_with_its_name_and_nothing_is_sent(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", cpu={"packagePowerCapWatts": 200})
    secret = {"headersSecretRef": {"name": "absent"}}
    cluster.api.put(user_profile("all", {"scope": "cluster"}, cluster.backend.url, **secret))
    await cluster.start_agent(POD_NAMESPACE="here")
    report = await cluster.until_reported("n1", result="error", reason="BadSecret")
    assert "here/absent" in report["message"]
    assert [call for call in cluster.backend.calls if call[1] == CPU_CAP] == []


async def test_metrics_have_the_contracts_names_and_health_says_ready(cluster):
    cluster.api.put(make_node("n1", gpus=4))
    cluster.backend.add("n1", gpu_watts=900, facts=RANGE)
    cluster.set_target("n1", gpu={"powerCap": {"capPctOfMax": 60}}, **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", "gpu", result="applied")
    series = await agent.series("n1")
    assert {name.split("{")[0] for name in series} >= {
        "joulie_backend_mode",
        "joulie_policy_cap_watts",
        "joulie_rapl_package_total_power_watts",
        "joulie_dvfs_throttle_pct",
        "joulie_dvfs_above_trip_count",
        "joulie_dvfs_below_trip_count",
        "joulie_dvfs_actions_total",
        "joulie_gpu_power_watts",
        "joulie_gpu_cap_watts",
        "joulie_reconcile_errors_total",
    }
    assert series['joulie_policy_cap_watts{policy="static_partition"}'] == 150
    assert series["joulie_rapl_package_total_power_watts"] == 300
    assert series['joulie_gpu_power_watts{gpu="all"}'] == 900
    assert series["joulie_reconcile_errors_total"] == 0
    assert (await agent.get("/readyz"))[0] == 200


async def test_errors_are_counted_per_node(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE, script={CPU_CAP: 500, THROTTLE: 500})
    cluster.set_target("n1", **ECO)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="error")
    assert (await agent.series("n1"))["joulie_reconcile_errors_total"] >= 1


async def test_a_failed_status_write_is_made_up_at_the_next_tick(cluster):

    cluster.api.put(make_node("n1"))
    node = cluster.backend.add("n1", facts=RANGE)
    cluster.set_target("n1", **ECO)
    path = TELEMETRY_PROFILES.object_path("n1", subresource="status")
    cluster.api.faults.add(Respond(503), verb="apply", path=path, times=2)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    assert node.cap_watts == 150
    assert (await agent.series("n1"))["joulie_reconcile_errors_total"] >= 1


async def test_a_node_that_cannot_be_left_is_warned_of_with_the_reason_and_tried_again(cluster):
    cluster.api.put(make_node("n1"))
    cluster.backend.add("n1", facts=RANGE)
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


async def test_simulate_only_keeps_hands_off_the_machine(cluster):
    cluster.api.put(make_node("n1"))
    cluster.set_target("n1", cpu={"packagePowerCapWatts": 200})
    host = {"TELEMETRY_CPU_SOURCE": "host", "TELEMETRY_CPU_CONTROL": "host"}
    await cluster.start_agent(AGENT_MODE="daemonset", NODE_NAME="n1", SIMULATE_ONLY="true", **host)
    await cluster.until_reported("n1", result="blocked", reason="SimulateOnly")


async def test_a_daemonset_agent_serves_its_own_node_only(cluster):
    for name in ("mine", "other"):
        cluster.api.put(make_node(name))
        cluster.backend.add(name, facts=RANGE)
        cluster.set_target(name, **ECO)
    await cluster.start_agent(AGENT_MODE="daemonset", NODE_NAME="mine")
    await cluster.until_reported("mine", result="applied")
    assert cluster.backend.count("other") == 0
    cluster.api.patch("Node", "mine", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert cluster.backend.nodes["mine"].cap_watts == 250
