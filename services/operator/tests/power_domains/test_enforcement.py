"""What an operator that enforces writes about nodes, when, and in which order."""

import asyncio

import pytest

from joulie_api.errors import NotLeader
from joulie_testing.api import Delay, Disconnect, Respond, make_node

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


async def test_what_is_written_names_the_node_its_boot_and_the_version_that_was_seen(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    enforced.add("n1")
    uid = enforced.api.get("Node", "n1")["metadata"]["uid"]
    await enforced.look()
    (first,) = asks(enforced)
    assert (first.verb, first.path) == ("create", PATH.rstrip("/"))
    assert first.json()["metadata"] == {
        "name": "n1",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}],
    }
    assert first.json()["spec"] == {
        "nodeName": "n1",
        "nodeUID": uid,
        "bootID": "boot-1",
        "term": 1,
        "sequence": 1,
        "limitWatts": 500,
        "onLostControl": "KeepGuaranteed",
        "leaseSeconds": 300,
        "renewal": 1,
        "powerDomain": "rack",
    }
    enforced.answer()
    enforced.put("rack", 300, nodeSelector={"rack": "a"})
    version = enforced.budget("n1")["metadata"]["resourceVersion"]
    await enforced.look()
    second = asks(enforced)[1]
    assert (second.verb, second.path, second.query["fieldManager"]) == ("patch", f"{PATH}n1", "joulie-operator")
    assert second.json()["metadata"]["resourceVersion"] == version
    spec = second.json()["spec"]
    assert (spec["sequence"], spec["limitWatts"], spec["ceilingWatts"], spec["renewal"]) == (2, 300, 500, 2)


async def test_floors_that_do_not_fit_are_told_by_the_name_of_their_domain(enforced):
    enforced.put("fits", 500, nodeSelector={"rack": "a"}, floor={"wattsPerNode": 200})
    enforced.put("full", 300, nodeSelector={"rack": "b"}, floor={"wattsPerNode": 200})
    for name, rack in (("n1", "a"), ("n2", "b"), ("n3", "b")):
        enforced.add(name, rack)
    await enforced.settle()
    assert enforced.leader.condition("fits", "FloorsFit")[0] == "True"
    assert enforced.leader.condition("full", "FloorsFit") == (
        "False",
        "FloorsDoNotFit",
        "floors of 400 W do not fit into 300 W; the lowest limits of the hardware count instead",
    )


async def test_a_raise_waits_until_the_lowering_was_read_back(enforced):
    await two_nodes(enforced)
    count = len(asks(enforced))
    enforced.demand(n1=200, n2=400)
    await enforced.look(1)
    await enforced.look(1)
    assert [each.path for each in asks(enforced)[count:]] == [f"{PATH}n1"]
    enforced.answer("n1")
    await enforced.look(1)
    assert [each.path for each in asks(enforced)[count:]] == [f"{PATH}n1", f"{PATH}n2"]
    assert enforced.limits() == {"n1": 200, "n2": 400}


async def test_lowerings_go_out_before_raises_and_those_of_unimportant_domains_first(enforced):
    enforced.put("feed", 3_000)
    for name, priority in (("a", 5), ("b", 1), ("c", 9)):
        enforced.put(name, 3_000, parent="feed", nodeSelector={"rack": name}, priority=priority)
        enforced.add(f"{name}1", rack=name)
        enforced.add(f"{name}2", rack=name)
    await enforced.settle()
    count = len(asks(enforced))
    enforced.put("feed", 700)
    await enforced.look()
    order = [each.path.removeprefix(PATH)[0] for each in asks(enforced)[count:]]
    assert order == ["b", "b", "a", "a", "c", "c"]


async def test_a_conflict_is_decided_again_at_the_next_pass(enforced):
    await two_nodes(enforced)
    enforced.put("rack", 400, nodeSelector={"rack": "a"})
    enforced.api.faults.add(Respond(409), verb="patch", path="nodepowerbudgets/n1", times=1)
    await enforced.look()
    assert enforced.limits() == {"n1": 400, "n2": 150}
    await enforced.look(0.1)
    assert enforced.limits() == {"n1": 250, "n2": 150}


