from http import HTTPStatus

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from joulie_core.kinds.node_hardware import CpuHardware, GpuHardware
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_sim.server.http import HttpBackend
from joulie_sim.server.simulator import Simulator
from joulie_sim.testing import CPU_NODE, GPU_NODE


@pytest.fixture
async def http():
    parts = {"cpu-0": CPU_NODE, "gpu-0": GPU_NODE}
    simulator = Simulator(
        clock=lambda: 100.0, hardware_of=lambda node: parts[node.name], on_finished=lambda _finished: None
    )
    for name in parts:
        simulator.node_changed(name, None, Node(name=NodeName(name)))
    app = web.Application()
    app.add_routes(HttpBackend(simulator, speed=2.0).routes())
    async with TestClient(TestServer(app)) as client:
        yield client


def cap(node, watts):
    return {"node": node, "action": "rapl.set_power_cap_watts", "ts": "2026-01-01T00:00:00Z", "capWatts": watts}


async def test_telemetry_carries_power_caps_and_facts_that_node_hardware_takes(http):
    answer = await (await http.get("/telemetry/gpu-0")).json()
    assert answer["packagePowerWatts"] == answer["cpu"]["packagePowerWatts"] == 100.0
    assert [package["powerWatts"] for package in answer["cpu"]["packages"]] == [50.0, 50.0]
    assert (answer["cpu"]["capWatts"], answer["cpu"]["throttlePct"]) == (250.0, 0.0)
    cpu = CpuHardware.model_validate(answer["cpu"])
    assert (cpu.model, cpu.sockets, cpu.total_cores, cpu.cap_range.min_watts_per_socket) == ("Test CPU", 2, 16, 100.0)
    gpu = GpuHardware.model_validate(answer["gpu"])
    assert (gpu.present, gpu.count, gpu.cap_range_per_gpu.default_watts, gpu.current_cap_watts) == (
        True,
        4,
        400.0,
        400.0,
    )
    assert [device.uuid for device in gpu.devices] == [f"GPU-gpu-0-{index}" for index in range(4)]
    assert answer["gpu"]["powerWatts"] == sum(device["powerWatts"] for device in answer["gpu"]["devices"]) == 160.0


async def test_telemetry_of_a_node_without_gpus_has_no_gpu(http):
    assert "gpu" not in await (await http.get("/telemetry/cpu-0")).json()


async def test_a_cap_is_applied_and_read_back(http):
    reply = await (await http.post("/control/cpu-0", json=cap("cpu-0", 120))).json()
    assert reply == {"result": "applied", "message": "", "state": {"capWatts": 120.0, "throttlePct": 0.0}}
    assert (await (await http.get("/telemetry/cpu-0")).json())["cpu"]["capWatts"] == 120.0


async def test_a_cap_outside_the_range_is_clamped_with_a_message(http):
    reply = await (await http.post("/control/cpu-0", json=cap("cpu-0", 5000))).json()
    assert (reply["result"], reply["state"]["capWatts"]) == ("applied", 250.0)
    assert "clamped" in reply["message"]


async def test_gpu_caps_of_a_node_without_gpus_are_blocked(http):
    body = {"node": "cpu-0", "action": "gpu.set_power_cap_watts", "capWattsPerGpu": 100}
    answer = await http.post("/control/cpu-0", json=body)
    assert answer.status == HTTPStatus.OK
    assert (await answer.json())["result"] == "blocked"


async def test_an_unknown_node_is_404_with_a_json_refusal(http):
    for answer in (await http.get("/telemetry/nowhere"), await http.post("/control/nowhere", json=cap("nowhere", 100))):
        assert answer.status == HTTPStatus.NOT_FOUND
        assert await answer.json() == {"result": "error", "message": "no node nowhere"}


async def test_a_malformed_control_is_400_and_changes_nothing(http):
    answer = await http.post("/control/cpu-0", data=b"{")
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert (await answer.json())["result"] == "error"
    assert (await (await http.get("/telemetry/cpu-0")).json())["cpu"]["capWatts"] == 250.0


async def test_state_has_every_node_and_the_totals(http):
    state = await (await http.get("/state")).json()
    assert state["speed"] == 2.0
    assert set(state["nodes"]) == {"cpu-0", "gpu-0"}
    assert state["watts"] == sum(node["watts"] for node in state["nodes"].values()) == 360.0
    assert state["nodes"]["gpu-0"]["capWatts"] == 2 * 250.0 + 4 * 400.0
    assert state["completed"]["performance"] == {"pods": 0, "workSeconds": 0.0, "meanSlowdown": None}


@pytest.mark.parametrize("effect", ["blocked", "error"])
async def test_a_fault_refuses_one_action_and_leaves_the_others(http, effect):
    fault = {"target": "rapl.set_power_cap_watts", "effect": effect, "message": "locked by firmware"}
    assert (await http.put("/faults/cpu-0", json=fault)).status == HTTPStatus.OK
    reply = await (await http.post("/control/cpu-0", json=cap("cpu-0", 120))).json()
    assert (reply["result"], reply["message"]) == (effect, "locked by firmware")
    assert reply["state"]["capWatts"] == 250.0
    throttle = {"action": "dvfs.set_throttle_pct", "throttlePct": 30}
    assert (await (await http.post("/control/cpu-0", json=throttle)).json())["result"] == "applied"
    assert (await http.delete("/faults/cpu-0")).status == HTTPStatus.NO_CONTENT
    assert (await (await http.post("/control/cpu-0", json=cap("cpu-0", 120))).json())["result"] == "applied"


async def test_a_fault_of_every_node_holds_where_a_node_has_none_of_its_own(http):
    await http.put("/faults/*", json={"target": "telemetry", "effect": "broken"})
    await http.put("/faults/gpu-0", json={"target": "telemetry", "effect": "slow", "delaySeconds": 0.01})
    assert (await http.get("/telemetry/cpu-0")).status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert (await http.get("/telemetry/gpu-0")).status == HTTPStatus.OK


async def test_a_broken_control_is_500(http):
    await http.put("/faults/cpu-0", json={"target": "rapl.set_power_cap_watts", "effect": "broken"})
    answer = await http.post("/control/cpu-0", json=cap("cpu-0", 120))
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR


async def test_a_malformed_fault_is_400(http):
    for bad in ({"target": "everything", "effect": "blocked"}, {"target": "telemetry", "effect": "slow", "delay": 1}):
        assert (await http.put("/faults/cpu-0", json=bad)).status == HTTPStatus.BAD_REQUEST
