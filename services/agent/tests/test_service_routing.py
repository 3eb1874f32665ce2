"""The whole agent under the TelemetryProfiles of users and its own."""

import asyncio

from joulie_core.labels import MANAGED_BY

CPU_CAP = "rapl.set_power_cap_watts"


async def test_a_cluster_profile_written_later_takes_over_from_the_environment(cluster):
    node = cluster.add_node("n1")
    await cluster.start_agent(TELEMETRY_CPU_SOURCE="none", TELEMETRY_CPU_CONTROL="none", RECONCILE_INTERVAL="1h")
    await cluster.until_reported("n1", result="none", reason="TurnedOff")
    home = cluster.api.get("TelemetryProfile", "n1")
    assert home["metadata"]["labels"][MANAGED_BY] == "joulie-agent"
    assert home["spec"]["controls"]["cpu"]["type"] == "none"
    cluster.api.put(cluster.route("all", cluster.backend.url, {"scope": "cluster"}))
    await cluster.until_reported("n1", result="applied", enforcedWatts=150)
    assert node.cap_watts == 150
    assert cluster.api.get("TelemetryProfile", "n1")["spec"]["controls"]["cpu"]["type"] == "http"


async def test_a_change_of_the_control_mode_releases_the_cap_once_the_throttle_is_in_force(cluster, capped):
    await capped.agent.kill()
    await cluster.start_agent(TELEMETRY_CPU_CONTROL_MODE="dvfs")
    await cluster.until_reported("n1", backend="http-dvfs", result="applied")
    assert (capped.node.cap_watts, capped.node.throttle_pct) == (250, 40)


async def test_controls_that_move_are_released_at_the_earlier_backend(cluster, capped):
    other = cluster.backend.add("n1-twin", facts=capped.node.facts)
    target = {"scope": "node", "nodeName": "n1"}
    cluster.api.put(cluster.route("moved", cluster.backend.url + "/control/{node}-twin", target))
    await cluster.backend.until(lambda: other.cap_watts and capped.node.cap_watts == 250)
    assert other.cap_watts == 150


async def test_a_users_profile_with_the_name_of_the_node_keeps_its_spec(cluster):
    cluster.add_node("n1")
    mine = cluster.route("n1", cluster.backend.url, {"scope": "node", "nodeName": "n1"})
    cluster.api.put(mine, manager="kubectl")
    await cluster.start_agent(TELEMETRY_CPU_CONTROL="none")
    await cluster.until_reported("n1", result="applied")
    found = cluster.api.get("TelemetryProfile", "n1")
    assert found["spec"] == mine["spec"]
    assert MANAGED_BY not in found["metadata"].get("labels", {})


async def test_a_generated_profile_that_a_user_edits_becomes_the_users(cluster, capped):
    cluster.api.patch("TelemetryProfile", "n1", {"spec": {"controls": {"cpu": {"type": "none"}}}}, manager="kubectl")
    await cluster.until_reported("n1", result="none", reason="TurnedOff")
    await cluster.api.wait_for(
        lambda: MANAGED_BY not in cluster.api.get("TelemetryProfile", "n1")["metadata"].get("labels", {})
    )
    seen = cluster.backend.count("n1")
    await cluster.backend.until(lambda: cluster.backend.count("n1") > seen + 5)
    assert cluster.api.get("TelemetryProfile", "n1")["spec"]["controls"]["cpu"]["type"] == "none"


async def test_headers_come_from_a_secret_of_the_agents_namespace(cluster):
    cluster.add_node("n1")
    cluster.api.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "power", "namespace": "here"},
            "data": {"X-Token": "c2VzYW1lCg=="},
        }
    )
    secret = {"headersSecretRef": {"name": "power"}}
    cluster.api.put(cluster.route("all", cluster.backend.url, {"scope": "cluster"}, **secret))
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
    cluster.add_node("n1", cpu={"packagePowerCapWatts": 200})
    secret = {"headersSecretRef": {"name": "absent"}}
    cluster.api.put(cluster.route("all", cluster.backend.url, {"scope": "cluster"}, **secret))
    await cluster.start_agent(POD_NAMESPACE="here")
    report = await cluster.until_reported("n1", result="error", reason="BadSecret")
    assert "here/absent" in report["message"]
    assert [call for call in cluster.backend.calls if call[1] == CPU_CAP] == []


async def test_an_endpoint_is_in_the_report_before_the_first_request_that_puts_something_in_force(cluster):
    cluster.add_node("n1", script={CPU_CAP: asyncio.Event()})
    await cluster.start_agent()
    endpoint = {"endpoint": cluster.backend.url, "timeoutSeconds": 5}
    place = {"type": "http", "http": endpoint, "cap": "unknown", "throttle": "unknown"}
    await cluster.until_reported("n1", result="none", places=[place])


async def test_a_route_that_changes_while_no_agent_runs_is_released_at_the_earlier_backend(cluster, capped):
    other = cluster.backend.add("n1-twin", facts=capped.node.facts)
    await capped.agent.kill()
    target = {"scope": "node", "nodeName": "n1"}
    cluster.api.put(cluster.route("moved", cluster.backend.url + "/control/{node}-twin", target))
    await cluster.start_agent()
    await cluster.backend.until(lambda: other.cap_watts and capped.node.cap_watts == 250)
    assert other.cap_watts == 150