@pytest.mark.parametrize("stored", [True, False])
async def test_a_write_without_an_answer_counts_and_is_sent_again(enforced, stored):
    await two_nodes(enforced)
    enforced.now_s += 45
    enforced.demand(n1=200, n2=400)
    await enforced.look()
    enforced.answer()
    count = len(asks(enforced))
    enforced.api.faults.add(Disconnect(after_effect=stored), verb="patch", path="nodepowerbudgets/n2", times=1)
    await enforced.look()
    assert asks(enforced)[count].json()["spec"]["limitWatts"] == 400
    await enforced.look(1)
    assert enforced.limits() == {"n1": 200, "n2": 400}
    assert len(asks(enforced)) == count + (1 if stored else 2)
    assert asks(enforced)[-1].json()["spec"] == asks(enforced)[count].json()["spec"]
    enforced.answer()
    # The renewal in it counts as well.
    await enforced.look(200)
    assert enforced.leader.status("rack")["silentNodes"] == 0


async def test_what_may_be_stored_is_given_to_nobody_else(enforced):
    await two_nodes(enforced)
    enforced.demand(n1=200, n2=400)
    await enforced.look()
    enforced.answer()
    enforced.api.faults.add(Disconnect(), verb="patch", path="nodepowerbudgets/n2", times=None)
    await enforced.look()
    enforced.demand(n1=400, n2=200)
    for _ in range(3):
        await enforced.look(1)
        enforced.answer()
        assert enforced.limits() == {"n1": 200, "n2": 200}
    enforced.api.faults.clear()
    await enforced.settle()
    assert enforced.limits() == {"n1": 400, "n2": 200}


async def test_an_old_leader_whose_write_arrives_late_changes_nothing(enforced):
    await two_nodes(enforced)
    enforced.demand(n1=200, n2=400)
    await enforced.look()
    enforced.answer()
    old = enforced.leader
    enforced.api.faults.add(Delay(0.5), verb="patch", path="nodepowerbudgets/n2", times=1)
    late = asyncio.create_task(enforced.look())
    await enforced.api.wait_for(lambda: asks(enforced)[-1].json()["spec"]["limitWatts"] == 400)
    # The raise is on its way, and another operator has become the leader meanwhile.
    await enforced.elect()
    enforced.demand(n1=400, n2=200)
    await enforced.settle()
    await late
    await enforced.settle()
    assert enforced.spec("n2")["term"] == 2
    assert enforced.sum_watts() <= 600
    assert [each.status for each in asks(enforced) if each.path == f"{PATH}n2"].count(409) == 1
    old.put("rack", 300, nodeSelector={"rack": "a"})
    await enforced.follow(old)
    with pytest.raises(NotLeader):
        await old.controller.look()


async def test_a_new_leader_raises_nothing_before_all_agents_have_answered_it(enforced):
    await two_nodes(enforced)
    enforced.demand(n1=100, n2=100)
    await enforced.settle()
    enforced.put("rack", 900, nodeSelector={"rack": "a"})
    await enforced.elect()
    await enforced.look()
    before = enforced.limits()
    assert {enforced.spec(name)["term"] for name in ("n1", "n2")} == {2}
    enforced.answer("n1")
    await enforced.look(50)
    assert enforced.limits() == before
    enforced.answer("n2")
    await enforced.look()
    assert sum(enforced.limits().values()) == 900


async def test_a_silent_node_does_not_hold_up_a_new_leader_for_more_than_a_minute(enforced):
    await two_nodes(enforced)
    enforced.machines["n2"].silent = True
    enforced.put("rack", 1_000, nodeSelector={"rack": "a"})
    await enforced.elect()
    await enforced.look()
    enforced.answer()
    await enforced.look(59)
    assert enforced.limits() == {"n1": 400, "n2": 200}
    await enforced.look(1)
    # No one knows for how long its agent has been away: it counts as unlimited.
    assert enforced.limits() == {"n1": 500, "n2": 200}
    assert enforced.leader.status("rack")["inForceWatts"] == 900
    enforced.answer()
    await enforced.look(60)
    assert enforced.leader.status("rack")["inForceWatts"] == 1_000
    assert enforced.leader.status("rack")["silentNodes"] == 1


