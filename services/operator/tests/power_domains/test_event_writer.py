"""When the status of a PowerEvent is written, on which version, and what a failed write leaves for the next look."""

import asyncio
import json

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from joulie_api.apply import FencedWriter
from joulie_api.errors import NotLeader
from joulie_api.failures import Failures
from joulie_api.wire import decode_kind
from joulie_core.kinds import Condition, ConditionStatus, PowerEvent, PowerEventStatus
from joulie_core.kinds.power_event import EventMinute, EventState
from joulie_core.timestamps import rfc3339
from joulie_operator.power_domains.event_writer import HEARTBEAT_S, EventWriter, is_due
from joulie_testing.api import Delay, Respond, make_power_event

NOW_S = 1_800_000_000.0
NOW = rfc3339(NOW_S, "seconds")
#: Longer than a test lasts.
_LATE_S = 300.0
PATH = "/apis/joulie.io/v1alpha1/powerevents/"


def minute(start_s=NOW_S):
    return EventMinute(start=rfc3339(start_s, "seconds"), samples=1)


def condition(status=ConditionStatus.TRUE, reason="InForce", message="", kind="Active"):
    return Condition(type=kind, status=status, reason=reason, message=message)


def status_of(**fields):
    made = {
        "first_seen": NOW, "state": EventState.ACTIVE, "binding_event": "cut", "seconds_to_90_percent": 5.0,
        "minutes": (minute(),), "conditions": (condition(),), "last_updated": NOW, "observed_generation": 3,
    }  # fmt: skip
    return PowerEventStatus(**(made | fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"first_seen": rfc3339(NOW_S + 1)},
        {"state": EventState.SOURCE_LOST},
        {"binding_event": None},
        {"seconds_to_90_percent": None},
        {"minutes": ()},
        {"minutes": (minute(NOW_S - 60), minute())},
        {"minutes": (minute(NOW_S + 60),)},
        {"conditions": (condition(kind="Accepted"),)},
        {"conditions": (condition(ConditionStatus.UNKNOWN),)},
        {"conditions": (condition(reason="OtherEventBinds"),)},
        {"conditions": ()},
        {"observed_generation": 4},
    ],
)
def test_a_change_of_what_readers_act_on_is_written_at_once(fields):
    assert is_due(status_of(), status_of(**fields), NOW_S)
    assert is_due(status_of(**fields), status_of(), NOW_S)


@pytest.mark.parametrize(
    ("fields", "after_s", "due"),
    [
        ({}, 0.0, False),
        ({"conditions": (condition(message="401 W"),), "drawn_watts": 5.0}, HEARTBEAT_S - 1, False),
        ({}, HEARTBEAT_S, True),
        # The clock of the leader before was ahead.
        ({}, -1.0, True),
    ],
)
def test_what_moves_all_the_time_is_written_every_five_minutes(fields, after_s, due):
    assert HEARTBEAT_S == 300.0
    assert is_due(status_of(), status_of(**fields), NOW_S + after_s) is due


def test_the_status_of_an_event_that_has_ended_is_written_once():
    ended = status_of(state=EventState.ENDED)
    assert is_due(status_of(), ended, NOW_S)
    assert not is_due(ended, ended, NOW_S + 86_400)


def test_a_status_that_says_no_time_is_written():
    assert is_due(status_of(last_updated=None), status_of(), NOW_S)


class Site:
    """Events at the API server, and the writer of one leader."""

    def __init__(self, api, client):
        self.api = api
        self.leads = True
        self.is_superseded = False
        self.registry = CollectorRegistry()
        fenced = FencedWriter(client, "joulie-operator", guard=lambda: self.leads)
        self.writer = EventWriter(fenced, Failures(self.registry))

    def event(self, name):
        """Return an event as it is stored now."""
        stored = self.api.get("PowerEvent", name)
        if stored is None:
            stored = self.api.put(make_power_event(name))
        return decode_kind(PowerEvent)(json.dumps(stored).encode())

    async def publish(self, *events, status=None, after_s=0.0):
        """Return the writes for these events."""
        before = len(self.api.requests.writes())
        status = PowerEventStatus(state=EventState.ACTIVE, conditions=(condition(),)) if status is None else status
        await self.writer.publish(((each, status) for each in events), NOW_S + after_s, lambda: self.is_superseded)
        return self.api.requests.writes()[before:]


@pytest.fixture
def site(fake_api, fake_client):
    return Site(fake_api, fake_client)


