"""The loop of power domains: what it writes, when, and what it never writes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from services.operator.tests.power_domains.domain_world import domain_world

from joulie_api.client import KubeClient
from joulie_api.errors import NotLeader
from joulie_core.kinds import PowerDomain
from joulie_operator.power_domains.controller import STALE_INTERVAL_S
from joulie_testing.api import FakeApiServer, Respond, make_node, make_power_domain

_PATH = "/apis/joulie.io/v1alpha1/powerdomains/"


def put_row(world):
    """A feed with two racks, of which the one with the higher priority is full."""
    world.put("feed", 900)
    world.put("a", 500, parent="feed", nodeSelector={"rack": "a"}, priority=10)
    world.put("b", 1_000, parent="feed", nodeSelector={"rack": "b"})
    world.put_node("a1", rack="a", power=(500, 100, 300, 250))
    world.put_node("a2", rack="a", power=(500, 100, 300, 250))
    world.put_node("b1", rack="b", power=(500, 100, 450, 400))


async def test_each_domain_gets_its_sums_in_one_write_of_its_status(world):
    put_row(world)
    await world.look()
    assert [(each.verb, each.path, each.query.get("fieldManager")) for each in world.writes] == [
        ("apply", f"{_PATH}{name}/status", "joulie-operator") for name in ("a", "b", "feed")
    ]
    status = world.status("feed")
    assert status["nodes"] == 3
    assert status["allocatedWatts"] == 900
    assert status["inForceWatts"] == 1_500
    assert status["headroomWatts"] == 0
    assert status["guaranteedWatts"] == 300
    assert status["shortfallWatts"] == 0
    assert status["drawn"] == {"measuredWatts": 900, "measuredNodes": 3, "modelledNodes": 0, "unknownNodes": 0}
    assert status["lowered"] == [
        {"node": "a1", "wantedWatts": 300, "allocatedWatts": 250, "reason": "limit of a, of which nodes may get 500 W"},
        {"node": "a2", "wantedWatts": 300, "allocatedWatts": 250, "reason": "limit of a, of which nodes may get 500 W"},
        {
            "node": "b1",
            "wantedWatts": 450,
            "allocatedWatts": 400,
            "reason": "limit of feed, of which nodes may get 900 W; priority 10 is served first",
        },
    ]
    assert world.status("b")["loweredNodes"] == 1
    assert world.condition("feed", "Accepted")[:2] == ("True", "Valid")


async def test_nobody_can_take_the_status_for_protection(world):
    put_row(world)
    await world.look()
    assert world.status("feed")["mode"] == "Observe"
    assert world.condition("feed", "Enforced") == (
        "False",
        "Observe",
        "mode Observe lowers nothing: no node is limited, and no breaker is protected",
    )
    assert world.condition("feed", "Held") == (
        "False",
        "AboveLimit",
        "the nodes may draw 1500 W together, above 900 W; nothing is lowered",
    )


async def test_a_write_is_on_the_version_that_was_seen_and_is_not_repeated_before_it_is_seen(world):
    stored = world.put("rack", nodeSelector={"rack": "a"})
    world.put_node("n1", rack="a")
    await world.look()
    (write,) = world.writes
    assert write.json()["metadata"] == {
        "name": "rack",
        "resourceVersion": stored["metadata"]["resourceVersion"],
    }
    # Before the watch has the new version, another pass may come.
    world.power["n1"] = (900, 100, None, 800)
    await world.controller.look()
    assert len(world.writes) <= 2
    assert {each.status for each in world.writes} == {200}


async def test_a_write_on_a_version_that_has_passed_is_given_up_and_repeated_on_the_next(world):
    world.put("rack", nodeSelector={"rack": "a"})
    world.put_node("n1", rack="a")
    world.api.faults.add(Respond(409), verb="apply", path=f"{_PATH}rack", times=1)
    await world.look()
    assert world.status("rack") == {}
    await world.look(10)
    assert world.status("rack")["nodes"] == 1


async def test_a_status_that_stays_is_written_every_five_minutes_with_its_time(world):
    put_row(world)
    await world.look()
    first = world.status("feed")
    await world.look(290)
    assert len(world.writes) == 3
    await world.look(10)
    assert len(world.writes) == 6
    again = world.status("feed")
    assert again["lastUpdated"] > first["lastUpdated"]
    assert again["conditions"] == first["conditions"]


async def test_watts_that_move_little_are_not_written_and_others_once_a_minute(world):
    world.put("rack", 1_000, nodeSelector={"rack": "a"})
    world.put_node("n1", rack="a", power=(500, 100, 200, 200))
    await world.look()
    world.power["n1"] = (500, 100, 200, 209)
    await world.look(60)
    assert len(world.writes) == 1
    world.power["n1"] = (500, 100, 200, 240)
    await world.look(10)
    assert world.status("rack")["drawn"]["measuredWatts"] == 240
    world.power["n1"] = (500, 100, 200, 300)
    await world.look(59)
    assert len(world.writes) == 2
    await world.look(1)
    assert world.status("rack")["drawn"]["measuredWatts"] == 300


async def test_a_node_that_becomes_unknown_is_told_at_the_next_pass(world):
    world.put("rack", 1_000, nodeSelector={"rack": "a"})
    world.put_node("n1", rack="a")
    world.put_node("n2", rack="a")
    await world.look()
    del world.power["n2"]
    await world.look(10)
    status = world.status("rack")
    assert (status["nodes"], status["unknownNodes"]) == (2, 1)
    assert "inForceWatts" not in status
    assert "headroomWatts" not in status
    assert status["drawn"]["unknownNodes"] == 1
    assert world.condition("rack", "Held") == (
        "Unknown",
        "PowerUnknown",
        (
            "the highest power is not known of n2; they are not managed, or their hardware is neither read nor stated "
            "by labels"
        ),
    )


async def test_nodes_that_are_known_to_exceed_the_limit_do_so_whatever_the_others_draw(world):
    world.put("rack", 600, nodeSelector={"rack": "a"})
    for name, power in (("n1", (500, 100, None, 200)), ("n2", (500, 100, None, 200)), ("n3", None)):
        world.put_node(name, rack="a", power=power)
    await world.look()
    assert world.condition("rack", "Held") == (
        "False",
        "AboveLimit",
        "the nodes may draw at least 1000 W together, above 600 W; nothing is lowered",
    )
    assert "inForceWatts" not in world.status("rack")


async def test_a_node_that_a_defect_hides_is_unknown_and_the_others_go_on(world):
    world.put("rack", 1_000, nodeSelector={"rack": "a"})
    world.put_node("n1", rack="a")
    world.put_node("n2", rack="a")
    world.broken_nodes = {"n1"}
    await world.look()
    assert (world.status("rack")["nodes"], world.status("rack")["unknownNodes"]) == (2, 1)


@pytest.mark.parametrize(
    ("domains", "name", "reason", "message"),
    [
        ([("x", {"parent": "y"}), ("y", {"parent": "x"})], "x", "Cycle", "its parents lead back to it: x, y"),
        ([("x", {"parent": "gone"})], "x", "ParentMissing", "its parent gone does not exist"),
        (
            [("x", {"nodeSelector": {"rack": "a"}}), ("y", {"nodeSelector": {"rack": "a"}})],
            "x",
            "NodeInTwoDomains",
            "n1 is selected by x, y",
        ),
        (
            [("x", {"nodeSelector": {"rack": "a"}}), ("y", {"parent": "x"})],
            "x",
            "SelectorAboveDomains",
            "selects 1 nodes, and is the parent of other domains",
        ),
        (
            [("x", {"nodeSelector": {"rack": "a"}}), ("y", {"parent": "x"})],
            "y",
            "TreeSetAside",
            "its tree is set aside: x: selects 1 nodes, and is the parent of other domains",
        ),
    ],
)
async def test_a_tree_that_cannot_be_used_is_told_by_name_and_hides_no_other(world, domains, name, reason, message):
    for each, spec in domains:
        world.put(each, **spec)
    world.put("good", nodeSelector={"rack": "b"})
    world.put_node("n1", rack="a")
    world.put_node("n2", rack="b")
    await world.look()
    assert world.condition(name, "Accepted") == ("False", reason, message)
    assert world.condition(name, "Enforced")[0] == "False"
    assert "allocatedWatts" not in world.status(name)
    assert world.condition("good", "Accepted")[:2] == ("True", "Valid")
    assert world.status("good")["allocatedWatts"] == 500


async def test_floors_that_do_not_fit_are_told_with_both_numbers(world):
    world.put("rack", 300, nodeSelector={"rack": "a"}, floor={"wattsPerNode": 200})
    world.put_node("n1", rack="a")
    world.put_node("n2", rack="a")
    await world.look()
    assert world.condition("rack", "FloorsFit") == (
        "False",
        "FloorsDoNotFit",
        "floors of 400 W do not fit into 300 W; the lowest limits of the hardware count instead",
    )
    assert world.status("rack")["guaranteedWatts"] == 200


@pytest.mark.parametrize(
    "spec",
    [
        {"limit_watts": -1},
        {"limit_watts": 10**30},
        {"limit_watts": "many"},
        {"mode": "Shed"},
        {"basis": "Racks"},
        {"parent": "x" * 10_000},
        {"parent": {"name": "feed"}},
        {"nodeSelector": {"a": 7}},
        {"priority": 10**9},
        {"floor": []},
    ],
    ids=str,
)
async def test_a_hostile_object_is_told_and_the_sums_of_others_are_not_taken_for_complete(world, spec):
    world.put("bad", **spec)
    world.unread = {"bad"}
    world.put("good", nodeSelector={"rack": "b"})
    world.put_node("n2", rack="b")
    await world.look()
    status, reason, message = world.condition("bad", "Accepted")
    assert (status, reason) == ("False", "Unreadable")
    assert 0 < len(message) <= 4_096
    assert world.status("good")["allocatedWatts"] == 500
    assert world.condition("good", "Held") == (
        "Unknown",
        "ObjectUnreadable",
        "objects that cannot be read may belong to it: PowerDomain bad",
    )
    # It is told once, and repaired objects are observed again.
    await world.look(10)
    assert [each.path for each in world.writes].count(f"{_PATH}bad/status") == 1
    world.put("bad")
    world.unread = set()
    await world.look(10)
    assert world.condition("bad", "Accepted")[:2] == ("True", "NoNodes")
    assert world.condition("good", "Held")[:2] == ("True", "WithinLimit")


async def test_a_domain_that_can_be_read_no_more_sets_its_tree_aside(world):
    world.put("feed", 400)
    world.put("rack", parent="feed", nodeSelector={"rack": "a"})
    world.put_node("n1", rack="a")
    await world.look()
    world.put("feed", mode="Shed")
    world.unread = {"feed"}
    await world.look(10)
    assert world.condition("rack", "Accepted") == (
        "False",
        "TreeSetAside",
        "its tree is set aside: feed: its object cannot be read",
    )
    assert world.condition("feed", "Accepted")[:2] == ("False", "Unreadable")


async def test_nothing_is_decided_while_a_watch_may_be_out_of_date(world):
    put_row(world)
    await world.look()
    world.stale = "pods: no contact for 40 s"
    await world.look(300)
    assert len(world.writes) == 3
    assert world.controller.states == {}
    world.stale = None
    await world.look(STALE_INTERVAL_S)
    assert len(world.writes) == 6


async def test_an_operator_that_lost_its_lease_writes_nothing_and_ends(world):
    put_row(world)
    world.leads = False
    with pytest.raises(NotLeader):
        await world.look()
    assert world.writes == []


async def test_a_write_that_fails_holds_no_other_up(world):
    put_row(world)
    world.api.faults.add(Respond(500), verb="apply", path=f"{_PATH}feed", times=None)
    await world.look()
    assert world.status("feed") == {}
    assert world.status("b")["allocatedWatts"] == 400


async def test_what_is_written_reads_back_and_a_removed_domain_is_forgotten(world):
    put_row(world)
    await world.look()
    for each in world.api.objects("PowerDomain"):
        assert PowerDomain.model_validate(each).status.dump() == each["status"]
    world.api.remove("PowerDomain", "b")
    await world.look(10)
    assert world.controller.states.keys() == {"feed", "a"}
    assert world.status("feed")["nodes"] == 2


_NAMES = ("p", "q", "r", "s")
_SPECS = st.fixed_dictionaries(
    {"limitWatts": st.integers(1, 3_000)},
    optional={
        "parent": st.sampled_from((*_NAMES, "gone")),
        "nodeSelector": st.sampled_from(({"rack": "a"}, {"rack": "b"}, {"rack": "c"})),
        "mode": st.sampled_from(("Observe", "Shed")),
        "reserveWatts": st.integers(0, 100),
        "onLostControl": st.sampled_from(("KeepGuaranteed", "Release", "Nothing")),
    },
)
_POWER = st.none() | st.tuples(
    st.integers(200, 900), st.integers(0, 200), st.none() | st.integers(0, 900), st.just(1.5)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=25)
@given(st.dictionaries(st.sampled_from(_NAMES), _SPECS, min_size=1), st.lists(_POWER, min_size=1, max_size=4))
async def test_nothing_is_ever_written_but_the_status_of_power_domains(tmp_path_factory, specs, powers):
    async with FakeApiServer() as api:
        kubeconfig = str(api.kubeconfig(tmp_path_factory.mktemp("kube")))
        async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client:
            for index, _ in enumerate(powers):
                api.put(make_node(f"n{index}", labels={"rack": "abc"[index % 3]}))
            for name, spec in specs.items():
                fields = {key: value for key, value in spec.items() if key != "limitWatts"}
                api.put(make_power_domain(name, limit_watts=spec["limitWatts"], **fields))
            before = {name: each["spec"] for name in specs if (each := api.get("PowerDomain", name))}
            async with domain_world(api, client) as world:
                world.unread = {
                    name
                    for name, spec in specs.items()
                    if spec.get("mode") == "Shed"
                    or spec.get("onLostControl") == "Nothing"
                    or spec.get("reserveWatts", 0) >= spec["limitWatts"]
                }
                world.power = {f"n{index}": power for index, power in enumerate(powers) if power is not None}
                await world.look()
                await world.look(300)
            assert {each.kind for each in world.writes} == {"PowerDomain"}
            assert {(each.verb, each.subresource) for each in world.writes} == {("apply", "status")}
            assert {frozenset(each.json()) - {"apiVersion", "kind", "metadata"} for each in world.writes} == {
                frozenset({"status"})
            }
            assert {each["metadata"]["name"]: each["spec"] for each in api.objects("PowerDomain")} == before
