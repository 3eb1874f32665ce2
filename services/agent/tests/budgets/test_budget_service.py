"""The whole agent with power budgets: real watches, real HTTP to a scripted backend."""

import asyncio

import pytest
from structlog.testing import capture_logs

from joulie_api import optional_watch
from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_core.labels import MANAGED
from joulie_testing.api import Respond, make_node_power_budget

CPU_CAP, GPU_CAP = "rapl.set_power_cap_watts", "gpu.set_power_cap_watts"
ON = {"POWER_BUDGETS": "On", "RECONCILE_INTERVAL": "1h"}
PATH = f"{NODE_POWER_BUDGETS.plural}/n1"
#: Of 2 packages at 100 to 250 W and 4 GPUs at 100 to 400 W.
LOWEST, HIGHEST = 600, 2100


def budget_status(cluster, node="n1"):
    return (cluster.api.get("NodePowerBudget", node) or {}).get("status", {})


def condition(cluster, node="n1"):
    found = budget_status(cluster, node).get("conditions", [])
    return found[0] if found else {}


def ask(cluster, limit_watts, node="n1", **spec):
    """Ask a node for a limit; the status of an object that is there stays."""
    if cluster.api.get("NodePowerBudget", node) is None:
        spec = {"nodeUID": "u1", "bootID": "b1"} | spec
        cluster.api.put(make_node_power_budget(node, limit_watts=limit_watts, **spec))
    else:
        cluster.api.patch("NodePowerBudget", node, {"spec": {"limitWatts": limit_watts, **spec}})


async def until_told(cluster, node="n1", **expected):
    """Wait for a status with these fields; a field of None is absent."""

    def told():
        status = budget_status(cluster, node)
        return bool(status) and all(status.get(key) == value for key, value in expected.items())

    try:
        await cluster.api.wait_for(told)
    except TimeoutError:
        pytest.fail(f"the status is {budget_status(cluster, node)}, not {expected}")
    return budget_status(cluster, node)


async def until_state(cluster, reason, node="n1"):
    try:
        await cluster.api.wait_for(lambda: condition(cluster, node).get("reason") == reason)
    except TimeoutError:
        pytest.fail(f"the condition is {condition(cluster, node)}, not {reason}")
    return budget_status(cluster, node)


def status_writes(cluster):
    return [request for request in cluster.api.requests if request.path.endswith(PATH + "/status")]


async def test_a_budget_alone_caps_packages_and_gpus_and_tells_what_was_read_back(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 900)
    await cluster.start_agent(**ON)
    status = await until_told(cluster, sequence=1, inForceWatts=900)
    assert (node.cap_watts, node.gpu_cap_watts) == (150, 150)
    assert (status["cpuWatts"], status["gpuWatts"], status["refused"], status["renewal"]) == (150, 150, False, 1)
    assert (status["nodeUID"], status["bootID"]) == ("u1", "b1")
    assert {key: condition(cluster)[key] for key in ("type", "status", "reason")} == {
        "type": "InForce",
        "status": "True",
        "reason": "AsAsked",
    }
    report = await cluster.until_reported("n1", result="applied", requestedWatts=150, enforcedWatts=150)
    assert report["message"] == "capped by the power budget of 900 W for the node"
    assert report["capSource"] == "budget"


async def test_budgets_that_are_switched_off_are_neither_read_nor_enforced(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 900)
    await cluster.start_agent()
    await cluster.until_reported("n1", reason="NoProfile")
    assert (node.cap_watts, budget_status(cluster)) == (None, {})
    assert not [request for request in cluster.api.requests if NODE_POWER_BUDGETS.plural in request.path]