async def test_a_silent_node_counts_with_its_limit_as_long_as_its_actuator_keeps_it(enforced):
    await two_nodes(enforced)
    for limit_watts in (500, 600):
        enforced.put("rack", limit_watts, nodeSelector={"rack": "a"})
        await enforced.settle()
    enforced.machines["n2"].silent = True
    before = enforced.spec("n2")
    assert before["ceilingWatts"] < before["limitWatts"] == 200
    for _ in range(58):
        await enforced.look(60)
        enforced.answer()
    assert enforced.leader.status("rack")["inForceWatts"] == 600
    assert enforced.limits()["n1"] == 400
    for _ in range(3):
        await enforced.look(60)
        enforced.answer()
    assert enforced.limits()["n1"] == 100
    await enforced.look(60)
    assert enforced.sum_watts() == 300
    # A renewal changes nothing that was asked.
    after = enforced.spec("n2")
    assert after["renewal"] > before["renewal"]
    assert after | {"renewal": before["renewal"]} == before
    assert enforced.leader.status("rack")["inForceWatts"] == 600


async def test_others_make_room_before_a_silent_node_is_released(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, onLostControl="Release")
    enforced.add("n1", demand_watts=300)
    enforced.add("n2", demand_watts=300)
    await enforced.settle()
    enforced.machines["n2"].silent = True
    for _ in range(31):
        enforced.let_leases_end()
        assert enforced.sum_watts() <= 600
        await enforced.look(10)
        enforced.answer()
    enforced.let_leases_end()
    assert enforced.machines["n2"].limit_watts is None
    assert enforced.limits()["n1"] == 100
    enforced.machines["n2"].silent = False
    await enforced.settle()
    assert enforced.limits() == {"n1": 300, "n2": 300}


async def test_a_node_that_starts_again_or_is_replaced_is_another_one(enforced):
    await two_nodes(enforced)
    enforced.reboot("n1")
    await enforced.look(1)
    spec = enforced.spec("n1")
    assert (spec["bootID"], "ceilingWatts" in spec, "limitWatts" in spec) == ("boot-2", False, False)
    # Until it has answered it counts as unlimited, and others make room.
    assert enforced.limits()["n2"] == 100
    await enforced.settle()
    assert enforced.limits() == {"n1": 400, "n2": 200}
    enforced.add("n2", demand_watts=200)
    await enforced.settle()
    assert enforced.spec("n2")["nodeUID"] == enforced.api.get("Node", "n2")["metadata"]["uid"]
    assert enforced.budget("n2")["metadata"]["ownerReferences"][0]["uid"] == enforced.spec("n2")["nodeUID"]


@pytest.mark.parametrize("boot_id", [None, "x" * 500])
async def test_a_node_without_a_usable_boot_id_is_not_lowered(enforced, boot_id):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    enforced.add("n1")
    enforced.api.put(make_node("n1", labels={"rack": "a"}, boot_id=boot_id))
    await enforced.settle()
    assert enforced.limits() == {"n1": None}
    assert enforced.leader.condition("rack", "Held")[:2] == ("True", "WithinLimit")
    enforced.put("rack", 400, nodeSelector={"rack": "a"})
    await enforced.settle()
    assert enforced.leader.condition("rack", "Held")[:2] == ("False", "AboveLimit")


