"""The whole agent over GPUs in memory: from holders and annotations to the status, the series and what is set."""

import asyncio
import os
import time
from contextlib import asynccontextmanager

import pytest

from joulie_actuator import subsystems
from joulie_actuator.server import Admission
from joulie_agent.class_limits.shadow import ShadowLimits
from joulie_agent.holders.answer import encode_answer, now_socket
from joulie_api.container_starts import HookState
from joulie_containers.start_hook.controller import AskOutcome, ControllerLink, listening
from joulie_core.class_caps import enforced_limit
from joulie_core.holders.records import DeviceListing, ListedContainer, ListedPod, PluginDevice
from joulie_core.labels import MAX_SLOWDOWN, WORKLOAD_CLASS
from joulie_testing.agent.fake_gpu import FakeGpu, fake_gpu_driver
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS
from joulie_testing.api import Respond, make_node, make_node_power_profile, make_pod

LISTED = (ListedPod("ml", "train", (ListedContainer("main", (PluginDevice("nvidia.com/gpu", "GPU-a"),)),)),)


@asynccontextmanager
async def holders(path, listed=lambda: LISTED):
    """Answer as `joulie-agent holders` does, at once and always currently."""

    async def answer(_reader, writer):
        writer.write(encode_answer(DeviceListing(listed(), time.time()), 0.0))
        writer.close()

    async with await asyncio.start_unix_server(answer, path), await asyncio.start_unix_server(answer, now_socket(path)):
        yield


def namespace(name, slowdown):
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "annotations": {MAX_SLOWDOWN: slowdown}},
    }


@pytest.fixture
def library(monkeypatch):
    gpus = FakeGpu("GPU-a", model="NVIDIA A100 80GB PCIe", max_mw=300_000, default_mw=300_000, limit_mw=300_000)
    driver, library = fake_gpu_driver(gpus)
    monkeypatch.setattr(subsystems, "host_gpu_drivers", lambda _sys_root: (driver,))
    return library


@pytest.fixture
def env(tmp_path):
    machine = FakeMachine(tmp_path / "machine", PLATFORMS["xeon-2s"])
    return {
        "AGENT_MODE": "daemonset",
        "NODE_NAME": "n1",
        "TELEMETRY_CPU_SOURCE": "host",
        "TELEMETRY_CPU_CONTROL": "host",
        "TELEMETRY_GPU_CONTROL": "host",
        "HARDWARE_ACCESS": "in-process",
        "HOST_SYS_ROOT": str(machine.sys),
        "HOST_PROC_ROOT": str(machine.proc),
        "STATE_DIR": str(tmp_path / "state"),
        "HOLDERS_SOCKET": str(tmp_path / "holders.sock"),
    }


def device(cluster):
    profile = cluster.api.get("TelemetryProfile", "n1") or {}
    devices = profile.get("status", {}).get("devices") or [{}]
    return devices[0]


async def test_the_limit_of_a_gpu_is_reported_and_counted_and_nothing_is_set(cluster, library, env):
    pod = make_pod("train", "ml", node="n1", gpu=1)
    pod["status"]["startTime"] = "2026-01-01T00:00:00Z"
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), pod])
    async with holders(env["HOLDERS_SOCKET"]):
        agent = await cluster.start_agent(**env)
        await cluster.api.wait_for(lambda: device(cluster).get("classLimit", {}).get("reason") == "ClockLimited")

    found = device(cluster)
    assert (found["heldAs"], found["holders"][0]["pod"]) == ("standard", "train")
    # 1980 / 1.1; the lowest useful clock of the model, 71 % of 1980, is below it.
    assert found["classLimit"]["clockMhz"] == 1800
    assert (found["classLimit"]["heldClockMhz"], found["classLimit"]["allowedSlowdown"]) == (1980, "10%")
    series = await agent.series("n1")
    assert series['joulie_class_limit_gpus{limited="true",reason="ClockLimited"}'] == 1
    assert series['joulie_class_limit_saved_watts{bound="upper"}'] > 0
    assert (library.writes, library.clock_writes) == (0, 0)


async def test_a_defect_of_what_sets_nothing_stops_no_report(cluster, library, env, monkeypatch):
    def fail(*_arguments):
        raise RuntimeError("a defect")

    monkeypatch.setattr(ShadowLimits, "step", fail)
    cluster.api.put(make_node("n1"))
    async with holders(env["HOLDERS_SOCKET"]):
        agent = await cluster.start_agent(**env)
        await cluster.api.wait_for(lambda: device(cluster).get("heldAs") is not None)
        metrics = (await agent.get("/metrics"))[1]

    assert "classLimit" not in device(cluster)
    errors = [line for line in metrics.splitlines() if "limits by class" in line]
    assert [float(line.rpartition(" ")[2]) > 0 for line in errors if "_created" not in line] == [True]