@pytest.mark.parametrize("first", ["profile", "budget"])
async def test_the_lower_of_profile_and_budget_applies_whichever_comes_first(cluster, first):
    node = cluster.add_node("n1", target=first == "profile", gpu_watts=900)
    if first == "budget":
        ask(cluster, 1200)
    await cluster.start_agent(**ON)
    if first == "budget":
        await until_told(cluster, inForceWatts=1200)
        cluster.set_target("n1", cpu={"packagePowerCapWatts": 150})
    else:
        await cluster.until_reported("n1", enforcedWatts=150)
        ask(cluster, 1200)
    await until_told(cluster, sequence=1, inForceWatts=1100)
    report = await cluster.until_reported("n1", "gpu", enforcedWatts=200)
    assert report["message"] == "capped by the power budget of 1200 W for the node"
    assert (node.cap_watts, node.gpu_cap_watts) == (150, 200)
    if first == "budget":
        report = await cluster.until_reported("n1", enforcedWatts=150)
        assert report["message"] == "capped by the profile, below the power budget of 1200 W for the node"
        assert report["capSource"] == "profile"
    ask(cluster, 720, sequence=2)
    await until_told(cluster, sequence=2, inForceWatts=720)
    assert (node.cap_watts, node.gpu_cap_watts) == (120, 120)
    ask(cluster, HIGHEST, sequence=3)
    await until_told(cluster, sequence=3, inForceWatts=1900)
    assert (node.cap_watts, node.gpu_cap_watts) == (150, 400)


async def test_no_status_tells_of_a_limit_before_it_was_read_back(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 1200)
    await cluster.start_agent(**ON)
    await until_told(cluster, sequence=1)
    held = asyncio.Event()
    node.script[GPU_CAP] = held
    writes = len(status_writes(cluster))
    ask(cluster, 900, sequence=2)
    await cluster.backend.until(lambda: node.cap_watts == 150)
    assert (len(status_writes(cluster)), budget_status(cluster)["sequence"]) == (writes, 1)
    held.set()
    await until_told(cluster, sequence=2, inForceWatts=900)
    assert node.gpu_cap_watts == 150


async def test_an_endpoint_is_recorded_before_a_budget_caps_anything_there(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    node.script[CPU_CAP] = node.script[GPU_CAP] = asyncio.Event()
    ask(cluster, 900)
    await cluster.start_agent(**ON)
    for subsystem in ("cpu", "gpu"):
        await cluster.api.wait_for(lambda subsystem=subsystem: cluster.status("n1", subsystem).get("places"))
        assert cluster.status("n1", subsystem)["places"][0]["cap"] == "unknown"
    assert (node.cap_watts, node.gpu_cap_watts) == (None, None)
    node.script[CPU_CAP].set()
    await until_told(cluster, inForceWatts=900)


async def test_a_deleted_budget_is_lifted_to_the_profile_and_without_one_to_the_maximum(cluster):
    with_profile = cluster.add_node("n1", gpu_watts=900)
    without = cluster.add_node("n2", target=False, gpu_watts=900)
    for name in ("n1", "n2"):
        ask(cluster, 720, node=name)
    await cluster.start_agent(**ON)
    for name in ("n1", "n2"):
        await until_told(cluster, name, inForceWatts=720)
        cluster.api.remove("NodePowerBudget", name)
    await cluster.until_reported("n1", enforcedWatts=150)
    await cluster.until_reported("n1", "gpu", reason="Restored")
    await cluster.until_reported("n2", reason="Restored")
    await cluster.until_reported("n2", "gpu", reason="Restored")
    assert (with_profile.cap_watts, with_profile.gpu_cap_watts) == (150, 400)
    assert (without.cap_watts, without.gpu_cap_watts) == (250, 400)
    assert "budget" not in cluster.status("n1").get("message", "")


async def test_a_budget_that_was_deleted_while_no_agent_ran_is_lifted(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720)
    agent = await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=720)
    await cluster.until_reported("n1", "gpu", enforcedWatts=120)
    await agent.kill()
    cluster.api.remove("NodePowerBudget", "n1")
    await cluster.start_agent(**ON)
    await cluster.until_reported("n1", reason="Restored")
    await cluster.until_reported("n1", "gpu", reason="Restored")
    assert (node.cap_watts, node.gpu_cap_watts) == (250, 400)


