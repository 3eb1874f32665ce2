"""What an operator that enforces writes about nodes, when, and in which order."""

import pytest

PATH = "/apis/joulie.io/v1alpha1/nodepowerbudgets/"


def asks(world):
    """Writes of NodePowerBudgets by operators."""
    return [each for each in world.api.requests.writes() if each.kind == "NodePowerBudget"]


async def two_nodes(world):
    """A rack that supplies two thirds of what its nodes may draw, settled."""
    world.put("rack", 600, nodeSelector={"rack": "a"})
    world.add("n1", demand_watts=400)
    world.add("n2", demand_watts=200)
    await world.settle()


async def test_a_tree_comes_within_its_limit_and_its_status_says_so(enforced):
    await two_nodes(enforced)
    assert enforced.limits() == {"n1": 400, "n2": 200}
    assert enforced.sum_watts() == 600
    await enforced.look(60)
    status = enforced.leader.status("rack")
    assert status["mode"] == "Enforce"
    assert (status["inForceWatts"], status["largestInForceWatts"], status["headroomWatts"]) == (600, 600, 0)
    assert (status["unconfirmedNodes"], status["refusedNodes"], status["silentNodes"]) == (0, 0, 0)
    assert enforced.leader.condition("rack", "Enforced")[:2] == ("True", "Enforced")
    assert enforced.leader.condition("rack", "Held")[:2] == ("True", "WithinLimit")
