"""Events on the in-process API server: which limits are asked of nodes, and what is written about events."""

import math

import pytest

from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.event_metrics import event_families
from joulie_testing.api import Respond, make_power_event

_PATH = "/apis/joulie.io/v1alpha1/powerevents/"


def put_row(world, limit_watts=1_600):
    """A row of two racks with two servers each, of 100 to 500 W."""
    world.put("row", limit_watts)
    world.put("rack-a", 2_000, parent="row", nodeSelector={"rack": "a"})
    world.put("rack-b", 2_000, parent="row", nodeSelector={"rack": "b"})
    for name in ("a1", "a2", "b1", "b2"):
        world.add(name, rack=name[0])


def put_event(world, name="cut", *, after_s=0.0, for_s=600.0, **spec):
    """Store an event that starts so many seconds from now."""
    times = {"start": rfc3339(world.now_s + after_s), "end": rfc3339(world.now_s + after_s + for_s), "standing": None}
    return world.api.put(make_power_event(name, **{"domain": "row"} | times | spec))


def status(world, name="cut"):
    return world.api.get("PowerEvent", name).get("status", {})


def condition(world, kind, name="cut"):
    found = {each["type"]: each for each in status(world, name).get("conditions", ())}[kind]
    return found["status"], found["reason"], found.get("message", "")


async def settled(world, after_s=0.0):
    world.now_s += after_s
    await world.settle()


def writes(world, start=0):
    return [each for each in world.leader.writes[start:] if each.kind == "PowerEvent"]


async def test_the_limit_of_an_event_is_in_force_from_its_start_to_its_end_and_the_domains_own_after_it(enforced):
    put_row(enforced)
    await settled(enforced)
    assert enforced.sum_watts() == 1_600
    put_event(enforced, after_s=60, limitWatts=1_000)
    await settled(enforced)
    assert enforced.sum_watts() == 1_600
    assert condition(enforced, "Accepted") == (
        "True",
        "Accepted",
        "the limit goes from 1600 W to 1000 W; 400 W could be delivered",
    )
    assert condition(enforced, "Active")[:2] == ("False", "Pending")
    assert (status(enforced)["state"], status(enforced)["deliverableWatts"]) == ("Pending", 400)
    await settled(enforced, after_s=60)
    assert enforced.sum_watts() == 1_000
    assert sum(enforced.limits().values()) == 1_000
    found = status(enforced)
    assert (found["state"], found["targetWatts"], found["bindingEvent"]) == ("Active", 1_000, "cut")
    assert found["affected"] == {"performanceNodes": 0, "standardNodes": 4, "nodes": ["a1", "a2", "b1", "b2"]}
    assert enforced.api.get("PowerDomain", "row")["status"]["bindingEvent"] == "cut"
    await settled(enforced, after_s=599)
    assert enforced.sum_watts() == 1_000
    await settled(enforced, after_s=1)
    assert enforced.sum_watts() == 1_600
    assert (status(enforced)["state"], "targetWatts" in status(enforced)) == ("Ended", False)
    assert "bindingEvent" not in enforced.api.get("PowerDomain", "row")["status"]


async def test_a_status_is_written_once_on_the_version_that_was_seen(enforced):
    put_row(enforced)
    stored = put_event(enforced, after_s=60)
    await settled(enforced)
    first, *others = writes(enforced)
    assert (first.verb, first.path, first.query["fieldManager"]) == ("apply", f"{_PATH}cut/status", "joulie-operator")
    assert first.json()["metadata"] == {"name": "cut", "resourceVersion": stored["metadata"]["resourceVersion"]}
    assert first.json()["status"]["firstSeen"] == rfc3339(enforced.now_s)
    for _ in range(3):
        await settled(enforced, after_s=10)
    # Nothing has changed but time and, with a term, whether the tree is enforced.
    assert len(writes(enforced)) == 1 + len(others) <= 3


async def test_the_lowest_of_several_limits_is_in_force_and_the_end_of_one_does_not_free_another(enforced):
    put_row(enforced)
    put_event(enforced, "low", limitWatts=800, for_s=100)
    put_event(enforced, "high", limitWatts=1_200, for_s=300, priority=0)
    await settled(enforced)
    assert enforced.sum_watts() == 800
    assert condition(enforced, "Active", "high")[:2] == ("True", "OtherEventBinds")
    assert status(enforced, "high")["bindingEvent"] == "low"
    await settled(enforced, after_s=100)
    assert enforced.sum_watts() == 1_200
    assert condition(enforced, "Active", "high")[:2] == ("True", "InForce")