async def test_a_node_that_leaves_is_restored_whatever_its_budget(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720)
    await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=720)
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {MANAGED: None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    assert (node.cap_watts, node.gpu_cap_watts) == (250, 400)


async def test_an_older_ask_changes_nothing_and_is_told(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, sequence=5)
    await cluster.start_agent(**ON)
    await until_told(cluster, sequence=5)
    ask(cluster, 1800, sequence=4, renewal=9)
    status = await until_state(cluster, "OlderAsk")
    assert (status["sequence"], status["renewal"], status["inForceWatts"]) == (5, 1, 720)
    assert (node.cap_watts, condition(cluster)["status"]) == (120, "False")
    ask(cluster, 1200, sequence=6)
    await until_told(cluster, sequence=6, inForceWatts=1200)


async def test_after_a_restart_an_older_ask_changes_nothing(cluster):
    cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, sequence=5)
    agent = await cluster.start_agent(**ON)
    await until_told(cluster, sequence=5)
    await agent.kill()
    cluster.backend.bodies.clear()
    cluster.api.patch("NodePowerBudget", "n1", {"spec": {"sequence": 4, "limitWatts": 1800, "renewal": 9}})
    await cluster.start_agent(**ON)
    status = await until_state(cluster, "OlderAsk")
    assert (status["sequence"], status["inForceWatts"], status["cpuWatts"], status["gpuWatts"]) == (5, 720, 120, 120)
    bodies = [body for body in cluster.backend.bodies if body["action"] in {CPU_CAP, GPU_CAP}]
    assert {body.get("capWatts", body.get("capWattsPerGpu")) for body in bodies} == {120}


async def test_a_limit_of_another_boot_is_put_in_force_and_told_as_asked(cluster):
    cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, sequence=5)
    await cluster.start_agent(**ON)
    await until_told(cluster, sequence=5)
    ask(cluster, 1200, sequence=1, bootID="b2")
    await until_told(cluster, sequence=1, bootID="b2", inForceWatts=1200)


async def test_an_object_in_the_place_of_another_starts_anew(cluster):
    cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, sequence=5)
    await cluster.start_agent(**ON)
    await until_told(cluster, sequence=5)
    cluster.api.remove("NodePowerBudget", "n1")
    ask(cluster, 1200, sequence=1)
    await until_told(cluster, sequence=1, inForceWatts=1200)


async def test_each_renewal_is_repeated_and_nothing_is_written_between_two(cluster):
    cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 900)
    await cluster.start_agent(**{**ON, "RECONCILE_INTERVAL": "50ms"})
    await until_told(cluster, renewal=1)
    for renewal in (2, 3):
        cluster.api.patch("NodePowerBudget", "n1", {"spec": {"renewal": renewal}})
        await until_told(cluster, renewal=renewal)
    writes, seen = len(status_writes(cluster)), cluster.backend.count("n1", CPU_CAP)
    await cluster.backend.until(lambda: cluster.backend.count("n1", CPU_CAP) >= seen + 5)
    assert (len(status_writes(cluster)), writes) == (3, 3)


async def test_a_limit_is_released_when_its_lease_ends_and_returns_with_a_renewal(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, onLostControl="Release", leaseSeconds=1)
    await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=720)
    status = await until_state(cluster, "LeaseEnded")
    assert (node.cap_watts, node.gpu_cap_watts) == (250, 400)
    assert (status.get("inForceWatts"), status["refused"], status["sequence"]) == (None, False, 1)
    assert (status.get("cpuWatts"), status.get("gpuWatts")) == (None, None)
    cluster.api.patch("NodePowerBudget", "n1", {"spec": {"renewal": 2, "leaseSeconds": 300}})
    await until_told(cluster, renewal=2, inForceWatts=720)
    assert (node.cap_watts, node.gpu_cap_watts) == (120, 120)


