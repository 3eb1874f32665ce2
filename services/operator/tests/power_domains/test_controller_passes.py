"""One pass of the controller: what it passes on, and which statuses it writes."""

import asyncio
import logging

import pytest
from services.operator.tests.power_domains.controller_world import NOW_S, World, domain, node
from structlog.testing import capture_logs

from joulie_api.errors import ApiError, NotFound, NotLeader
from joulie_api.resources import POWER_DOMAINS
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains import controller as controller_module
from joulie_operator.power_domains.controller import (
    DEBOUNCE_S,
    INTERVAL_S,
    SLICE,
    STALE_INTERVAL_S,
    WHOLE_S,
)


@pytest.fixture
def world():
    return World().put(domain(), nodes=(node("n1"), node("n2")))


def test_the_times_are_those_of_the_documents():
    assert (INTERVAL_S, DEBOUNCE_S, WHOLE_S, STALE_INTERVAL_S, SLICE) == (10.0, 0.1, 30.0, 1.0, 25)


# --- one pass ---------------------------------------------------------------------------------------------------------


async def test_a_decision_is_handed_to_all_who_need_it(world):
    world.nodes.invalid = {"n2": "labels", "gone": "labels"}
    assert await world.look() == ["rack"]
    ((resource, name, body, is_status),) = world.writer.applied
    assert (resource, name, is_status) == (POWER_DOMAINS, "rack", True)
    assert body["metadata"] == {"resourceVersion": "1"}
    assert (body["status"]["nodes"], body["status"]["observedGeneration"]) == (2, 3)
    assert body["status"]["lastUpdated"] == rfc3339(NOW_S, "seconds")
    ((decision, nodes, unread, decided_s, superseded),) = world.budgets.carried
    assert (nodes, unread, decided_s, superseded) == ({"n1", "n2"}, {"n2", "gone"}, 50.0, False)
    assert world.available.updates == [(decision.available, {"n1": 500_000, "n2": 500_000}, decision.kept)]
    assert world.budgets.nodes == {"n1", "n2"}
    assert world.events.given == ({"rack"}, {"n1", "n2"}, NOW_S, 50.0)
    assert (world.events.log, world.events.published) == ([True], [NOW_S])
    assert world.controller.states["rack"].status.nodes == 2
    assert world.controller.states["rack"].spec.limit_watts == 1_000
    # A node of which no version can be read may be one of the tree; of the other an earlier one is known.
    held = {each.type: each for each in world.controller.states["rack"].status.conditions}["Held"]
    assert (held.reason, held.message.endswith(": Node gone")) == ("ObjectUnreadable", True)


@pytest.mark.parametrize("part", ["pods", "budgets", "events"])
async def test_nothing_is_decided_or_shown_by_what_may_be_out_of_date(world, part):
    await world.look()
    where, name = {"pods": (world, "reason"), "budgets": (world.budgets, "reason"), "events": (world.events, "reason")}[
        part
    ]
    setattr(where, name, "no contact for 40 s")
    with capture_logs() as logs:
        assert await world.look() == []
        assert await world.look() == []
    assert [(each["event"], each["problem"], each["cause"]) for each in logs] == [
        ("power domains not observed", "no contact for 40 s", "stale")
    ]
    assert (world.controller.states, world.available.lost, len(world.budgets.carried)) == ({}, 2, 1)
    assert world.events.log == [True, "forgotten", "forgotten"]
    where.reason = None
    with capture_logs() as logs:
        await world.look()
    assert [each["event"] for each in logs] == ["power domains are observed"]


async def test_nodes_that_are_as_they_were_are_read_at_full_passes_alone(world):
    await world.look()
    world.nodes.store["n2"] = node("n2")
    world.sight.asked.clear()
    await world.look(afresh=False)
    assert (world.sight.asked, world.events.log) == (["n2"], [True, False])
    assert world.controller.states["rack"].status.nodes == 2
    await world.look(afresh=True)
    assert world.sight.asked == ["n2", "n1", "n2"]
    del world.nodes.store["n1"]
    await world.look(afresh=False)
    assert world.sight.retained == {"n2"}
    assert world.controller.states["rack"].status.nodes == 1


async def test_a_node_that_a_defect_hides_is_unknown(world):
    world.sight.broken = {"n1"}
    await world.look()
    assert world.controller.states["rack"].status.unknown_nodes == 1
    assert world.metrics.get_sample_value("joulie_internal_errors_total", {"work": "node of power domains"}) == 1.0


