"""What an operator writes about an oversubscribed domain and its nodes, through the API server."""

import pytest
from services.operator.tests.power_domains.enforced_world import enforced_world

from joulie_testing.api import Respond

BREAKER = {"breaker": [{"loadPercent": 130, "seconds": 60}], "coolingSeconds": 10}


@pytest.fixture
async def enforced(fake_api, fake_client):
    async with enforced_world(fake_api, fake_client, oversubscribes=True) as found:
        yield found


def asks(world):
    """Writes of NodePowerBudgets by operators."""
    return [each for each in world.api.requests.writes() if each.kind == "NodePowerBudget"]


def sample(world, **watts):
    """Let agents answer, and report a new sample of each node."""
    world.answer()
    world.number = getattr(world, "number", 0) + 1
    for name in world.machines:
        drawn = {"sample": world.number, "drawnWatts": watts.get(name, 100)}
        world.api.patch("NodePowerBudget", name, {"status": {"oversubscription": drawn}})


async def turn(world, after_s=1.0, **watts):
    """Let agents sample, and the operator answer."""
    sample(world, **watts)
    await world.look(after_s)


async def two_nodes(world, limit_watts=600, **spec):
    world.put("rack", limit_watts, nodeSelector={"rack": "a"}, oversubscription=BREAKER, **spec)
    world.add("n1")
    world.add("n2")
    await world.settle()


async def raised(world, limit_watts=600):
    """Two nodes whose limits add up to 130 % of that of their domain."""
    await two_nodes(world, limit_watts)
    await turn(world)
    await turn(world, 14.0)
    for _ in range(4):
        await turn(world)
    assert sum(world.limits().values()) == pytest.approx(1.3 * limit_watts)
    return world


def over(world, name="n1"):
    return world.spec(name).get("oversubscription")


async def objects_of(world, **spec):
    """Return all that is stored of a tree of two nodes, some renewals later; uids differ."""
    world.put("rack", 600, nodeSelector={"rack": "a"}, **spec)
    world.add("n1")
    world.add("n2")
    await world.settle()
    for _ in range(3):
        world.answer()
        await world.look(100)
    budgets = [each["spec"] for each in world.api.objects("NodePowerBudget")]
    return [each | {"nodeUID": None} for each in budgets], world.leader.status("rack") | {"lastUpdated": None}


async def test_without_the_setting_no_object_differs(fake_api, fake_client):
    async with enforced_world(fake_api, fake_client) as world:
        without = await objects_of(world)
        for kind in ("PowerDomain", "NodePowerBudget"):
            for each in world.api.objects(kind):
                world.api.remove(kind, each["metadata"]["name"])
        await world.elect()
        with_field = await objects_of(world, oversubscription=BREAKER)
    assert [each.keys() for each in with_field[0]] == [each.keys() for each in without[0]]
    assert all("oversubscription" not in each for each in with_field[0])
    assert with_field[1].keys() == without[1].keys()
    assert "oversubscription" not in with_field[1]