async def test_an_agent_that_refuses_or_takes_no_lower_limit_is_made_room_for(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    enforced.add("n1", demand_watts=300)
    enforced.add("n2", demand_watts=300, clamp_watts=350.0)
    await enforced.settle()
    assert enforced.sum_watts() <= 600
    assert enforced.machines["n1"].limit_watts == 250
    enforced.machines["n1"].refuses = True
    enforced.put("rack", 500, nodeSelector={"rack": "a"})
    await enforced.settle()
    await enforced.look(60)
    assert enforced.leader.status("rack")["refusedNodes"] == 1
    assert enforced.leader.condition("rack", "Held")[:2] == ("False", "AboveLimit")


@pytest.mark.parametrize("unlike", ["feed", "b"])
async def test_a_tree_is_observed_where_one_of_its_domains_says_so(enforced, unlike):
    modes = {unlike: "Observe"}
    enforced.put("feed", 600, mode=modes.get("feed", "Enforce"))
    for name in ("a", "b"):
        enforced.put(name, parent="feed", nodeSelector={"rack": name}, mode=modes.get(name, "Enforce"))
    enforced.add("n1")
    await enforced.look()
    assert asks(enforced) == []
    assert enforced.leader.status("a")["mode"] == "Observe"
    assert enforced.leader.condition("a", "Enforced") == (
        "False",
        "TreeObserved",
        f"a tree is enforced as a whole, and these domains of it say Observe: {unlike}",
    )


async def test_without_the_setting_nothing_is_written_and_what_was_is_deleted(enforced):
    await two_nodes(enforced)
    await enforced.elect(enforces=False)
    await enforced.look()
    assert enforced.limits() == {}
    enforced.answer()
    assert enforced.sum_watts() == 1_000
    assert enforced.leader.condition("rack", "Enforced")[:2] == ("False", "NotSwitchedOn")
    assert enforced.leader.status("rack")["mode"] == "Observe"


async def test_nodes_that_leave_are_restored_by_the_deletion_of_what_was_seen(enforced):
    await two_nodes(enforced)
    version = enforced.budget("n1")["metadata"]["resourceVersion"]
    enforced.api.patch("Node", "n1", {"metadata": {"labels": {"rack": "other"}}})
    await enforced.look()
    (removal,) = [each for each in asks(enforced) if each.verb == "delete"]
    assert (removal.path, removal.json()["preconditions"]) == (f"{PATH}n1", {"resourceVersion": version})
    enforced.remove("n2")
    await enforced.look()
    assert enforced.limits() == {}


async def test_a_deletion_on_a_version_that_has_passed_removes_nothing(enforced):
    await two_nodes(enforced)
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, mode="Observe")
    enforced.api.faults.add(Delay(0.3), verb="delete", path="nodepowerbudgets/n1", times=1)
    leaving = asyncio.create_task(enforced.look())
    await enforced.api.wait_for(lambda: any(each.verb == "delete" for each in asks(enforced)))
    # Meanwhile another client writes it.
    enforced.api.patch("NodePowerBudget", "n1", {"metadata": {"labels": {"a": "b"}}})
    await leaving
    assert enforced.budget("n1") is not None
    await enforced.look()
    assert enforced.budget("n1") is None


async def test_nodes_of_a_tree_that_cannot_be_used_keep_what_they_have_and_are_renewed(enforced):
    await two_nodes(enforced)
    enforced.put("rack", 300, nodeSelector={"rack": "a"}, parent="gone")
    count = len(asks(enforced))
    await enforced.look(1)
    assert asks(enforced)[count:] == []
    await enforced.look(100)
    written = [each.json()["spec"] for each in asks(enforced)[count:]]
    assert {each["nodeName"]: (each["limitWatts"], each["sequence"]) for each in written} == {
        name: (machine.limit_watts, enforced.spec(name)["sequence"]) for name, machine in enforced.machines.items()
    }
    assert enforced.leader.condition("rack", "Enforced")[:2] == ("False", "TreeSetAside")


async def test_an_unread_domain_frees_nobody(enforced):
    await two_nodes(enforced)
    await enforced.elect()
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, basis="Nothing")
    enforced.leader.unread = {"rack"}
    await enforced.look()
    assert enforced.limits() == {"n1": 400, "n2": 200}
    enforced.api.remove("PowerDomain", "rack")
    enforced.leader.unread = set()
    await enforced.look()
    assert enforced.limits() == {}


async def test_a_renewal_is_written_before_the_lease_ends_and_spread(enforced):
    enforced.put("rack", 10_000, nodeSelector={"rack": "a"})
    for index in range(20):
        enforced.add(f"n{index}")
    await enforced.settle()
    start, count = enforced.now_s, len(asks(enforced))
    by_pass = []
    while enforced.now_s < start + 100:
        await enforced.look(10)
        enforced.answer()
        by_pass.append(len(asks(enforced)) - count - sum(by_pass))
    assert sum(by_pass) == 20
    assert by_pass[:4] == [0] * 4
    assert max(by_pass) < 10
    assert {each.json()["spec"]["sequence"] for each in asks(enforced)[count:]} == {1}