async def test_no_event_raises_the_limit_of_its_domain(enforced):
    put_row(enforced)
    put_event(enforced, limitWatts=5_000)
    await settled(enforced)
    assert enforced.sum_watts() == 1_600
    assert condition(enforced, "Accepted")[:2] == ("True", "NothingToDeliver")
    assert condition(enforced, "Active")[:2] == ("False", "NothingToDeliver")


async def test_nodes_with_performance_pods_keep_what_they_have_where_the_event_may_not_affect_them(enforced):
    put_row(enforced, limit_watts=2_000)
    enforced.leader.performance = {"a1", "b1"}
    put_event(enforced, limitWatts=1_400, mayAffect=["standard"])
    await settled(enforced)
    assert {name: each.may_draw for name, each in enforced.machines.items()} == {
        "a1": 500, "a2": 200, "b1": 500, "b2": 200
    }  # fmt: skip
    assert status(enforced)["affected"]["performanceNodes"] == 0
    put_event(enforced, limitWatts=600, mayAffect=["standard"])
    await settled(enforced)
    assert enforced.sum_watts() == 1_200
    assert condition(enforced, "Accepted") == (
        "False",
        "DepthNotReachable",
        "600 W are asked for, and 1200 W can be delivered, which is the limit instead",
    )
    assert (status(enforced)["deliverableWatts"], status(enforced)["targetWatts"]) == (1_200, 1_200)


async def test_an_event_does_not_lower_below_the_floors_of_a_domain(enforced):
    enforced.put("row", 1_000, nodeSelector={"rack": "a"}, floor={"wattsPerNode": 300}, reserveWatts=50)
    for name in ("a1", "a2"):
        enforced.add(name, rack="a")
    put_event(enforced, limitWatts=100)
    await settled(enforced)
    assert enforced.sum_watts() == 600
    assert condition(enforced, "Accepted")[2].startswith("100 W are asked for, and 650 W can be delivered")
    assert (status(enforced)["deliverableWatts"], status(enforced)["targetWatts"]) == (600, 600)


async def test_a_ramp_goes_down_second_by_second_and_wakes_the_controller(enforced):
    put_row(enforced)
    put_event(enforced, after_s=5, limitWatts=600, rampDownSeconds=100)
    await settled(enforced)
    events = enforced.leader.controller._parts.events
    assert events.pause_s(enforced.now_s) == pytest.approx(5.0)
    sums = []
    for _ in range(3):
        await settled(enforced, after_s=30)
        sums.append(enforced.sum_watts())
        assert events.pause_s(enforced.now_s) == pytest.approx(1.0)
    assert sums == [1_350, 1_050, 750]
    assert status(enforced)["state"] == "RampingDown"
    await settled(enforced, after_s=30)
    assert (enforced.sum_watts(), status(enforced)["state"]) == (600, "Active")


async def test_a_deleted_event_ends_at_once_without_a_ramp(enforced):
    put_row(enforced)
    put_event(enforced, limitWatts=800, rampUpSeconds=600)
    await settled(enforced)
    assert enforced.sum_watts() == 800
    enforced.api.remove("PowerEvent", "cut")
    await settled(enforced)
    assert enforced.sum_watts() == 1_600


async def test_a_start_that_has_passed_is_the_moment_at_which_the_event_is_seen_and_stays_so(enforced):
    put_row(enforced)
    await settled(enforced)
    put_event(enforced, after_s=-3_000, for_s=4_000, limitWatts=600, rampDownSeconds=100)
    await settled(enforced)
    assert (enforced.sum_watts(), status(enforced)["state"]) == (1_600, "RampingDown")
    await settled(enforced, after_s=50)
    assert enforced.sum_watts() == 1_100
    await enforced.elect()
    await settled(enforced, after_s=25)
    assert enforced.sum_watts() <= 1_100
    await settled(enforced, after_s=70)
    assert enforced.sum_watts() == 600


