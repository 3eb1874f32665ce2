"""The whole agent: real watches of an in-process API server, real HTTP to a scripted backend."""

import asyncio

import pytest

from joulie_agent import node_workers
from joulie_agent.enforce.node import NodeControl
from joulie_api.resources import TELEMETRY_PROFILES
from joulie_testing.api import Respond

CPU_CAP, THROTTLE, GPU_CAP = "rapl.set_power_cap_watts", "dvfs.set_throttle_pct", "gpu.set_power_cap_watts"


async def test_a_percentage_becomes_a_cap_at_the_backend_and_a_report(cluster):
    node = cluster.add_node("n1")
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
    node = cluster.add_node("n1")
    await cluster.start_agent(RECONCILE_INTERVAL="1h")
    await cluster.until_reported("n1", enforcedWatts=150)
    cluster.set_target("n1", "performance", cpu={"packagePowerCapPctOfMax": 100})
    await cluster.until_reported("n1", enforcedWatts=250)
    assert node.cap_watts == 250


async def test_gpu_caps_are_applied_and_power_is_reported(cluster):
    node = cluster.add_node("n1", gpus=4, cpu=None, gpu={"capPctOfMax": 60}, gpu_watts=900)
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
async def test_the_report_has_the_result_of_the_backend(cluster, script, result, reason):
    cluster.add_node("n1", script={CPU_CAP: script})
    await cluster.start_agent(TELEMETRY_CPU_CONTROL_MODE="rapl")
    await cluster.until_reported("n1", result=result, reason=reason)


async def test_without_rapl_dvfs_holds_the_power_until_rapl_is_back(cluster):
    node = cluster.add_node("n1", cpu_watts=600, script={CPU_CAP: {"result": "blocked"}})
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


async def test_a_percentage_that_no_range_translates_becomes_a_throttle(cluster):
    node = cluster.add_node("n1", facts={})
    await cluster.start_agent()
    await cluster.until_reported("n1", reason="ThrottledByPercent", throttlePct=40)
    assert node.throttle_pct == 40
    assert cluster.backend.count("n1", CPU_CAP) == 0


async def test_a_backend_that_hangs_delays_no_other_node(cluster):
    never = asyncio.Event()
    cluster.add_node("good")
    cluster.add_node("hung", script={CPU_CAP: never, THROTTLE: never})
    await cluster.start_agent(TELEMETRY_HTTP_TIMEOUT_SECONDS="1")
    await cluster.backend.until(lambda: cluster.backend.count("good", CPU_CAP) >= 5)
    assert cluster.backend.count("hung", CPU_CAP) == 0
    report = await cluster.until_reported("hung", result="error", reason="Timeout")
    assert report["message"] == "no answer within 1 s"


async def test_a_quiet_node_causes_no_write(cluster):
    cluster.add_node("n1", gpus=4, gpu={"capPctOfMax": 60}, gpu_watts=900)
    await cluster.start_agent(RECONCILE_INTERVAL="20ms")
    await cluster.until_reported("n1", result="applied")
    await cluster.api.wait_for(lambda: cluster.api.get("NodeHardware", "n1"))
    settled = cluster.backend.count("n1", "telemetry") + 2
    await cluster.backend.until(lambda: cluster.backend.count("n1", "telemetry") > settled)
    cluster.api.requests.clear()
    seen = cluster.backend.count("n1", "telemetry")
    await cluster.backend.until(lambda: cluster.backend.count("n1", "telemetry") > seen + 20)
    assert [request for request in cluster.api.requests if request.verb != "watch"] == []


async def test_small_changes_of_power_are_not_reported(cluster):
    node = cluster.add_node("n1", target=False, cpu_watts=300)
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


async def test_hardware_is_published_once_with_the_facts_of_the_backend(cluster):
    cluster.add_node("n1", gpus=4, target=False, gpu_watts=900)
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


async def test_the_loop_samples_on_its_own_interval_and_sends_only_what_changes(cluster):
    node = cluster.add_node("n1", cpu_watts=600, script={CPU_CAP: {"result": "blocked"}})
    await cluster.start_agent(RECONCILE_INTERVAL="1h", DVFS_INTERVAL="200ms", DVFS_COOLDOWN="0s")
    await cluster.backend.until(lambda: node.throttle_pct == 100)
    writes, reads = cluster.backend.count("n1", THROTTLE), cluster.backend.count("n1", "telemetry")
    await cluster.backend.until(lambda: cluster.backend.count("n1", "telemetry") > reads + 5)
    assert cluster.backend.count("n1", THROTTLE) == writes <= 6
    assert cluster.backend.count("n1", CPU_CAP) <= 3


async def test_metrics_have_their_documented_names_and_the_agent_is_ready(cluster):
    cluster.add_node("n1", gpus=4, gpu={"capPctOfMax": 60}, gpu_watts=900)
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
    assert series['joulie_control_result{reason="Capped",result="applied",subsystem="gpu"}'] == 1
    assert series['joulie_policy_cap_watts{policy="static_partition"}'] == 150
    assert series["joulie_rapl_package_total_power_watts"] == 300
    assert series['joulie_gpu_power_watts{gpu="all"}'] == 900
    assert series["joulie_reconcile_errors_total"] == 0
    assert (await agent.get("/readyz"))[0] == 200


async def test_errors_are_counted_per_node(cluster):
    cluster.add_node("n1", script={CPU_CAP: 500, THROTTLE: 500})
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="error")
    assert (await agent.series("n1"))["joulie_reconcile_errors_total"] >= 1


async def test_a_failed_status_write_is_repeated_at_the_next_tick(cluster):

    node = cluster.add_node("n1")
    path = TELEMETRY_PROFILES.object_path("n1", subresource="status")
    cluster.api.faults.add(Respond(503), verb="apply", path=path, times=2)
    agent = await cluster.start_agent()
    await cluster.until_reported("n1", result="applied")
    assert node.cap_watts == 150
    assert (await agent.series("n1"))["joulie_reconcile_errors_total"] >= 1


@pytest.mark.parametrize("method", ["__init__", "tick"])
async def test_a_defect_at_one_node_ends_neither_the_process_nor_the_work_on_others(cluster, monkeypatch, method):
    good = getattr(NodeControl, method)
    broken = {"n1"}

    def node_of(control, arguments):
        return arguments[0].node.name if method == "tick" else arguments[0].name

    def fail(control, *arguments, **keywords):
        if node_of(control, arguments) in broken:
            raise ZeroDivisionError("a defect")
        return good(control, *arguments, **keywords)

    monkeypatch.setattr(NodeControl, method, fail)
    monkeypatch.setattr(node_workers, "RETRY_S", 0.0)
    bad_node, good_node = cluster.add_node("n1"), cluster.add_node("n2")
    agent = await cluster.start_agent()
    await cluster.until_reported("n2", result="applied")
    assert good_node.cap_watts == 150
    assert bad_node.cap_watts is None
    work = "node pass" if method == "tick" else "start of a node's worker"
    assert f'joulie_internal_errors_total{{work="{work}"}}' in (await agent.get("/metrics"))[1]
    broken.clear()
    await cluster.until_reported("n1", result="applied")
    assert bad_node.cap_watts == 150
