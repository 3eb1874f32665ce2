"""The whole agent with an oversubscribed limit: real watches, real HTTP to a scripted backend."""

import asyncio
import json
import time

import pytest

from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_core.timestamps import rfc3339
from joulie_testing.api import Delay, Respond, make_node_power_budget

CPU_CAP = "rapl.set_power_cap_watts"
ON = {"POWER_BUDGETS": "On", "RECONCILE_INTERVAL": "1h"}
STATUS = f"{NODE_POWER_BUDGETS.plural}/n1/status"
REPORT = "telemetryprofiles/n1/status"
SAMPLE_S, HOLD_S = 1, 2
#: 900 W are 150 W for each of 2 packages and 4 GPUs, 660 W are 110 W.
LIMIT, FALLBACK = 900, 660
LIMIT_CAPS, FALLBACK_CAPS = (150, 150), (110, 110)


def oversubscription(sample=None, **fields):
    found = {"fallbackWatts": FALLBACK, "sampleSeconds": SAMPLE_S, "holdSeconds": HOLD_S} | fields
    return found if sample is None else found | {"sample": sample}


def budget(cluster):
    return cluster.api.get("NodePowerBudget", "n1") or {}


def told(cluster):
    """`status.oversubscription`."""
    return budget(cluster).get("status", {}).get("oversubscription", {})


def condition(cluster):
    found = budget(cluster).get("status", {}).get("conditions", [])
    return found[0] if found else {}


def writes(cluster, path=STATUS):
    return [request for request in cluster.api.requests if request.path.endswith(path)]


def caps(node):
    return node.cap_watts, node.gpu_cap_watts


def ask(cluster, limit=LIMIT, **spec):
    spec = {"nodeUID": "u1", "bootID": "b1", "oversubscription": oversubscription()} | spec
    cluster.api.put(make_node_power_budget("n1", limit_watts=limit, **spec))


def name(cluster, sample, **spec):
    """Name a sample, as the operator does: with a renewal."""
    renewal = budget(cluster)["spec"]["renewal"] + 1
    cluster.api.patch(
        "NodePowerBudget", "n1", {"spec": {"renewal": renewal, "oversubscription": {"sample": sample}, **spec}}
    )


async def until(cluster, condition):
    try:
        await cluster.api.wait_for(condition)
    except TimeoutError:
        pytest.fail(f"the object is {budget(cluster)}")


async def until_sampled(cluster, after=0):
    """Wait for a sample with a number that is not `after`; return it."""
    await until(cluster, lambda: told(cluster).get("sample", after) != after)
    return told(cluster)["sample"]