async def test_a_limit_that_is_kept_outlasts_its_lease_and_the_profile(cluster, monkeypatch):
    node = cluster.add_node("n1", gpu_watts=900)
    ask(cluster, 960, leaseSeconds=1)
    await cluster.start_agent(**{**ON, "RECONCILE_INTERVAL": "100ms"})
    status = await until_state(cluster, "KeptWithoutRenewal")
    assert (status["inForceWatts"], condition(cluster)["status"]) == (940, "True")
    monkeypatch.setattr("joulie_agent.informers.Informers.targets_age_s", lambda _self: 301.0)
    await until_told(cluster, inForceWatts=960)
    assert (node.cap_watts, node.gpu_cap_watts) == (160, 160)


async def test_a_limit_lasts_while_the_api_server_is_away(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, leaseSeconds=1)
    await cluster.start_agent(**{**ON, "RECONCILE_INTERVAL": "100ms"})
    await until_told(cluster, inForceWatts=720)
    await cluster.until_reported("n1", "gpu", enforcedWatts=120)
    await cluster.api.stop()
    node.cap_watts = node.gpu_cap_watts = None
    await cluster.backend.until(lambda: (node.cap_watts, node.gpu_cap_watts) == (120, 120))
    await asyncio.sleep(1.1)  # the length of the lease
    seen = cluster.backend.count("n1", CPU_CAP)
    await cluster.backend.until(lambda: cluster.backend.count("n1", CPU_CAP) >= seen + 2)
    assert (node.cap_watts, node.gpu_cap_watts) == (120, 120)


async def test_a_limit_is_released_while_the_api_server_is_away(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720, leaseSeconds=2, onLostControl="Release")
    await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=720)
    await cluster.until_reported("n1", "gpu", enforcedWatts=120)
    await cluster.api.stop()
    assert node.cap_watts == 120
    await cluster.backend.until(lambda: (node.cap_watts, node.gpu_cap_watts) == (250, 400))


@pytest.mark.parametrize(
    ("limit", "caps", "message"),
    [
        (
            590,
            (100, 100),
            "590 W asked; the lowest limits of 2 CPU packages and 4 GPUs are 600 W together, and are set",
        ),
        (0, (100, 100), "0 W asked; the lowest limits of 2 CPU packages and 4 GPUs are 600 W together, and are set"),
    ],
)
async def test_a_limit_below_the_hardware_is_refused_with_the_numbers_and_the_lowest_is_set(
    cluster, limit, caps, message
):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, limit)
    await cluster.start_agent(**ON)
    status = await until_state(cluster, "BelowMinimum")
    assert (status["refused"], status["inForceWatts"]) == (True, LOWEST)
    assert ((node.cap_watts, node.gpu_cap_watts), condition(cluster)["message"]) == (caps, message)


async def test_a_limit_that_no_site_draws_is_the_maximum_of_each_device(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 1e308)
    await cluster.start_agent(**ON)
    await until_told(cluster, sequence=1, inForceWatts=HIGHEST)
    assert (node.cap_watts, node.gpu_cap_watts) == (250, 400)


async def test_an_ask_of_no_limit_is_applied_and_lifts_the_one_before(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720)
    await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=720)
    ask(cluster, None, sequence=2)
    status = await until_told(cluster, sequence=2, inForceWatts=None)
    assert (node.cap_watts, node.gpu_cap_watts, status["refused"]) == (250, 400, False)
    assert (condition(cluster)["status"], condition(cluster)["reason"]) == ("True", "NoLimit")


