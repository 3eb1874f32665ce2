"""The whole agent after an ask for another limit: the answer at once, the report of the node later and once."""

import pytest

from joulie_agent.budgets import report_delay
from joulie_api.resources import NODE_POWER_BUDGETS, TELEMETRY_PROFILES
from joulie_testing.api import make_node_power_budget

ON = {"POWER_BUDGETS": "On", "RECONCILE_INTERVAL": "1h"}


def written(cluster, kind):
    """Return the statuses of n1 that were sent, each with its place among all requests."""
    path = f"{kind.plural}/n1/status"
    return [
        (place, each.json()["status"])
        for place, each in enumerate(cluster.api.requests)
        if each.verb == "apply" and each.path.endswith(path)
    ]


async def until_answered(cluster, sequence):
    def answered():
        return (cluster.api.get("NodePowerBudget", "n1") or {}).get("status", {}).get("sequence") == sequence

    await cluster.api.wait_for(answered)


def ask(cluster, sequence, watts):
    cluster.api.patch("NodePowerBudget", "n1", {"spec": {"limitWatts": watts, "sequence": sequence}})


@pytest.fixture
async def node(cluster):
    """A node with 2 packages and 4 GPUs that has reported its first limit, of 200 W each."""
    node = cluster.add_node("n1", target=False, gpu_watts=900)
    cluster.api.put(make_node_power_budget("n1", limit_watts=1200, nodeUID="u1", bootID="b1"))
    await cluster.start_agent(**ON)
    await until_answered(cluster, 1)
    await cluster.until_reported("n1", enforcedWatts=200)
    return node


async def test_asks_are_answered_and_no_report_is_written_meanwhile(cluster, node, monkeypatch):
    monkeypatch.setattr(report_delay, "LONGEST_S", 3600.0)
    before = len(written(cluster, TELEMETRY_PROFILES))
    for sequence, watts in ((2, 900), (3, 720), (4, 600)):
        ask(cluster, sequence, watts)
        await until_answered(cluster, sequence)
    assert (node.cap_watts, node.gpu_cap_watts) == (100, 100)
    answers = [status for _, status in written(cluster, NODE_POWER_BUDGETS) if status["sequence"] > 1]
    assert [each["inForceWatts"] for each in answers] == [900, 720, 600]
    assert len(written(cluster, TELEMETRY_PROFILES)) == before


async def test_the_report_follows_the_answer_without_a_further_change(cluster, node):
    ask(cluster, 2, 720)
    report = await cluster.until_reported("n1", enforcedWatts=120)
    assert report["message"] == "capped by the power budget of 720 W for the node"
    reported_at, status = written(cluster, TELEMETRY_PROFILES)[-1]
    assert status["control"]["gpu"]["enforcedWatts"] == 120
    answered_at, answer = written(cluster, NODE_POWER_BUDGETS)[-1]
    assert (answer["sequence"], answer["inForceWatts"]) == (2, 720)
    assert answered_at < reported_at


async def test_a_cap_that_fails_is_reported_at_once(cluster, node, monkeypatch):
    monkeypatch.setattr(report_delay, "LONGEST_S", 3600.0)
    node.script["rapl.set_power_cap_watts"] = 500
    ask(cluster, 2, 900)
    await cluster.until_reported("n1", result="error")