async def test_limits_of_a_term_that_this_leader_is_not_above_are_left_alone(enforced):
    await two_nodes(enforced)
    await enforced.elect()
    enforced.leader.term = 1
    enforced.put("rack", 300, nodeSelector={"rack": "a"})
    await enforced.look()
    assert enforced.limits() == {"n1": 400, "n2": 200}
    assert enforced.leader.condition("rack", "Enforced")[:2] == ("False", "TermNotKnown")
    enforced.leader.term = 2
    await enforced.settle()
    assert sum(enforced.limits().values()) == 300


async def test_raises_that_are_late_are_decided_again(enforced):
    await two_nodes(enforced)
    enforced.demand(n1=200, n2=400)
    await enforced.look()
    enforced.answer()
    enforced.api.faults.add(Delay(0.2), verb="patch", path="nodepowerbudgets/", times=None)
    enforced.put("rack", 1_000, nodeSelector={"rack": "a"})
    count = len(asks(enforced))
    enforced.leader.late_s = 6.0
    await enforced.look()
    assert asks(enforced)[count:] == []
    enforced.leader.late_s = 0.0
    await enforced.look()
    assert len(asks(enforced)[count:]) == 2


async def test_the_same_node_without_control_is_kept_only_after_its_agent_knows(enforced):
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, onLostControl="Release")
    enforced.add("n1", demand_watts=300)
    enforced.add("n2", demand_watts=300)
    await enforced.settle()
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, onLostControl="KeepGuaranteed")
    await enforced.look(1)
    assert {each["spec"]["onLostControl"] for each in enforced.api.objects("NodePowerBudget")} == {"KeepGuaranteed"}
    await enforced.look(1)
    assert enforced.leader.status("rack")["unconfirmedNodes"] in {0, 2}
    enforced.demand(n1=200, n2=400)
    await enforced.look(1)
    enforced.answer("n1")
    await enforced.look(1)
    assert enforced.limits()["n2"] == 300
    await enforced.settle()
    assert enforced.limits() == {"n1": 200, "n2": 400}


async def test_a_hostile_budget_counts_as_unlimited_and_is_not_written(enforced):
    await two_nodes(enforced)
    before = len(asks(enforced))
    enforced.api.patch("NodePowerBudget", "n1", {"spec": {"limitWatts": "many"}})
    enforced.leader.unread_budgets = {"n1"}
    await enforced.look(1)
    assert [each.path for each in asks(enforced)[before:]] == [f"{PATH}n2"]
    assert enforced.limits()["n2"] == 100


async def test_nothing_is_written_while_the_budgets_may_be_out_of_date(enforced, monkeypatch):
    await two_nodes(enforced)
    count = len(enforced.api.requests.writes())
    monkeypatch.setattr(enforced.leader.budgets, "stale_reason", lambda: "no contact for 40 s")
    enforced.put("rack", 300, nodeSelector={"rack": "a"})
    await enforced.look(300)
    assert len(enforced.api.requests.writes()) == count


async def test_a_node_that_shall_be_released_from_now_on_is_told_at_once(enforced):
    await two_nodes(enforced)
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, onLostControl="Release")
    count = len(asks(enforced))
    await enforced.look(1)
    assert {each.json()["spec"]["onLostControl"] for each in asks(enforced)[count:]} == {"Release"}
    assert len(asks(enforced)[count:]) == 2


async def test_a_hostile_budget_is_made_room_for_by_a_new_leader_at_once(enforced):
    await two_nodes(enforced)
    enforced.api.patch("NodePowerBudget", "n1", {"spec": {"limitWatts": "many"}})
    await enforced.elect()
    enforced.leader.unread_budgets = {"n1"}
    await enforced.look(1)
    assert enforced.limits()["n2"] == 100