@pytest.mark.parametrize("spoilt", [{"limitWatts": "NaN"}, {"limitWatts": -5}, {"leaseSeconds": 0}, {"renewal": 2**64}])
async def test_a_spec_that_cannot_be_read_leaves_the_last_one_in_force(cluster, spoilt):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720)
    agent = await cluster.start_agent(**{**ON, "RECONCILE_INTERVAL": "50ms"})
    await until_told(cluster, inForceWatts=720)
    cluster.api.patch("NodePowerBudget", "n1", {"spec": {"sequence": 2, "limitWatts": 1800, **spoilt}})
    while 'resource="nodepowerbudgets.joulie.io"} 1.0' not in (await agent.get("/metrics"))[1]:
        pass
    seen = cluster.backend.count("n1", CPU_CAP)
    await cluster.backend.until(lambda: cluster.backend.count("n1", CPU_CAP) >= seen + 2)
    assert (node.cap_watts, node.gpu_cap_watts, budget_status(cluster)["sequence"]) == (120, 120, 1)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({GPU_CAP: {"result": "blocked", "message": "no permission"}}, "GPU: blocked no permission"),
        ({GPU_CAP: 500}, "GPU: error"),
        ({CPU_CAP: {"result": "blocked", "message": "locked"}}, "CPU: blocked locked"),
        ({CPU_CAP: {"result": "applied", "state": {}}}, "CPU: applied"),
        ({GPU_CAP: {"result": "applied", "state": {"capWattsPerGpu": "NaN"}}}, "GPU: applied"),
    ],
)
async def test_a_limit_that_a_device_does_not_confirm_is_refused_without_watts(cluster, script, message):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720)
    await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=720)
    node.script.update(script)
    ask(cluster, 900, sequence=2)
    status = await until_told(cluster, sequence=2, refused=True, inForceWatts=None)
    assert condition(cluster)["reason"] == "NotHeld"
    assert condition(cluster)["message"].startswith(message)
    node.script.clear()
    cluster.api.patch("NodePowerBudget", "n1", {"spec": {"renewal": 2}})
    await until_told(cluster, sequence=2, refused=False, inForceWatts=900)
    assert status["cpuWatts"] == 150


async def test_a_throttle_is_no_limit(cluster):
    node = cluster.add_node("n1", target=False, cpu_watts=500, gpu_watts=900)
    ask(cluster, 720)
    await cluster.start_agent(**ON, TELEMETRY_CPU_CONTROL_MODE="dvfs", DVFS_COOLDOWN="0s")
    status = await until_told(cluster, sequence=1, refused=True, inForceWatts=None)
    assert condition(cluster)["message"] == "CPU: held by a loop, which is no limit"
    assert (node.cap_watts, node.gpu_cap_watts, status["cpuWatts"]) == (None, 120, 120)


async def test_firmware_that_holds_more_is_told_with_what_it_holds(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    node.script[CPU_CAP] = {"result": "applied", "state": {"capWatts": 180}}
    ask(cluster, 720)
    await cluster.start_agent(**ON)
    status = await until_state(cluster, "HeldHigher")
    assert (status["inForceWatts"], status["refused"], condition(cluster)["status"]) == (840, False, "False")


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"gpu_watts": None}, "the number of GPUs is not known"),
        ({"gpu_watts": 900, "facts": {"gpu": {"present": False}}}, "the number of CPU packages is not known"),
        (
            {"facts": {"cpu": {"model": "Test CPU", "sockets": 2}, "gpu": {"present": False}}, "gpu_watts": 0},
            "the range of a limit of 2 CPU packages is not known",
        ),
    ],
)
async def test_a_node_whose_devices_are_not_all_known_is_not_capped_and_refused(cluster, knobs, message):
    node = cluster.add_node("n1", target=False, **knobs)
    ask(cluster, 720)
    await cluster.start_agent(**ON)
    status = await until_told(cluster, sequence=1, refused=True, inForceWatts=None)
    assert condition(cluster)["reason"] == "DevicesUnknown"
    assert message in condition(cluster)["message"]
    assert (node.cap_watts, node.gpu_cap_watts, status.get("cpuWatts")) == (None, None, None)


async def test_a_label_states_that_there_are_no_gpus(cluster):
    node = cluster.add_node("n1", target=False, labels={"joulie.io/hw.gpu-count": "0"})
    ask(cluster, 300)
    await cluster.start_agent(**ON)
    await until_told(cluster, sequence=1, refused=False, inForceWatts=300)
    assert node.cap_watts == 150