class Naming:
    """Names each new sample as soon as it is told, until it is stopped."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        named = 0
        while True:
            named = await until_sampled(self._cluster, named)
            name(self._cluster, named)

    async def stop(self):
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def raised(cluster):
    """A node with its limit in force, while samples are named."""
    node = cluster.add_node("n1", target=False, gpu_watts=400)
    ask(cluster)
    agent = await cluster.start_agent(**ON)
    naming = Naming(cluster)
    await until(cluster, lambda: told(cluster).get("fallingBack") is False)
    assert caps(node) == LIMIT_CAPS
    yield node, agent, naming
    await naming.stop()


async def until_fallen_back(cluster, node):
    """Wait until the fallback is set; return how many seconds that took."""
    started = time.monotonic()
    await cluster.backend.until(lambda: caps(node) == FALLBACK_CAPS)
    return time.monotonic() - started


async def test_a_node_is_at_its_fallback_until_a_sample_is_named(cluster):
    node = cluster.add_node("n1", target=False, cpu_watts=300, gpu_watts=400)
    ask(cluster)
    await cluster.start_agent(**ON)
    sample = await until_sampled(cluster)
    assert caps(node) == FALLBACK_CAPS
    assert 0 < sample <= 2**52
    assert told(cluster) == {"sample": sample, "drawnWatts": 700, "fallingBack": True}
    status = budget(cluster)["status"]
    assert (status["inForceWatts"], status["sequence"], status["refused"]) == (LIMIT, 1, False)
    assert (status["cpuWatts"], status["gpuWatts"]) == FALLBACK_CAPS
    assert (condition(cluster)["status"], condition(cluster)["reason"]) == ("False", "FallingBack")
    assert condition(cluster)["message"] == "no fresh sample is named: 660 W in the place of 900 W"
    write = writes(cluster)[0]
    assert (write.verb, json.loads(write.body)["status"]["oversubscription"]) == ("apply", told(cluster))

    name(cluster, sample)
    await until(cluster, lambda: told(cluster)["fallingBack"] is False)
    assert caps(node) == LIMIT_CAPS
    assert (condition(cluster)["status"], condition(cluster)["reason"]) == ("True", "AsAsked")


async def test_samples_are_taken_and_told_once_in_their_time(cluster, raised):
    node, _, _ = raised
    node.cpu_watts = 250
    first = await until_sampled(cluster)
    for number in range(first + 1, first + 4):
        assert await until_sampled(cluster, number - 1) == number
    assert (told(cluster)["drawnWatts"], caps(node)) == (650, LIMIT_CAPS)


async def test_each_sample_costs_one_pass_and_one_write(cluster, raised):
    first = await until_sampled(cluster)
    written, passes = len(writes(cluster)), cluster.backend.count("n1", "telemetry")
    for number in range(first, first + 3):
        await until_sampled(cluster, number)
    assert len(writes(cluster)) - written == 3
    assert cluster.backend.count("n1", "telemetry") - passes <= 4


async def test_samples_do_not_make_the_report_of_power_more_frequent(cluster, raised):
    node, _, _ = raised
    await cluster.until_reported("n1", requestedWatts=150)
    written = len(writes(cluster, REPORT))
    for cpu_watts in (200, 400, 250):
        node.cpu_watts = cpu_watts
        await until(cluster, lambda watts=cpu_watts: told(cluster).get("drawnWatts") == watts + 400)
    assert len(writes(cluster, REPORT)) == written
    assert cluster.api.get("TelemetryProfile", "n1")["status"]["power"]["cpuWatts"] == 300


async def test_the_renewal_that_is_told_is_the_one_that_was_seen_before_the_sample(cluster):
    cluster.add_node("n1", target=False, gpu_watts=400)
    ask(cluster, oversubscription=oversubscription(sampleSeconds=3600))
    await cluster.start_agent(**ON)
    sample = await until_sampled(cluster)
    name(cluster, sample)
    await until(cluster, lambda: told(cluster)["fallingBack"] is False)
    assert (told(cluster)["sample"], budget(cluster)["status"]["renewal"]) == (sample, 1)


async def test_a_device_that_is_not_read_leaves_the_power_unknown(cluster, raised):
    node, _, _ = raised
    node.telemetry = {"packagePowerWatts": 300.0, "cpu": {"packagePowerWatts": 300.0}}
    await until(cluster, lambda: "drawnWatts" not in told(cluster))
    node.telemetry = 500
    sample = told(cluster)["sample"]
    await until_sampled(cluster, sample)
    assert "drawnWatts" not in told(cluster)
    node.telemetry = None
    await until(cluster, lambda: told(cluster).get("drawnWatts") == 700)


async def test_a_node_falls_back_when_no_sample_is_named_any_more(cluster, raised):
    node, agent, naming = raised
    await naming.stop()
    assert await until_fallen_back(cluster, node) <= HOLD_S + 1
    await until(cluster, lambda: told(cluster)["fallingBack"])
    assert budget(cluster)["status"]["inForceWatts"] == LIMIT
    assert (await agent.series("n1"))["joulie_power_budget_falling_back"] == 1
    name(cluster, await until_sampled(cluster, told(cluster)["sample"]))
    await until(cluster, lambda: not told(cluster)["fallingBack"])
    assert caps(node) == LIMIT_CAPS
    assert (await agent.series("n1"))["joulie_power_budget_falling_back"] == 0


async def test_repeated_old_and_forged_numbers_hold_nothing(cluster, raised):
    node, _, naming = raised
    await naming.stop()
    named = budget(cluster)["spec"]["oversubscription"]["sample"]
    await until_fallen_back(cluster, node)
    for forged in (named, named - 1, 0, 2**53, told(cluster)["sample"] + 1_000):
        await until_sampled(cluster, told(cluster)["sample"])
        name(cluster, forged)
    await until_sampled(cluster, told(cluster)["sample"])
    assert (told(cluster)["fallingBack"], caps(node)) == (True, FALLBACK_CAPS)


async def test_a_sample_of_the_agent_before_is_not_fresh_after_a_restart(cluster, raised):
    node, agent, naming = raised
    await naming.stop()
    before = told(cluster)["sample"]
    await agent.kill()
    name(cluster, before)
    await cluster.start_agent(**ON)
    await cluster.backend.until(lambda: caps(node) == FALLBACK_CAPS)
    after = await until_sampled(cluster, before)
    assert abs(after - before) > 1_000
    assert told(cluster)["fallingBack"]
    name(cluster, after)
    await until(cluster, lambda: not told(cluster)["fallingBack"])
    assert caps(node) == LIMIT_CAPS


async def test_a_node_falls_back_while_the_api_server_is_away(cluster, raised):
    node, _, naming = raised
    await naming.stop()
    await cluster.api.stop()
    assert await until_fallen_back(cluster, node) <= HOLD_S + 1


@pytest.mark.parametrize("path", [STATUS, REPORT])
async def test_a_node_falls_back_while_the_api_server_hangs_in_a_write(cluster, raised, path):
    """A pass waits half a minute for such a write."""
    node, _, naming = raised
    cluster.api.faults.add(Delay(60), verb="apply", path=path, times=None)
    before = len(writes(cluster, path))
    cluster.set_target("n1", cpu={"packagePowerCapWatts": 140})  # so that both are written
    # The sample that was told before the hang may still be named, and holds once more.
    took_s = await until_fallen_back(cluster, node)
    assert (took_s <= 2 * HOLD_S + 1, len(writes(cluster, path)) > before) == (True, True)
    await naming.stop()
    cluster.api.faults.clear()


async def test_a_node_falls_back_while_its_status_is_refused(cluster, raised):
    node, _, naming = raised
    cluster.api.faults.add(Respond(403), verb="apply", path=STATUS, times=None)
    assert await until_fallen_back(cluster, node) <= HOLD_S + SAMPLE_S + 1
    # The watch works, and what is named was told before.
    await naming.stop()
    cluster.api.faults.clear()
    await until(cluster, lambda: told(cluster)["fallingBack"])


async def test_a_jump_of_the_wall_clock_changes_nothing(cluster, raised, monkeypatch):
    node, _, naming = raised
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    for _ in range(3):
        await until_sampled(cluster, told(cluster)["sample"])
    assert (told(cluster)["fallingBack"], caps(node)) == (False, LIMIT_CAPS)
    monkeypatch.setattr(time, "time", lambda: real() - 86_400)
    assert rfc3339(time.time()) < rfc3339(real())
    await naming.stop()
    assert await until_fallen_back(cluster, node) <= HOLD_S + 1


async def test_a_fallback_that_is_not_set_is_told_with_numbers_and_tried_again(cluster, raised):
    node, _, naming = raised
    node.script[CPU_CAP] = {"result": "blocked", "message": "locked"}
    await naming.stop()
    await until(cluster, lambda: condition(cluster).get("reason") == "FallbackNotHeld")
    assert condition(cluster)["message"] == "660 W are to be held without a fresh sample; CPU: blocked locked"
    status = budget(cluster)["status"]
    assert (status["refused"], status.get("inForceWatts"), condition(cluster)["status"]) == (True, None, "False")
    assert caps(node) == (LIMIT_CAPS[0], FALLBACK_CAPS[1])
    node.script.clear()
    assert await until_fallen_back(cluster, node) <= SAMPLE_S + 1
    await until(cluster, lambda: told(cluster)["fallingBack"])


async def test_a_fallback_is_tried_again_also_while_the_api_server_hangs(cluster, raised):
    node, _, naming = raised
    await naming.stop()
    cluster.api.faults.add(Delay(60), verb="apply", path=STATUS, times=None)
    node.script[CPU_CAP] = 500
    await cluster.backend.until(lambda: node.gpu_cap_watts == FALLBACK_CAPS[1])
    failed = cluster.backend.count("n1", CPU_CAP)
    await cluster.backend.until(lambda: cluster.backend.count("n1", CPU_CAP) > failed)
    node.script.clear()
    assert await until_fallen_back(cluster, node) <= SAMPLE_S + 1
    cluster.api.faults.clear()


async def test_a_released_lease_ends_as_without_oversubscription(cluster):
    node = cluster.add_node("n1", target=False, gpu_watts=400)
    ask(cluster, onLostControl="Release", leaseSeconds=2)
    await cluster.start_agent(**ON)
    await until_sampled(cluster)
    assert caps(node) == FALLBACK_CAPS
    await until(cluster, lambda: condition(cluster).get("reason") == "LeaseEnded")
    assert (caps(node), told(cluster)["fallingBack"]) == ((250, 400), False)


async def test_a_limit_that_is_no_longer_oversubscribed_counts_without_samples(cluster, raised):
    node, agent, naming = raised
    await naming.stop()
    spec = {"sequence": 2, "limitWatts": 720, "renewal": 99, "oversubscription": None}
    cluster.api.patch("NodePowerBudget", "n1", {"spec": spec})
    await until(cluster, lambda: budget(cluster)["status"]["sequence"] == 2)
    assert (caps(node), told(cluster), budget(cluster)["status"]["renewal"]) == ((120, 120), {}, 99)
    assert "joulie_power_budget_falling_back" not in await agent.series("n1")
    await asyncio.sleep(HOLD_S + 0.5)
    assert caps(node) == (120, 120)


async def test_a_node_that_leaves_is_restored_and_not_lowered_again(cluster, raised):
    node, _, naming = raised
    await naming.stop()
    cluster.api.patch("Node", "n1", {"metadata": {"labels": {"joulie.io/managed": None}}})
    await cluster.api.wait_for(lambda: cluster.api.count("TelemetryProfile") == 0)
    await asyncio.sleep(HOLD_S + 0.5)
    assert caps(node) == (250, 400)


async def test_an_object_in_the_place_of_another_tells_its_own_renewal(cluster, raised):
    node, _, naming = raised
    await naming.stop()
    cluster.api.remove("NodePowerBudget", "n1")
    await cluster.backend.until(lambda: caps(node) == (250, 400))
    ask(cluster, renewal=1)
    await until_sampled(cluster)
    assert budget(cluster)["status"]["renewal"] == 1
    assert (caps(node), told(cluster)["fallingBack"]) == (FALLBACK_CAPS, True)