async def test_a_new_leader_decides_nothing_before_it_knows_the_events(enforced):
    put_row(enforced)
    put_event(enforced, limitWatts=800)
    await settled(enforced)
    await enforced.elect()
    enforced.leader.events_unknown = "power events are not known: first list not complete"
    before = enforced.api.resource_version
    await enforced.look()
    assert enforced.api.resource_version == before
    enforced.leader.events_unknown = None
    await settled(enforced)
    await settled(enforced, after_s=61)
    assert enforced.sum_watts() == 800


@pytest.mark.parametrize(("loss", "sum_watts"), [("KeepUntilEnd", 800), ("Limit", 1_200), ("Release", 1_600)])
async def test_a_source_that_does_not_renew_is_lost_by_the_clock_of_the_operator(enforced, loss, sum_watts):
    put_row(enforced)
    fields = {"sourceLostLimitWatts": 1_200} if loss == "Limit" else {}
    # The clock of the source is wrong.
    put_event(
        enforced, limitWatts=800, ifSourceLost=loss, sourceTimeoutSeconds=60, sourceRenewed="1999-01-01T00:00:00Z",
        **fields,
    )  # fmt: skip
    await settled(enforced, after_s=30)
    await settled(enforced, after_s=59)
    assert (enforced.sum_watts(), status(enforced)["state"]) == (800, "Active")
    await settled(enforced, after_s=1)
    assert (enforced.sum_watts(), status(enforced)["state"]) == (sum_watts, "SourceLost")
    enforced.api.patch("PowerEvent", "cut", {"spec": {"sourceRenewed": "1999-01-01T00:00:01Z"}})
    await settled(enforced)
    assert (enforced.sum_watts(), status(enforced)["state"]) == (800, "Active")


async def test_an_event_that_cannot_be_read_counts_as_it_last_could_and_frees_nothing(enforced):
    put_row(enforced)
    put_event(enforced, limitWatts=800)
    put_event(enforced, "good", limitWatts=1_000)
    await settled(enforced)
    enforced.api.patch("PowerEvent", "cut", {"spec": {"limitWatts": "many"}})
    put_event(enforced, "bad", limitWatts=-1)
    enforced.leader.unread_events = {"cut", "bad"}
    before = len(enforced.leader.writes)
    await settled(enforced)
    assert enforced.sum_watts() == 800
    assert [each for each in writes(enforced, before) if "/good" not in each.path] == []
    families = {each.name: each for each in event_families({}, enforced.leader.controller._parts.events.unreadable)}
    (sample,) = families["joulie_operator_power_events_unreadable"].samples
    assert sample.value == 2


async def test_an_event_of_an_unknown_domain_or_of_one_that_is_observed_says_why_it_lowers_nothing(enforced):
    put_row(enforced)
    enforced.put("aside", 900, parent="missing")
    enforced.put("seen", 400, mode="Observe", nodeSelector={"rack": "c"})
    enforced.add("c1", rack="c")
    for name, domain in (("u", "nowhere"), ("s", "aside"), ("o", "seen")):
        put_event(enforced, name, domain=domain, limitWatts=300)
    await settled(enforced)
    assert enforced.machines["c1"].may_draw == 500
    assert condition(enforced, "Accepted", "u")[:2] == ("False", "DomainUnknown")
    assert condition(enforced, "Accepted", "s")[:2] == ("False", "TreeSetAside")
    depth = "the limit goes from 400 W to 300 W; 100 W could be delivered"
    assert condition(enforced, "Accepted", "o") == (
        "False",
        "DomainNotEnforced",
        f"seen is not enforced, and nothing is lowered; else: {depth}",
    )
    for name in ("u", "s", "o"):
        assert condition(enforced, "Active", name)[0] == "False"
        assert "targetWatts" not in status(enforced, name)


async def test_a_node_whose_highest_power_is_not_known_leaves_what_can_be_delivered_unknown(enforced):
    put_row(enforced)
    put_event(enforced, limitWatts=800)
    await settled(enforced)
    del enforced.leader.power["b2"]
    await enforced.look()
    assert condition(enforced, "Accepted")[:2] == ("Unknown", "PowerUnknown")
    assert "deliverableWatts" not in status(enforced)


async def test_a_failed_write_of_one_event_hinders_no_other_and_is_repeated(enforced):
    put_row(enforced)
    enforced.api.faults.add(Respond(500), path="/powerevents/bad/status", times=1)
    for name in ("bad", "good"):
        put_event(enforced, name, after_s=60)
    await enforced.look()
    assert (status(enforced, "bad"), status(enforced, "good")["state"]) == ({}, "Pending")
    await enforced.look()
    assert status(enforced, "bad")["state"] == "Pending"