async def test_a_cluster_without_the_kind_is_served_by_profiles(cluster, monkeypatch):
    monkeypatch.setattr(optional_watch, "RECHECK_S", 0.0)
    node = cluster.add_node("n1", gpu_watts=900)
    ask(cluster, 720)
    cluster.api.faults.add(Respond(404), verb="list", path=NODE_POWER_BUDGETS.plural, times=None)
    agent = await cluster.start_agent(**ON)
    await cluster.until_reported("n1", enforcedWatts=150)
    assert (await agent.get("/readyz"))[0] == 200
    cluster.api.faults.clear()
    await until_told(cluster, inForceWatts=720)
    assert node.cap_watts == 120


async def test_no_node_is_acted_on_before_its_budget_may_be_read(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    ask(cluster, 720)
    agent = await cluster.start_agent(**ON)
    await cluster.until_reported("n1", "gpu", enforcedWatts=120)
    await agent.kill()
    cluster.backend.bodies.clear()
    cluster.api.faults.add(Respond(403), verb="list", path=NODE_POWER_BUDGETS.plural, times=None)
    with capture_logs() as logs:
        agent = await cluster.start_agent(**ON)
        async with asyncio.timeout(10):
            while not any("power budgets not watched" in log["event"] for log in logs):
                await agent.get("/healthz")
        assert (await agent.get("/readyz"))[0] == 503
    assert (cluster.backend.bodies, node.cap_watts) == ([], 120)
    cluster.api.faults.clear()


async def test_a_status_that_cannot_be_written_stops_no_other_and_is_written_later(cluster):
    cluster.add_node("n1", gpu_watts=900)
    ask(cluster, 720)
    cluster.api.faults.add(Respond(403), verb="apply", path=PATH, times=2)
    with capture_logs() as logs:
        agent = await cluster.start_agent(**{**ON, "RECONCILE_INTERVAL": "100ms"})
        await cluster.until_reported("n1", enforcedWatts=120)
        await until_told(cluster, inForceWatts=720)
        async with asyncio.timeout(10):
            while not any(log["event"] == "power budget reported again" for log in logs):
                await agent.get("/healthz")
    assert [log["event"] for log in logs].count("power budget not reported") == 1


async def test_an_agent_of_one_node_watches_the_budget_of_its_own_alone(cluster):
    for name in ("mine", "other"):
        cluster.add_node(name, target=False, gpu_watts=900)
        ask(cluster, 720, node=name)
    await cluster.start_agent(**ON, AGENT_MODE="daemonset", NODE_NAME="mine")
    await until_told(cluster, "mine", inForceWatts=720)
    assert budget_status(cluster, "other") == {}
    watched = [each for each in cluster.api.requests if each.path.endswith(NODE_POWER_BUDGETS.plural)]
    assert {each.query.get("fieldSelector") for each in watched if each.verb == "watch"} == {"metadata.name=mine"}


async def test_the_series_tell_limit_in_force_state_and_source(cluster):
    cluster.add_node("n1", gpu_watts=900)
    cluster.add_node("n2", gpu_watts=900)
    ask(cluster, 1200)
    agent = await cluster.start_agent(**ON)
    await until_told(cluster, inForceWatts=1100)
    await cluster.until_reported("n2", enforcedWatts=150)
    series = await agent.series("n1")
    assert series["joulie_power_budget_limit_watts"] == 1200
    assert series["joulie_power_budget_in_force_watts"] == 1100
    assert series["joulie_power_budget_refused"] == 0
    assert series['joulie_power_budget_state{reason="AsAsked"}'] == 1
    assert series['joulie_power_budget_state{reason="NotHeld"}'] == 0
    assert series['joulie_cap_source{source="profile",subsystem="cpu"}'] == 1
    assert series['joulie_cap_source{source="budget",subsystem="gpu"}'] == 1
    assert not [name for name in await agent.series("n2") if "budget" in name]
