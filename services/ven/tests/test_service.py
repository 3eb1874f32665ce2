"""The whole VEN between a VTN and the API server: what it writes, and when. `site` and `vtn` are in conftest."""

import asyncio
import time

from aiohttp import web
from services.ven.tests.events import HOUR, KW, capacity, interval, simple, subscription

from joulie_core.timestamps import rfc3339
from joulie_testing.api import Respond, make_power_event


def soon():
    """A full second in an hour."""
    return float(int(time.time()) + HOUR)


async def test_a_limit_of_the_site_becomes_a_power_event(vtn, site):
    start_s = soon()
    event_id = vtn.put(**capacity(800, start_s, priority=3))
    site.start(SITE_OTHER_WATTS="150000", MAY_AFFECT="standard", BASELINE="LastHour")
    await site.until(lambda: site.events)
    [found] = site.events
    assert found["spec"].pop("sourceRenewed")
    assert found["spec"] == {
        "domain": "site",
        "limitWatts": 650_000,
        "baseline": "LastHour",
        "start": rfc3339(start_s, "seconds"),
        "end": rfc3339(start_s + HOUR, "seconds"),
        "standing": False,
        "rampDownSeconds": 0,
        "rampUpSeconds": 0,
        "priority": 3,
        "mayAffect": ["standard"],
        "ifSourceLost": "KeepUntilEnd",
        "sourceTimeoutSeconds": 300,
        "sourceRef": f"{event_id}/0",
    }
    assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "joulie-ven"}


async def test_every_interval_is_a_power_event_of_its_own(vtn, site):
    start_s = soon()
    values = [interval(value, number=number) for number, value in enumerate((900, 700, 500))]
    period = {"start": rfc3339(start_s, "seconds"), "duration": "PT30M"}
    vtn.put(payloadDescriptors=KW, intervalPeriod=period, intervals=values)
    site.start()
    await site.until(lambda: len(site.events) == 3)
    ends = [rfc3339(start_s + number * HOUR / 2, "seconds") for number in (1, 2, 3)]
    assert site.specs() == list(zip((900_000, 700_000, 500_000), ends, strict=True))


async def test_a_change_while_it_is_active_changes_the_same_power_event(vtn, site):
    event_id = vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: site.events)
    [before] = site.events
    vtn.change(event_id, **capacity(300, time.time() - 60))
    await site.until(lambda: site.specs()[0][0] == 300_000)
    assert [each["metadata"]["name"] for each in site.events] == [before["metadata"]["name"]]


async def test_an_event_that_is_deleted_while_it_is_active_ends(vtn, site):
    event_id = vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: site.events)
    del vtn.events[event_id]
    await site.until(lambda: not site.events)


async def test_an_event_that_is_missing_from_the_list_and_not_deleted_stays(vtn, site):
    event_id = vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: site.events)
    vtn.transpired.add(event_id)
    await site.polls("Ok", 3)
    assert len(site.events) == 1
    assert vtn.asked(f"/events/{event_id}")


async def test_an_event_that_is_missing_and_refused_to_this_ven_stays_and_stops_no_other(vtn, site):
    event_id = vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: site.events)
    vtn.transpired.add(event_id)
    vtn.fault = lambda request: (
        web.json_response({"status": 403}, status=403) if request.path == f"/events/{event_id}" else None
    )
    vtn.put(**capacity(400, time.time() - 60))
    await site.until(lambda: len(site.events) == 2)
    await site.polls("Ok", 2)
    assert sorted(each["spec"]["limitWatts"] for each in site.events) == [400_000, 800_000]


async def test_missing_events_are_looked_up_in_turn(vtn, site, monkeypatch):
    monkeypatch.setattr("joulie_ven.poller._MOST_LOOKUPS", 1)
    made = [vtn.put(**capacity(800, time.time() - 60)) for _ in range(3)]
    site.start()
    await site.until(lambda: len(site.events) == 3)
    vtn.transpired.update(made)
    await site.polls("Ok", 6)
    assert all(vtn.asked(f"/events/{each}") for each in made)


async def test_overlapping_events_are_all_written(vtn, site):
    start_s = time.time() - 60
    vtn.put(**capacity(800, start_s, priority=0))
    vtn.put(**capacity(500, start_s, priority=1))
    site.start()
    await site.until(lambda: len(site.events) == 2)
    assert sorted(each["spec"]["limitWatts"] for each in site.events) == [500_000, 800_000]


async def test_an_event_that_cannot_be_understood_stops_no_other_and_keeps_what_it_had(vtn, site):
    event_id = vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: site.events)
    vtn.change(event_id, payloadDescriptors=[])
    vtn.put(**capacity(400, time.time() - 60))
    await site.until(lambda: len(site.events) == 2)
    await site.polls("Ok", 2)
    assert sorted(each["spec"]["limitWatts"] for each in site.events) == [400_000, 800_000]
    assert await site.series("joulie_ven_events", result="refused") == 1


