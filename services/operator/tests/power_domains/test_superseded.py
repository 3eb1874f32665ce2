"""Limits that change while an earlier decision is still being written."""

import json

import pytest

from joulie_api.apply import FencedWriter
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.controller import WHOLE_S
from joulie_testing.api import make_power_event

_RACK = {"nodeSelector": {"rack": "a"}}
_EVENT_AFTER_S = 3.0


@pytest.fixture
async def raising(enforced, monkeypatch):
    """Return a cluster whose next decision raises three nodes, and a list of what shall happen at its first write."""
    enforced.put("rack", 600, **_RACK)
    for name in ("n1", "n2", "n3"):
        enforced.add(name)
    await enforced.settle()
    enforced.put("rack", 1_200, **_RACK)
    meanwhile, patch = [], FencedWriter.patch

    async def patch_after(writer, resource, name, body):
        while meanwhile:
            await meanwhile.pop()()
        await patch(writer, resource, name, body)

    monkeypatch.setattr(FencedWriter, "patch", patch_after)
    return enforced, meanwhile


async def limit(enforced, watts):
    """Change the limit, and wait until the operator has seen that."""
    enforced.put("rack", watts, **_RACK)
    await enforced.follow(enforced.leader)


async def asked(enforced):
    """Return the limits that one pass asks."""
    start = len(enforced.leader.writes)
    await enforced.look()
    sent = enforced.leader.writes[start:]
    return [(each.verb, json.loads(each.body)["spec"]["limitWatts"]) for each in sent if each.kind == "NodePowerBudget"]


async def test_all_raises_are_sent_where_nothing_changes(raising):
    enforced, _ = raising
    assert await asked(enforced) == [("patch", 400.0)] * 3


async def test_a_lower_limit_stops_the_raises_that_are_not_sent_yet_and_is_asked_next(raising):
    enforced, meanwhile = raising
    meanwhile.append(lambda: limit(enforced, 450))
    assert await asked(enforced) == [("patch", 400.0)]
    assert await asked(enforced) == [("patch", 150.0)] * 3
    enforced.answer()
    assert enforced.sum_watts() == 450


async def test_an_event_that_starts_meanwhile_does_so_too(raising):
    enforced, meanwhile = raising
    start = rfc3339(enforced.now_s + _EVENT_AFTER_S)
    enforced.api.put(make_power_event("cut", domain="rack", start=start, limitWatts=300, standing=True))

    async def wait():
        enforced.leader.now_s = enforced.now_s = enforced.now_s + _EVENT_AFTER_S

    meanwhile.append(wait)
    assert await asked(enforced) == [("patch", 400.0)]
    await enforced.settle()
    assert enforced.sum_watts() == 300


async def test_reports_of_nodes_stop_nothing(raising):
    enforced, meanwhile = raising

    async def report():
        enforced.api.patch("NodePowerBudget", "n3", {"status": {"refused": True}})
        await enforced.follow(enforced.leader)

    meanwhile.append(report)
    assert len(await asked(enforced)) == 3


async def test_a_new_domain_stops_nothing(raising):
    enforced, meanwhile = raising

    async def create():
        enforced.put("other", 500, nodeSelector={"rack": "b"})
        await enforced.follow(enforced.leader)

    meanwhile.append(create)
    assert len(await asked(enforced)) == 3


@pytest.mark.parametrize(("spec", "sent"), [({"sourceRenewed": "2027-01-15T08:01:00Z"}, 3), ({"limitWatts": 601}, 1)])
async def test_a_source_that_renews_its_event_stops_nothing_and_one_that_changes_its_limit_does(raising, spec, sent):
    enforced, meanwhile = raising
    later = {"domain": "rack", "start": "2099-01-01T00:00:00Z", "standing": True, "sourceTimeoutSeconds": 300}
    enforced.api.put(make_power_event("cut", limitWatts=600, sourceRenewed="2027-01-15T08:00:00Z", **later))
    await enforced.follow(enforced.leader)

    async def change():
        enforced.api.patch("PowerEvent", "cut", {"spec": spec})
        await enforced.follow(enforced.leader)

    meanwhile.append(change)
    assert len(await asked(enforced)) == sent


async def test_a_source_that_comes_back_stops_raises(raising):
    enforced, meanwhile = raising
    enforced.put("rack", 600, **_RACK)
    cut = {"domain": "rack", "limitWatts": 450, "standing": True, "ifSourceLost": "Release", "sourceTimeoutSeconds": 30}
    enforced.api.put(make_power_event("cut", sourceRenewed="2027-01-15T08:00:00Z", **cut))
    await enforced.settle()
    assert enforced.sum_watts() == 450

    async def renew():
        enforced.api.patch("PowerEvent", "cut", {"spec": {"sourceRenewed": "2027-01-15T08:01:00Z"}})
        await enforced.follow(enforced.leader)

    await enforced.look(31)
    assert enforced.api.get("PowerEvent", "cut")["status"]["state"] == "SourceLost"
    enforced.put("rack", 900, **_RACK)
    # As `run` does after a decision that was carried out.
    enforced.leader.controller._whole_s = enforced.now_s
    meanwhile.append(renew)
    assert await asked(enforced) == [("patch", 300.0)]


async def test_limits_that_change_without_end_stop_no_raise_for_longer_than_the_limit(raising):
    enforced, meanwhile = raising
    enforced.now_s += WHOLE_S
    meanwhile.append(lambda: limit(enforced, 1_199))
    assert await asked(enforced) == [("patch", 400.0)] * 3


async def test_the_status_of_a_domain_is_left_to_the_next_decision(raising):
    enforced, meanwhile = raising
    meanwhile.append(lambda: limit(enforced, 450))
    start = len(enforced.leader.writes)
    await asked(enforced)
    assert {each.kind for each in enforced.leader.writes[start:]} == {"NodePowerBudget"}
    await asked(enforced)
    assert enforced.leader.status("rack")["unconfirmedNodes"] == 1


async def test_the_status_of_an_event_is_left_to_the_next_decision(raising):
    enforced, meanwhile = raising
    enforced.api.put(make_power_event("cut", domain="rack", limitWatts=1_100, standing=True))
    meanwhile.append(lambda: limit(enforced, 450))
    await asked(enforced)
    assert "status" not in enforced.api.get("PowerEvent", "cut")
    await asked(enforced)
    assert enforced.api.get("PowerEvent", "cut")["status"]["state"] == "Active"