async def drawing(world, watts, minutes, event_s=60):
    """Let each server draw so many watts for a time, with one reading a minute."""
    for _ in range(minutes):
        world.drawn = watts
        world.describe()
        await world.look(after_s=event_s)
        world.answer()


async def test_a_reduction_is_of_the_mean_of_the_last_hour_with_the_reserve_beside_it(enforced):
    enforced.put("row", 1_600, nodeSelector={"rack": "a"}, reserveWatts=100)
    for name in ("a1", "a2"):
        enforced.add(name, rack="a")
    await settled(enforced)
    put_event(enforced, after_s=3_600, limitWatts=None, reduceByPercent=30, baseline="LastHour")
    await drawing(enforced, 400, 30)
    assert condition(enforced, "Accepted")[:2] == ("Unknown", "NoBaseline")
    await drawing(enforced, 300, 29)
    assert condition(enforced, "Accepted")[:2] == ("True", "Accepted")
    await drawing(enforced, 300, 1)
    await settled(enforced)
    found = status(enforced)
    assert found["state"] == "Active"
    # The first minute drew nothing, and the last one has not been followed by another reading.
    assert found["baselineWatts"] == pytest.approx((30 * 800 + 28 * 600) / 59, abs=0.1)
    assert found["targetWatts"] == pytest.approx(0.7 * found["baselineWatts"], abs=0.1)
    assert enforced.sum_watts() == pytest.approx(found["targetWatts"], abs=1)
    # The baseline stays that of the start, also under another leader.
    await drawing(enforced, 200, 3)
    await enforced.elect()
    await drawing(enforced, 200, 2)
    assert status(enforced)["baselineWatts"] == found["baselineWatts"]


async def test_without_enough_known_minutes_a_reduction_is_not_carried_out(enforced):
    put_row(enforced)
    await drawing(enforced, 300, 40)
    put_event(enforced, limitWatts=None, reduceByPercent=30, baseline="LastHour")
    await settled(enforced)
    assert condition(enforced, "Accepted")[:2] == ("False", "NoBaseline")
    assert condition(enforced, "Active")[:2] == ("False", "NoBaseline")
    assert enforced.sum_watts() == 1_600


async def test_the_history_of_a_domain_outlasts_the_leader(enforced):
    put_row(enforced)
    await drawing(enforced, 300, 61)
    await enforced.elect()
    await drawing(enforced, 300, 1)
    put_event(enforced, limitWatts=None, reduceByPercent=50, baseline="LastHour")
    await settled(enforced)
    assert status(enforced)["baselineWatts"] == 1_200


async def test_the_minutes_of_an_event_have_baseline_target_and_drawn_power_and_a_gap_is_a_gap(enforced):
    put_row(enforced)
    await drawing(enforced, 350, 60)
    put_event(enforced, for_s=360, limitWatts=1_000, baseline="LastHour", rampUpSeconds=60)
    await settled(enforced)
    await drawing(enforced, 250, 2)
    power = enforced.leader.power
    enforced.leader.power = power | {"a1": (500, 100, None, None)}
    await enforced.look(after_s=60)
    await drawing(enforced, 260, 2)
    # There is no look for two minutes.
    await enforced.look(after_s=180)
    await drawing(enforced, 360, 3)
    found = status(enforced)
    rows = [
        (each.get("baselineWatts"), each.get("targetWatts"), each.get("drawnWatts"), each["quality"])
        for each in found["minutes"]
    ]
    assert rows[:6] == [
        (1_400, 1_000, 1_400, "measured"),
        (1_400, 1_000, 1_000, "measured"),
        (1_400, 1_000, 1_000, "measured"),
        (1_400, 1_000, None, "unknown"),
        (1_400, 1_000, 1_040, "measured"),
        (1_400, 1_000, 1_040, "measured"),
    ]
    assert found["secondsTo90Percent"] == 60
    starts = [each["start"] for each in found["minutes"]]
    assert starts == sorted(starts)
    assert len(starts) == 9
    assert found["reboundPercent"] == pytest.approx(100 * (1_440 - 1_400) / 1_400, abs=0.01)
    assert math.isfinite(found["meanErrorWhileHeld"])