async def test_without_the_right_to_read_namespaces_the_agent_is_ready_and_nothing_is_limited(cluster, library, env):
    pod = make_pod("train", "ml", node="n1", gpu=1)
    pod["status"]["startTime"] = "2026-01-01T00:00:00Z"
    cluster.api.put_all([make_node("n1"), pod])
    cluster.api.faults.add(Respond(403), verb="list", path="/namespaces", times=None)
    async with holders(env["HOLDERS_SOCKET"]):
        agent = await cluster.start_agent(**env, DEFAULT_MAX_SLOWDOWN="50%")
        await cluster.api.wait_for(lambda: device(cluster).get("classLimit", {}).get("message"))
        assert (await agent.get("/readyz"))[0] == 200

    found = device(cluster)["classLimit"]
    assert (found["reason"], found["message"]) == ("NoSlowdownAllowed", "pod ml/train: the Namespace was not seen")


async def test_off_watches_no_namespace_and_reports_no_limit(cluster, library, env):
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%")])
    async with holders(env["HOLDERS_SOCKET"]):
        await cluster.start_agent(**env, CLASS_LIMITS="Off")
        await cluster.api.wait_for(lambda: device(cluster).get("heldAs") is not None)

    assert "classLimit" not in device(cluster)
    assert [
        each for each in cluster.api.requests if "/namespaces" in each.path and each.verb in ("list", "watch")
    ] == []
    assert library.writes == 0


def namespace_without_word(name):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def wait_until(condition):
    """Wait for what is not seen through the API server."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def enforced(cluster):
    return device(cluster).get("classLimit", {}).get("enforced", {})


def started(name, **more):
    pod = make_pod(name, "ml", node="n1", gpu=1, **more)
    pod["status"] |= {"startTime": "2026-01-01T00:00:00Z", "phase": "Running"}
    return pod


@pytest.fixture
def at_once(monkeypatch):
    """Set limits at the first look that allows them."""
    monkeypatch.setattr(enforced_limit, "SETTLED_S", 0.0)


async def test_a_limit_is_set_reported_and_lifted_when_the_gpu_is_handed_over(cluster, library, env, at_once):
    listed = LISTED
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train")])
    async with holders(env["HOLDERS_SOCKET"], lambda: listed):
        agent = await cluster.start_agent(**env, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")
        assert library.gpus[0].clock_mhz == 1800
        assert enforced(cluster) == {
            "reason": "Set",
            "limitMhz": 1800,
            "message": "",
            "liftedBy": "Polling",
            "liftedWithinSeconds": 6,
        }
        series = await agent.series("n1")
        assert (series["joulie_class_limit_set_gpus"], series["joulie_class_limit_without_consent_gpus"]) == (1, 0)

        cluster.api.put(started("serve", annotations={WORKLOAD_CLASS: "performance"}))
        listed = (ListedPod("ml", "serve", LISTED[0].containers),)
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "NoLimit")
        assert library.gpus[0].clock_mhz == 1980
        assert (await agent.series("n1"))["joulie_class_limit_lifts_total"] == 1


async def test_the_clusters_default_alone_sets_nothing(cluster, library, env, at_once):
    cluster.api.put_all([make_node("n1"), namespace_without_word("ml"), started("train")])
    async with holders(env["HOLDERS_SOCKET"]):
        await cluster.start_agent(**env, CLASS_LIMITS="Enforce", DEFAULT_MAX_SLOWDOWN="10%")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "NoConsent")
    assert (device(cluster)["classLimit"]["reason"], library.clock_writes) == ("ClockLimited", 0)


async def test_the_clusters_default_is_consent_by_an_administrators_word(cluster, library, env, at_once):
    cluster.api.put_all([make_node("n1"), namespace_without_word("ml"), started("train")])
    async with holders(env["HOLDERS_SOCKET"]):
        await cluster.start_agent(
            **env, CLASS_LIMITS="Enforce", DEFAULT_MAX_SLOWDOWN="10%", DEFAULT_SLOWDOWN_IS_CONSENT="true"
        )
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")


async def test_where_the_routing_turns_gpu_controls_off_nothing_is_set(cluster, library, env, at_once):
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train")])
    async with holders(env["HOLDERS_SOCKET"]):
        await cluster.start_agent(**env | {"TELEMETRY_GPU_CONTROL": "none"}, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "NotControlled")
    assert library.clock_writes == 0


async def test_a_node_that_leaves_loses_its_limits(cluster, library, env, at_once):
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train")])
    async with holders(env["HOLDERS_SOCKET"]):
        await cluster.start_agent(**env, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")
        cluster.api.put(make_node("n1", managed=False))
        await asyncio.to_thread(wait_until, lambda: library.gpus[0].clock_mhz == 1980)


async def test_a_limit_is_lifted_and_not_set_while_the_target_says_so(cluster, library, env, at_once):
    target = make_node_power_profile("n1", "performance")
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train"), target])
    async with holders(env["HOLDERS_SOCKET"]):
        agent = await cluster.start_agent(**env, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")
        assert library.gpus[0].clock_mhz == 1800

        target["spec"]["classLimits"] = {"lifted": True, "reason": "GpusInDemand"}
        cluster.api.put(target)
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "NoLimit")
        assert library.gpus[0].clock_mhz == 1980
        assert device(cluster)["classLimit"]["reason"] == "GpusInDemand"
        series = await agent.series("n1")
        assert series['joulie_class_limit_gpus{limited="false",reason="GpusInDemand"}'] == 1
        assert series["joulie_class_limit_lifts_total"] == 1

        del target["spec"]["classLimits"]
        cluster.api.put(target)
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")
        assert library.gpus[0].clock_mhz == 1800


async def test_a_node_whose_target_is_deleted_is_limited_again(cluster, library, env, at_once):
    target = make_node_power_profile("n1", "performance")
    target["spec"]["classLimits"] = {"lifted": True}
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train"), target])
    async with holders(env["HOLDERS_SOCKET"]):
        await cluster.start_agent(**env, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: device(cluster).get("classLimit", {}).get("reason") == "GpusInDemand")
        assert (library.gpus[0].clock_mhz, library.clock_writes) == (1980, 0)
        cluster.api.remove("NodePowerProfile", "n1")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")


@pytest.fixture
async def start_hook(tmp_path, env):
    """The start hook's socket, which the runtime asks."""
    path = tmp_path / "start-hook.sock"
    env["START_HOOK_SOCKET"] = str(path)
    link = ControllerLink(10.0)
    link.tell(HookState(registered=True, deadline_s=0.5))
    async with listening(link, path, Admission(os.geteuid(), os.getegid())):
        yield link


