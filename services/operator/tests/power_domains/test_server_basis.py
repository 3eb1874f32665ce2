"""Domains whose limit is one of whole servers: what is written, asked and remembered of them."""

import pytest

from joulie_core.budget import ServerRest
from joulie_operator.power_domains.inputs import DrawnReading
from joulie_testing.api import make_power_event

RESTS = {"n1": ServerRest(60_500, 20_000, measured=True), "n2": ServerRest(40_000, 30_000)}


def two_servers(world, limit_watts=1_500, **spec):
    world.put("rack", limit_watts, **{"nodeSelector": {"rack": "a"}, "basis": "Server", "reserveWatts": 100} | spec)
    for name in RESTS:
        world.put_node(name, rack="a", power=(500, 100, 300, 250))
    world.rests = dict(RESTS)
    world.servers = {"n1": DrawnReading(320.0, measured=True), "n2": DrawnReading(290.0)}


async def test_sums_contain_the_rest_and_the_status_says_what_it_is(world):
    two_servers(world)
    await world.look()
    status = world.status("rack")
    # 1500 - 100 - 100.5 W are left for devices, of 1000 W.
    assert status["inForceWatts"] == 1_101
    assert status["headroomWatts"] == 299
    assert status["guaranteedWatts"] == 300
    assert status["allocatedWatts"] == 1_100
    assert status["shortfallWatts"] == 0
    assert status["rest"] == {
        "watts": 101,
        "measuredNodes": 1,
        "modelledNodes": 1,
        "modelledWatts": 40,
        "modelledLeastWatts": 30,
        "unknownNodes": 0,
    }
    assert status["drawn"] == {
        "measuredWatts": 320,
        "measuredNodes": 1,
        "modelledWatts": 290,
        "modelledNodes": 1,
        "unknownNodes": 0,
    }
    message = "the nodes may draw 1101 W together, within 1400 W"
    assert world.condition("rack", "Held") == ("True", "WithinLimit", message)
    assert world.retained == {"n1", "n2"}


async def test_a_domain_of_devices_shows_nothing_of_servers(world):
    two_servers(world, basis="Devices")
    await world.look()
    status = world.status("rack")
    assert "rest" not in status
    assert status["inForceWatts"] == 1_000
    assert status["drawn"]["measuredWatts"] == 500


async def test_the_rest_alone_may_exceed_a_limit(world):
    two_servers(world, limit_watts=1_150)
    await world.look()
    assert world.condition("rack", "Held")[:2] == ("False", "AboveLimit")
    world.rests["n2"] = ServerRest(None)
    await world.look()
    # Of n2 not even that is needed to know it.
    world.put("rack", 1_100, nodeSelector={"rack": "a"}, basis="Server", reserveWatts=100)
    await world.look()
    message = "the nodes may draw at least 1061 W together, above 1000 W; nothing is lowered"
    assert world.condition("rack", "Held") == ("False", "AboveLimit", message)


async def test_an_unknown_rest_is_told_by_the_name_of_the_node(world):
    two_servers(world)
    world.rests["n2"] = ServerRest(None)
    await world.look()
    status = world.status("rack")
    assert status["rest"]["unknownNodes"] == 1
    assert "inForceWatts" not in status
    assert "headroomWatts" not in status
    assert world.condition("rack", "Held") == (
        "Unknown",
        "RestUnknown",
        "the rest of the server is not known of n2; neither readings of a BMC nor models of its CPUs tell it",
    )


async def test_a_new_leader_keeps_the_published_sum_while_bmcs_are_read_anew(world):
    two_servers(world)
    await world.look()
    world.rests["n1"] = ServerRest(160_000, 20_000, settling=True)
    await world.look(60)
    assert world.status("rack")["rest"]["watts"] == 101
    world.rests["n1"] = ServerRest(160_000, 20_000)
    await world.look(60)
    assert world.status("rack")["rest"]["watts"] == 200


async def test_drawn_power_of_one_basis_is_no_history_of_another(world):
    two_servers(world)
    for _ in range(61):
        await world.look(60)
    stored = world.status("rack")["history"]
    assert stored["basis"] == "Server"
    assert stored["minutes"].split(",")[-2] == "610"
    world.put("rack", 1_500, nodeSelector={"rack": "a"}, reserveWatts=100)
    for _ in range(2):
        await world.look(60)
    stored = world.status("rack")["history"]
    assert stored["basis"] == "Devices"
    assert set(stored["minutes"].split(",")) <= {"", "500"}


@pytest.fixture
async def rack(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, basis="Server")
    enforced.add("n1", demand_watts=400)
    enforced.add("n2", demand_watts=400)
    enforced.leader.rests = dict(RESTS)
    await enforced.settle()
    return enforced


async def test_nodes_get_what_the_rest_leaves_and_are_lowered_when_it_rises(rack):
    assert rack.sum_watts() == pytest.approx(600 - 100.5, abs=1.0)
    await rack.look(60)
    status = rack.leader.status("rack")
    assert (status["inForceWatts"], status["largestInForceWatts"], status["headroomWatts"]) == (600, 600, 0)
    assert rack.leader.condition("rack", "Held")[:2] == ("True", "WithinLimit")
    rack.leader.rests["n2"] = ServerRest(140_000, 30_000)
    await rack.settle()
    assert rack.sum_watts() <= 600 - 200.5
    rack.leader.rests["n2"] = ServerRest(40_000, 30_000)
    await rack.settle()
    assert 600 - 100.5 - 20 <= rack.sum_watts() <= 600 - 100.5


async def test_nobody_is_raised_while_the_rest_of_one_server_is_not_known(rack):
    rack.leader.rests["n2"] = ServerRest(None)
    before = rack.limits()
    rack.put("rack", 900, nodeSelector={"rack": "a"}, basis="Server")
    await rack.settle()
    assert rack.limits() == before
    rack.leader.rests["n2"] = ServerRest(40_000)
    await rack.settle()
    assert rack.sum_watts() > sum(before.values())


async def test_an_event_names_whole_servers_and_can_deliver_none_of_their_rest(rack):
    event = make_power_event("cut", domain="rack", limitWatts=400, mayAffect=["performance", "standard"])
    rack.api.put(event)
    await rack.settle()
    assert rack.sum_watts() <= 400 - 100.5
    status = rack.api.get("PowerEvent", "cut")["status"]
    assert status["deliverableWatts"] == 301
    assert status["targetWatts"] == 400
