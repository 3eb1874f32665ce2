"""Reports from the status of PowerEvents, as the VTN receives them.

The VEN adopts a PowerEvent that a process before it has written, with the status that the operator has written since.
"""

import time

import pytest
from aiohttp import web
from services.ven.tests.events import capacity

from joulie_core.timestamps import rfc3339
from joulie_testing.api import make_power_event


def asked(*types, **fields):
    return [{"payloadType": each, **fields} for each in types]


def put(vtn, site, start_s, end_s, *, status, descriptors):
    """Publish an event, and put the PowerEvent that the VEN has written for it."""
    event_id = vtn.put(**capacity(500, start_s, f"PT{int(end_s - start_s)}S"), reportDescriptors=descriptors)
    times = {"start": rfc3339(start_s, "seconds"), "end": rfc3339(end_s, "seconds"), "standing": False}
    made = make_power_event("openadr-before", domain="site", status=status, **times)
    made["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "joulie-ven"}
    made["metadata"]["annotations"] = {
        "joulie.io/openadr-event": event_id,
        "joulie.io/openadr-interval": "0",
        "joulie.io/openadr-payload": "IMPORT_CAPACITY_LIMIT",
        "joulie.io/openadr-seen": rfc3339(start_s, "seconds"),
    }
    site.api.put(made)
    return event_id


def ended(vtn, site, minutes, descriptors, **status):
    """An event of as many minutes, which the VTN lists no more; return its id."""
    end_s = (time.time() - 300) // 60 * 60
    start_s = end_s - 60 * len(minutes)
    made = [
        {"start": rfc3339(start_s + 60 * number, "seconds"), "quality": quality}
        | ({} if watts is None else {"drawnWatts": watts})
        for number, (watts, quality) in enumerate(minutes)
    ]
    event_id = put(
        vtn, site, start_s, end_s, status={"state": "Ended", "minutes": made, **status}, descriptors=descriptors
    )
    vtn.transpired.add(event_id)
    return event_id


async def payloads(vtn, site):
    """Wait for the report; return its payloads and units by type."""
    await site.reported(vtn)
    [report] = vtn.reports
    [resource] = report["resources"]
    [interval] = resource["intervals"]
    units = {each["payloadType"]: each["units"] for each in report["payloadDescriptors"]}
    return {each["type"]: (each["values"][0], units.get(each["type"])) for each in interval["payloads"]}


MEASURED, MODELLED, UNKNOWN = "measured", "modelled", "unknown"


async def test_what_was_drawn_is_reported_after_the_end(vtn, site):
    event_id = ended(
        vtn,
        site,
        [(300_000, MEASURED), (420_000, MEASURED)],
        asked("USAGE", "DEMAND", "BASELINE"),
        baselineWatts=600_000,
    )
    site.start()
    assert await payloads(vtn, site) == {
        "USAGE": (12.0, "KWH"),
        "DEMAND": (360.0, "KW"),
        "BASELINE": (600.0, "KW"),
        "DATA_QUALITY": ("OK", None),
    }
    [report] = vtn.reports
    assert (report["eventID"], report["clientName"]) == (event_id, "ven-1")
    assert report["resources"][0]["resourceName"] == "site"
    period = report["resources"][0]["intervals"][0]["intervalPeriod"]
    assert period["duration"] == "PT120S"


async def test_units_that_are_requested_are_used(vtn, site):
    descriptors = [*asked("DEMAND", units="W"), *asked("BASELINE", units="KWH")]
    ended(vtn, site, [(300_000, MEASURED)], descriptors, baselineWatts=600_000)
    site.start()
    found = await payloads(vtn, site)
    assert (found["DEMAND"], found["BASELINE"]) == ((300_000, "W"), (10, "KWH"))


async def test_a_minute_that_is_modelled_makes_an_estimate(vtn, site):
    ended(vtn, site, [(300_000, MEASURED), (300_000, MODELLED)], asked("USAGE"))
    site.start()
    assert (await payloads(vtn, site))["DATA_QUALITY"] == ("ESTIMATED", None)


@pytest.mark.parametrize("minutes", [[(300_000, MEASURED), (None, UNKNOWN)], [(None, UNKNOWN)]])
async def test_a_gap_is_a_gap(vtn, site, minutes):
    ended(vtn, site, minutes, asked("USAGE", "DEMAND", "BASELINE"))
    site.start()
    assert await payloads(vtn, site) == {"DATA_QUALITY": ("MISSING", None)}


async def test_what_can_be_shed_is_reported_before_the_start(vtn, site):
    start_s = time.time() // 60 * 60 + 3600
    status = {"state": "Pending", "baselineWatts": 600_000, "deliverableWatts": 450_000}
    put(
        vtn,
        site,
        start_s,
        start_s + 3600,
        status=status,
        descriptors=asked("LOAD_SHED_DELTA_AVAILABLE", "USAGE", historical=False),
    )
    site.start()
    assert await payloads(vtn, site) == {"LOAD_SHED_DELTA_AVAILABLE": (150.0, "KW")}


async def test_what_is_not_known_before_the_start_is_not_sent(vtn, site):
    start_s = time.time() // 60 * 60 + 3600
    put(
        vtn,
        site,
        start_s,
        start_s + 3600,
        status={"baselineWatts": 600_000},
        descriptors=asked("LOAD_SHED_DELTA_AVAILABLE"),
    )
    site.start()
    await site.polls("Ok", 3)
    assert vtn.reports == []


@pytest.mark.parametrize(
    "descriptors", [None, asked("USAGE", units="THERMS"), asked("READING"), asked("USAGE", historical=False)]
)
async def test_what_is_not_supported_is_not_sent(vtn, site, descriptors):
    ended(vtn, site, [(300_000, MEASURED)], descriptors)
    site.start()
    await site.polls("Ok", 3)
    assert vtn.reports == []


async def test_a_report_is_sent_once_also_after_a_restart(vtn, site):
    ended(vtn, site, [(300_000, MEASURED)], asked("USAGE"))
    site.start()
    await payloads(vtn, site)
    await site.polls("Ok", 2)
    await site.kill()
    site.start()
    await site.polls("Ok", 2)
    assert len(vtn.reports) == 1


async def test_a_report_that_is_refused_is_repeated_and_stops_nothing_else(vtn, site):
    ended(vtn, site, [(300_000, MEASURED)], asked("USAGE"))
    calls = []

    def refuse(request):
        if request.path == "/reports" and request.method == "POST" and len(calls) < 2:
            calls.append(request)
            return web.Response(status=500)
        return None

    vtn.fault = refuse
    site.start()
    await site.reported(vtn)
    await site.polls("Ok")
    assert await site.series("joulie_ven_reports_total", result="failed") == 2
    assert await site.series("joulie_ven_reports_total", result="sent") == 1