async def test_a_status_is_applied_on_the_version_by_which_it_was_decided(site):
    event = site.event("cut")
    (found,) = await site.publish(event)
    assert (found.verb, found.path, found.query["fieldManager"]) == ("apply", f"{PATH}cut/status", "joulie-operator")
    body = found.json()
    assert body["metadata"] == {"name": "cut", "resourceVersion": event.metadata.resource_version}
    assert body["status"]["state"] == "Active"
    assert (body["status"]["lastUpdated"], body["status"]["observedGeneration"]) == (NOW, 1)
    assert body["status"]["conditions"] == [
        {
            "type": "Active", "status": "True", "reason": "InForce", "message": "", "lastTransitionTime": NOW,
            "observedGeneration": 1,
        }
    ]  # fmt: skip


async def test_a_condition_keeps_the_time_at_which_it_changed_last(site):
    await site.publish(site.event("cut"))
    (found,) = await site.publish(site.event("cut"), after_s=HEARTBEAT_S)
    status = found.json()["status"]
    assert status["lastUpdated"] == rfc3339(NOW_S + HEARTBEAT_S, "seconds")
    assert status["conditions"][0]["lastTransitionTime"] == NOW


async def test_nothing_is_written_over_a_version_that_was_written_before_another_one_is_seen(site):
    event = site.event("cut")
    assert len(await site.publish(event)) == 1
    changed = PowerEventStatus(state=EventState.SOURCE_LOST)
    assert await site.publish(event, status=changed, after_s=1.0) == []
    assert len(await site.publish(site.event("cut"), status=changed, after_s=1.0)) == 1
    assert await site.publish(site.event("cut"), status=changed, after_s=2.0) == []


async def test_what_was_written_is_forgotten_with_the_event(site):
    event = site.event("cut")
    await site.publish(event, site.event("other"))
    await site.publish(site.event("other"), after_s=1.0)
    assert site.writer._statuses._written_over.keys() == {"other"}


@pytest.mark.parametrize("status", [403, 409, 500])
async def test_a_write_that_fails_stops_no_other_and_is_repeated_and_told_once(site, status):
    first, second = site.event("a"), site.event("b")
    site.api.faults.add(Respond(status), path=f"{PATH}a/status", times=2)
    with capture_logs() as lines:
        assert [each.path for each in await site.publish(first, second)] == [f"{PATH}a/status", f"{PATH}b/status"]
        for _ in range(2):
            assert [each.path for each in await site.publish(first, second)] == [f"{PATH}a/status"]
        assert await site.publish(first, second) == []
    assert [(each["event"], each["event_name"]) for each in lines] == [
        ("status of power event not written, will be repeated", "a"),
        ("status of power event written", "a"),
    ]


async def test_a_failure_of_an_event_that_is_gone_is_forgotten(site):
    event = site.event("a")
    site.api.faults.add(Respond(500), path=f"{PATH}a/status", times=2)
    with capture_logs() as lines:
        await site.publish(event)
        await site.publish()
        await site.publish(event)
    assert [each["event"] for each in lines] == ["status of power event not written, will be repeated"] * 2


async def test_an_event_that_was_deleted_meanwhile_is_no_failure(site):
    event, other = site.event("a"), site.event("b")
    site.api.remove("PowerEvent", "a")
    with capture_logs() as lines:
        found = await site.publish(event, other)
    assert ([each.path for each in found], lines) == ([f"{PATH}a/status", f"{PATH}b/status"], [])


async def test_a_defect_with_one_event_is_counted_and_stops_no_other(site, monkeypatch):
    monkeypatch.setattr(
        "joulie_operator.power_domains.event_writer.is_due", lambda before, _after, _now_s: before.first_seen / 0
    )
    assert await site.publish(site.event("a"), site.event("b")) == []
    labels = {"work": "publish power event"}
    assert site.registry.get_sample_value("joulie_internal_errors_total", labels) == 2


async def test_an_operator_that_leads_no_more_writes_no_further_event(site):
    events = site.event("a"), site.event("b")
    site.leads = False
    before = len(site.api.requests.writes())
    with pytest.raises(NotLeader):
        await site.publish(*events)
    assert len(site.api.requests.writes()) == before


async def test_a_write_that_waits_for_its_answer_holds_up_no_other(site):
    events = [site.event(name) for name in "abcd"]
    site.api.faults.add(Delay(_LATE_S), path=f"{PATH}a/status", times=1)
    publishing = asyncio.create_task(site.publish(*events))
    await site.api.wait_for(lambda: all("status" in site.api.get("PowerEvent", name) for name in "bcd"))
    assert not publishing.done()
    publishing.cancel()


async def test_what_was_decided_before_limits_changed_is_left_to_the_next_decision(site):
    event = site.event("cut")
    site.is_superseded = True
    assert await site.publish(event) == []
    site.is_superseded = False
    assert len(await site.publish(event)) == 1