@pytest.mark.parametrize("report", [{"renewal": 2**63 - 1}, {"inForceWatts": 1e308}, {"sequence": 2**63 - 1}])
async def test_a_hostile_report_makes_no_node_freer(enforced, report):
    await two_nodes(enforced)
    enforced.machines["n2"].silent = True
    enforced.api.patch("NodePowerBudget", "n2", {"status": report})
    for _ in range(6):
        await enforced.look(60)
        enforced.answer()
    assert enforced.limits()["n1"] <= 400
    assert enforced.leader.status("rack")["silentNodes"] == 1


async def test_a_budget_whose_numbers_have_come_to_their_end_holds_up_no_other_node(enforced):
    await two_nodes(enforced)
    enforced.api.patch("NodePowerBudget", "n1", {"spec": {"renewal": 2**63 - 1, "sequence": 2**63 - 1}})
    enforced.put("rack", 400, nodeSelector={"rack": "a"})
    await enforced.look(1)
    # No leader of this term has written that: the Lease counts one more transition first.
    assert enforced.limits() == {"n1": 400, "n2": 200}
    enforced.leader.term = 2
    await enforced.look(1)
    assert enforced.spec("n1")["renewal"] == 2**63 - 1
    assert enforced.limits()["n2"] < 200


async def test_nodes_of_a_broken_tree_that_was_to_be_observed_are_freed(enforced):
    await two_nodes(enforced)
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, parent="gone", mode="Observe")
    await enforced.look(1)
    assert enforced.limits() == {}


async def test_nothing_is_deleted_by_what_may_be_out_of_date(enforced, monkeypatch):
    await two_nodes(enforced)
    await enforced.elect(enforces=False)
    monkeypatch.setattr(enforced.leader.budgets, "stale_reason", lambda: "no contact for 40 s")
    await enforced.look()
    assert enforced.limits().keys() == {"n1", "n2"}
    monkeypatch.undo()
    await enforced.look()
    assert enforced.limits() == {}


async def test_a_leader_whose_term_is_not_above_what_is_stored_deletes_nothing(enforced):
    await two_nodes(enforced)
    await enforced.elect()
    enforced.leader.term = 1
    enforced.put("rack", 600, nodeSelector={"rack": "a"}, mode="Observe")
    await enforced.look()
    assert enforced.limits().keys() == {"n1", "n2"}
    enforced.leader.term = 2
    await enforced.look()
    assert enforced.limits() == {}


async def test_the_largest_sum_is_that_within_the_present_limit(enforced):
    await two_nodes(enforced)
    enforced.put("rack", 400, nodeSelector={"rack": "a"})
    await enforced.settle()
    await enforced.look(60)
    assert enforced.leader.status("rack")["largestInForceWatts"] == 400


async def test_the_node_of_an_object_that_cannot_be_read_keeps_its_limit(enforced):
    await two_nodes(enforced)
    labels = {"metadata": {"labels": {"rack": ["a"]}}}
    enforced.api.patch("Node", "n1", labels)
    await enforced.elect()
    enforced.leader.unread_nodes = {"n1"}
    await enforced.look()
    assert "n1" in enforced.limits()


@pytest.mark.parametrize(("saved_watts", "watts"), [(100.0, 500.0), (500.0, 100.0)])
async def test_a_limit_that_comes_back_with_a_backup_gives_no_other_node_what_its_own_still_holds(
    enforced, saved_watts, watts
):
    enforced.put("rack", 600, nodeSelector={"rack": "a"})
    for name in ("n1", "n2"):
        enforced.add(name)
    enforced.demand(n1=saved_watts, n2=watts)
    await enforced.settle()
    saved = enforced.spec("n1")
    enforced.demand(n1=watts, n2=saved_watts)
    await enforced.settle()
    assert (saved["limitWatts"], enforced.machines["n1"].limit_watts) == (saved_watts, watts)
    enforced.api.patch("NodePowerBudget", "n1", {"spec": saved | {"renewal": enforced.spec("n1")["renewal"]}})
    enforced.demand(n1=saved_watts, n2=watts)
    for _ in range(8):
        await enforced.look()
        enforced.answer()
        assert enforced.sum_watts() <= 600.0
    assert [each.limit_watts for each in enforced.machines.values()] == [saved_watts, watts]