async def test_all_nodes_are_read_in_slices_with_turns_of_others_between(world, monkeypatch):
    monkeypatch.setattr(controller_module, "SLICE", 2)
    world.put(nodes=[node(f"n{number}") for number in range(1, 6)])
    turns = []

    async def sleep(seconds, sleeps=asyncio.sleep):
        turns.append((seconds, len(world.sight.asked)))
        await sleeps(seconds)

    monkeypatch.setattr(controller_module.asyncio, "sleep", sleep)
    await world.look()
    assert turns[:3] == [(0, 2), (0, 4), (0, 5)]
    assert world.sight.asked == ["n1", "n2", "n3", "n4", "n5"]


async def test_a_domain_whose_status_fails_hides_no_other(world, monkeypatch):
    status_of = controller_module.domain_status
    world.put(domain("other"))

    def broken(name, *given, **options):
        return 1 / 0 if name == "rack" else status_of(name, *given, **options)

    monkeypatch.setattr(controller_module, "domain_status", broken)
    assert await world.look() == ["other"]
    assert world.controller.states.keys() == {"other"}
    assert world.metrics.get_sample_value("joulie_internal_errors_total", {"work": "status of power domain"}) == 1.0


async def test_before_the_first_pass_nothing_is_shown_and_a_first_one_may_be_by_reports(world):
    assert world.controller.states == {}
    assert await world.look(afresh=False) == ["rack"]
    assert world.sight.asked == ["n1", "n2"]


# --- statuses ---------------------------------------------------------------------------------------------------------


async def test_a_status_is_written_once_on_a_version(world):
    assert await world.look() == ["rack"]
    world.wall_s += 300
    assert await world.look() == []
    world.put(domain(version="2"))
    assert await world.look() == ["rack"]
    # A domain of the same version that was gone meanwhile is another one.
    stored = world.domains.store.pop("rack")
    await world.look()
    world.put(stored)
    assert await world.look() == ["rack"]


async def test_a_status_that_is_stored_is_not_written_before_it_is_due(world):
    await world.look()
    body = world.writer.applied[0][2]
    world.put(domain(version="2", status=body["status"]))
    world.wall_s += 299
    assert await world.look() == []
    world.wall_s += 1
    assert await world.look() == ["rack"]
    # A condition that stays keeps its time.
    before, after = (each[2]["status"]["conditions"][0]["lastTransitionTime"] for each in world.writer.applied)
    assert before == after


@pytest.mark.parametrize(
    ("error", "told"), [(ApiError(500, "InternalError", "no"), True), (NotFound(404, "NotFound", "no"), False)]
)
async def test_a_status_that_is_not_stored_is_written_again(world, error, told):
    world.put(domain("other"))
    world.writer.errors = {"rack": error}
    with capture_logs() as logs:
        assert sorted(await world.look()) == ["other", "rack"]
        assert await world.look() == ["rack"]
    assert [(each["event"], each["domain"]) for each in logs] == (
        [("status of power domain not written, will be repeated", "rack")] if told else []
    )
    world.writer.errors = {}
    with capture_logs() as logs:
        assert await world.look() == ["rack"]
    assert [each["event"] for each in logs if each["log_level"] != logging.DEBUG] == (
        ["status of power domain written"] if told else []
    )


async def test_a_failure_of_a_domain_that_is_gone_is_forgotten(world):
    world.writer.errors = {"rack": ApiError(500, "InternalError", "no")}
    await world.look()
    stored = world.domains.store.pop("rack")
    await world.look()
    world.put(stored)
    with capture_logs() as logs:
        await world.look()
    assert len(logs) == 1


async def test_a_leader_that_has_been_replaced_ends(world):
    world.writer.errors = {"rack": NotLeader("not the leader")}
    with pytest.raises(NotLeader):
        await world.look()


async def test_why_an_object_cannot_be_read_is_told_once_and_again_where_it_changes(world):
    world.put(domain("bad"))
    world.domains.invalid = {"bad": "limitWatts", "new": "mode"}
    assert await world.look() == ["rack", "bad", "new"]
    _, _, body, is_status = world.writer.applied[1]
    assert (body.keys(), is_status) == ({"status"}, True)
    accepted = {each["type"]: each for each in body["status"]["conditions"]}["Accepted"]
    assert (accepted["reason"], "limitWatts" in accepted["message"]) == ("Unreadable", True)
    assert body["status"]["lastUpdated"] == rfc3339(NOW_S, "seconds")
    assert (world.controller.states["bad"].spec, world.controller.states.keys()) == (None, {"rack", "bad", "new"})
    assert await world.look() == []
    world.domains.invalid = {"bad": "parent"}
    assert await world.look() == ["bad"]
    world.domains.invalid = {"bad": "parent", "new": "mode"}
    assert await world.look() == ["new"]
    world.writer.errors = {"bad": ApiError(500, "InternalError", "no")}
    world.domains.invalid = {"bad": "reserveWatts"}
    assert (await world.look(), await world.look()) == (["bad"], ["bad"])