async def test_power_events_of_others_are_never_touched(vtn, site):
    others = make_power_event("mine", domain="site")
    site.api.put(others)
    event_id = vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: len(site.events) == 2)
    before = site.api.get("PowerEvent", "mine")
    del vtn.events[event_id]
    await site.until(lambda: len(site.events) == 1)
    assert site.api.get("PowerEvent", "mine") == before


async def test_a_power_event_of_somebody_else_with_the_name_of_ours_is_left_alone(vtn, site):
    vtn.put(**capacity(800, time.time() - 60))
    site.start()
    await site.until(lambda: site.events)
    await site.stop()
    [taken] = site.events
    site.api.remove("PowerEvent", taken["metadata"]["name"])
    site.api.put(make_power_event(taken["metadata"]["name"], domain="other"))
    site.start()
    await site.polls("Ok", 3)
    assert [each["spec"]["domain"] for each in site.events] == ["other"]
    assert await site.series("joulie_invalid_input_total", source="powerevents.joulie.io") >= 1


async def test_after_a_restart_its_own_are_adopted_and_not_written_again(vtn, site):
    vtn.put(**capacity(800, "0001-01-01T00:00:00Z"))
    site.start()
    await site.until(lambda: site.events)
    await site.kill()
    before = site.events
    site.start()
    await site.polls("Ok", 3)
    assert site.events == before


async def test_a_renewal_is_written_three_times_in_the_timeout(vtn, site):
    vtn.put(**subscription(500))
    site.start()
    await site.until(lambda: site.events)
    await site.polls("Ok", 3)
    [renewed] = site.events
    old = rfc3339(time.time() - 101, "seconds")
    site.api.patch("PowerEvent", renewed["metadata"]["name"], {"spec": {"sourceRenewed": old}})
    before = len([each for each in site.api.requests if each.verb == "patch"])
    await site.until(lambda: site.events[0]["spec"]["sourceRenewed"] > old)
    await site.polls("Ok", 3)
    assert len([each for each in site.api.requests if each.verb == "patch"]) == before + 1


async def test_while_the_vtn_cannot_be_read_nothing_is_renewed_or_deleted(vtn, site):
    vtn.put(**subscription(500))
    site.start()
    await site.until(lambda: site.events)
    before = site.events
    vtn.events.clear()
    vtn.fault = lambda _: web.Response(status=500)
    await site.polls("Refused", 2)
    assert site.events == before


async def test_the_subscribed_capacity_is_in_force_outside_of_the_schedule_without_the_vtn(vtn, site):
    start_s = soon()
    vtn.put(**subscription(240))
    vtn.put(**capacity(900, start_s))
    site.start(IF_SOURCE_LOST="Release")
    await site.until(lambda: len(site.events) == 3)
    start, end = rfc3339(start_s, "seconds"), rfc3339(start_s + HOUR, "seconds")
    found = [(each["spec"]["start"], *pair) for each, pair in zip(site.events, site.specs(), strict=True)]
    assert found == [("2023-02-10T00:00:00Z", 240_000, start), (start, 900_000, end), (end, 240_000, None)]
    lost = [each["spec"]["ifSourceLost"] for each in site.events]
    assert lost == ["KeepUntilEnd", "Release", "KeepUntilEnd"]


async def test_a_level_is_a_limit_by_the_settings_and_level_0_is_none(vtn, site):
    vtn.put(**simple(2, soon()))
    vtn.put(**simple(0, soon()))
    site.start(SIMPLE_LEVEL_2_WATTS="420000")
    await site.until(lambda: site.events)
    await site.polls("Ok")
    assert [each["spec"]["limitWatts"] for each in site.events] == [420_000]


async def test_an_event_for_other_targets_is_ignored(vtn, site):
    vtn.granted = ["row-1", "row-2"]
    vtn.put(**capacity(800, soon(), targets=["row-1"]))
    vtn.put(**capacity(700, soon(), targets=["row-2"]))
    vtn.put(**capacity(600, soon()))
    site.start(VEN_TARGETS="row-1")
    await site.until(lambda: len(site.events) == 2)
    await site.polls("Ok")
    assert sorted(each["spec"]["limitWatts"] for each in site.events) == [600_000, 800_000]
    assert await site.series("joulie_ven_events", result="ignored") == 1


async def test_a_failed_write_stops_no_other_and_is_repeated(vtn, site):
    vtn.put(**capacity(800, soon()))
    vtn.put(**capacity(700, soon()))
    site.api.faults.add(Respond(500), verb="create", path="/powerevents")
    site.start()
    await site.until(lambda: len(site.events) == 2)


async def test_a_defect_ends_a_poll_and_not_the_process(vtn, site, monkeypatch):
    monkeypatch.setattr("joulie_ven.poller.plan", lambda *_args, **_named: 1 / 0)
    site.start()
    await site.polls("InternalError", 2)
    assert await site.series("joulie_internal_errors_total", work="poll the VTN") >= 2


async def test_a_poll_waits_for_the_next_one(vtn, site):
    vtn.put(**capacity(800, soon()))
    site.start(VTN_POLL_INTERVAL="60s")
    await site.until(lambda: site.events)
    before = len(vtn.requests)
    await asyncio.sleep(0.3)
    assert len(vtn.requests) == before