async def test_a_limit_is_lifted_before_the_container_of_another_pod_starts(cluster, library, env, at_once, start_hook):
    listed = LISTED
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train")])
    async with holders(env["HOLDERS_SOCKET"], lambda: listed):
        await cluster.start_agent(**env, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")
        assert (enforced(cluster)["liftedBy"], enforced(cluster)["liftedWithinSeconds"]) == ("BeforeStart", 0.5)
        start_hook.tell(HookState(registered=True, deadline_s=10.0))

        serve = cluster.api.put(started("serve", annotations={WORKLOAD_CLASS: "performance"}))
        listed = (ListedPod("ml", "serve", LISTED[0].containers),)
        assert library.gpus[0].clock_mhz == 1800
        assert await start_hook.ask("ml", "serve", serve["metadata"]["uid"]) is AskOutcome.ANSWERED
        assert library.gpus[0].clock_mhz == 1980

        start_hook.tell(HookState(registered=False, deadline_s=0.5))
        await cluster.api.wait_for(lambda: enforced(cluster).get("liftedBy") == "Polling")
        assert enforced(cluster)["liftedWithinSeconds"] == 6
    assert [each for each in cluster.api.requests if each.verb == "create" and "/events" in each.path] == []


async def test_a_limit_that_cannot_be_lifted_before_a_start_is_an_event_of_the_pod(
    cluster, library, env, at_once, start_hook
):
    listed = LISTED
    cluster.api.put_all([make_node("n1"), namespace("ml", "10%"), started("train")])
    async with holders(env["HOLDERS_SOCKET"], lambda: listed):
        await cluster.start_agent(**env, CLASS_LIMITS="Enforce")
        await cluster.api.wait_for(lambda: enforced(cluster).get("reason") == "Set")
        library.clock_permitted = False
        serve = cluster.api.put(started("serve", annotations={WORKLOAD_CLASS: "performance"}))
        listed = (ListedPod("ml", "serve", LISTED[0].containers),)
        assert await start_hook.ask("ml", "serve", serve["metadata"]["uid"]) is AskOutcome.ANSWERED
        await cluster.api.wait_for(
            lambda: any(each.verb == "create" and "/events" in each.path for each in cluster.api.requests)
        )
        library.clock_permitted = True
        await asyncio.to_thread(wait_until, lambda: library.gpus[0].clock_mhz == 1980)

    sent = next(each for each in cluster.api.requests if each.verb == "create" and "/events" in each.path)
    assert (sent.path, sent.json()["involvedObject"]["uid"]) == (
        "/api/v1/namespaces/ml/events",
        serve["metadata"]["uid"],
    )
    assert (sent.json()["type"], sent.json()["reason"]) == ("Warning", "ClassLimitNotLifted")
    assert "GPU GPU-a is still limited to 1800 MHz, held by pod ml/serve" in sent.json()["message"]