async def test_a_domain_without_the_field_is_not_oversubscribed_with_the_setting(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    enforced.add("n1")
    await enforced.settle()
    assert over(enforced) is None
    assert "oversubscription" not in enforced.leader.status("rack")


async def test_nodes_are_told_what_they_fall_back_to_and_to_sample_before_anything_is_raised(enforced):
    await two_nodes(enforced)
    assert enforced.limits() == {"n1": 300, "n2": 300}
    assert over(enforced) == {"fallbackWatts": 237.931, "sampleSeconds": 4, "holdSeconds": 8}
    await enforced.look(60)
    assert enforced.leader.status("rack")["oversubscription"] == {
        "raised": False,
        "permittedWatts": 780,
        "fallbackWatts": 476,
        "breakerDamagePercent": pytest.approx(0.25, abs=0.01),
        "assumedDamagePercent": pytest.approx(0.25, abs=0.01),
        "state": "NotMeasured",
        "reason": "no fresh sample of n1, n2",
    }


async def test_a_sample_is_named_with_a_renewal_while_limits_are_within_that_of_the_domain(enforced):
    await two_nodes(enforced)
    before = enforced.spec("n1")["renewal"]
    await turn(enforced)
    spec = enforced.spec("n1")
    assert (spec["renewal"], spec["oversubscription"]["sample"], spec["limitWatts"]) == (before + 1, 1, 300)
    writes = len(asks(enforced))
    await enforced.look(1)
    assert len(asks(enforced)) == writes, "once for each sample"
    enforced.machines["n1"].silent = True
    await turn(enforced)
    assert enforced.spec("n1")["oversubscription"]["sample"] == 2


async def test_limits_are_raised_once_the_breaker_is_cold_and_each_node_is_measured(enforced):
    await raised(enforced)
    assert over(enforced) == {"fallbackWatts": 300.0, "sampleSeconds": 4, "holdSeconds": 8, "sample": enforced.number}
    await enforced.look(61)
    status = enforced.leader.status("rack")
    assert (status["inForceWatts"], status["headroomWatts"], status["oversubscription"]["fallbackWatts"]) == (
        780,
        0,
        600,
    )


async def test_a_raised_domain_is_held_by_what_its_nodes_fall_back_to(enforced):
    await raised(enforced)
    status, reason, message = enforced.leader.condition("rack", "Held")
    assert (status, reason) == ("True", "Oversubscribed")
    assert message.startswith("the limits that may be in force exceed 600 W together, up to 780 W; what the nodes draw")
    assert enforced.leader.status("rack")["oversubscription"]["raised"] is True


async def test_limits_that_use_the_last_part_of_a_watt_of_what_is_permitted_are_held(enforced):
    await raised(enforced, 601)
    assert sum(enforced.limits().values()) == pytest.approx(781.3)
    assert enforced.leader.condition("rack", "Held")[:2] == ("True", "Oversubscribed")


async def test_near_the_limit_samples_are_withdrawn_before_anything_else_and_limits_are_lowered(enforced):
    await raised(enforced)
    first = len(asks(enforced))
    await turn(enforced, n1=300, n2=290)
    bodies = [each.json()["spec"] for each in asks(enforced)[first:]]
    assert [(each["nodeName"], each["limitWatts"]) for each in bodies] == [("n1", 300), ("n2", 300)]
    for each in bodies:
        assert each["oversubscription"] == {
            "sample": None,
            "fallbackWatts": 237.931,
            "sampleSeconds": 4,
            "holdSeconds": 8,
        }
    assert "sample" not in over(enforced), "the stored one is deleted"
    assert enforced.leader.condition("rack", "Held")[:2] == ("True", "FallingBack")
    await turn(enforced)
    assert enforced.leader.condition("rack", "Held")[:2] == ("True", "WithinLimit")
    assert over(enforced)["sample"] == enforced.number, "within the limit samples are named again"


async def test_while_samples_are_withdrawn_they_are_answered_all_the_same(enforced):
    await raised(enforced)
    await turn(enforced, n1=300, n2=290)
    enforced.machines["n1"].silent = True
    renewal = enforced.spec("n2")["renewal"]
    await turn(enforced, 2.0)
    assert "sample" not in over(enforced, "n2")
    assert enforced.spec("n2")["renewal"] == renewal + 1
    await enforced.look(2.0)
    assert enforced.spec("n2")["renewal"] == renewal + 1


async def test_a_sample_that_could_not_be_withdrawn_is_withdrawn_at_the_next_look(enforced):
    await raised(enforced)
    sample(enforced, n1=300, n2=290)
    enforced.api.faults.add(Respond(409), verb="patch", path="nodepowerbudgets/n1", times=1)
    await enforced.look(1)
    assert "sample" in over(enforced)
    await enforced.look(0.1)
    assert "sample" not in over(enforced)


async def test_an_operator_without_the_setting_takes_it_from_the_nodes(enforced):
    await raised(enforced)
    await enforced.elect(oversubscribes=False)
    await enforced.look(1)
    await enforced.settle()
    assert over(enforced) is None
    assert sum(enforced.limits().values()) <= 600


async def test_a_new_leader_begins_with_a_breaker_that_is_about_to_trip(enforced):
    await raised(enforced)
    await enforced.elect(oversubscribes=True)
    await turn(enforced, 0.1)
    found = enforced.leader.status("rack")["oversubscription"]
    assert (found["raised"], found["breakerDamagePercent"]) == (False, 100)
    await turn(enforced)
    shown = enforced.leader.controller.states["rack"].status.oversubscription
    assert shown.reason == "the breaker of rack has not cooled, or its state is not known"
    for _ in range(3):
        await turn(enforced)
    assert sum(enforced.limits().values()) <= 600


async def test_an_agent_that_samples_without_being_asked_changes_nothing(fake_api, fake_client):
    async with enforced_world(fake_api, fake_client) as world:
        world.put("rack", 600, nodeSelector={"rack": "a"})
        world.add("n1")
        await world.settle()
        writes = len(asks(world))
        await turn(world)
        await turn(world)
        assert len(asks(world)) == writes
