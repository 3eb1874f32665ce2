"""Which reports are sent, when, with what in them, and which are tried again."""

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from services.ven.tests.limits import LIMIT, SETTINGS
from services.ven.tests.test_objects import stored
from structlog.testing import capture_logs

from joulie_core.kinds import PowerEventStatus
from joulie_core.timestamps import rfc3339
from joulie_ven.limits import LimitKind
from joulie_ven.metrics import VenMetrics
from joulie_ven.objects import read_own
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.reports import ReportSender
from joulie_ven.times import FOREVER
from joulie_ven.vtn import ReadEvents
from joulie_ven.wire import VtnEvent

SHED, BASELINE = "LOAD_SHED_DELTA_AVAILABLE", "BASELINE"
#: In the middle of the interval of `LIMIT`, an hour before and the moments after its end.
BEFORE_S, END_S = LIMIT.start_s - 1, LIMIT.end_s


class Vtn:
    """A VTN with events by their ids, and the reports that it has."""

    def __init__(self):
        self.events, self.names, self.sent, self.asked, self.error = {}, set(), [], [], None

    async def event(self, event_id, into, program_id):
        self.asked.append(("event", event_id, program_id))
        if event_id in self.events:
            into.events[event_id] = self.events[event_id]

    async def report_names(self, event_id, client_name):
        self.asked.append(("names", event_id, client_name))
        return frozenset(self.names)

    async def send_report(self, report):
        if self.error is not None:
            raise self.error
        self.sent.append(report)
        self.names.add(report["reportName"])


class World:
    def __init__(self):
        self.vtn, self.registry, self.read = Vtn(), CollectorRegistry(), ReadEvents()
        settings = SETTINGS.model_copy(update={"power_domain": "d" * 130})
        self.sender = ReportSender(self.vtn, settings, VenMetrics(self.registry))
        self.own = []

    def put(self, limit=LIMIT, *, baseline_watts=600_000.0, deliverable_watts=450_000, notes=None):
        found = stored(limit, notes=notes)
        status = PowerEventStatus(baseline_watts=baseline_watts, deliverable_watts=deliverable_watts)
        self.own.append(read_own(replace(found, model=found.model.model_copy(update={"status": status}))))

    def ask(self, *types, event_id="e0", listed=True, **fields):
        descriptors = [{"payloadType": each, **fields} for each in types]
        event = VtnEvent.model_validate({"id": event_id, "programID": "p1", "reportDescriptors": descriptors or None})
        (self.read.events if listed else self.vtn.events)[event_id] = event

    async def report(self, now_s):
        """Send what is due; return the names of what was sent now."""
        before = len(self.vtn.sent)
        await self.sender.report(self.read, self.own, "p1", now_s)
        return [each["reportName"] for each in self.vtn.sent[before:]]

    def counted(self, result):
        return self.registry.get_sample_value("joulie_ven_reports_total", {"result": result}) or 0.0


@pytest.fixture
def world():
    return World()


async def test_a_report_has_the_figures_of_all_intervals_in_the_order_of_their_starts(world):
    later = replace(LIMIT, index=1, interval_id=4, start_s=LIMIT.end_s, end_s=LIMIT.end_s + 60)
    world.put(later, deliverable_watts=None)
    world.put()
    world.ask(SHED)
    assert await world.report(BEFORE_S) == ["joulie-e0-before"]
    assert world.vtn.sent == [
        {
            "eventID": "e0",
            "clientName": "v",
            "reportName": "joulie-e0-before",
            "payloadDescriptors": [{"objectType": "REPORT_PAYLOAD_DESCRIPTOR", "payloadType": SHED, "units": "KW"}],
            "resources": [
                {
                    "resourceName": "d" * 128,
                    "intervals": [
                        {
                            "id": 3,
                            "intervalPeriod": {"start": rfc3339(LIMIT.start_s, "seconds"), "duration": "PT3660S"},
                            "payloads": [{"type": SHED, "values": [150.0]}],
                        },
                        {
                            "id": 4,
                            "intervalPeriod": {"start": rfc3339(LIMIT.end_s, "seconds"), "duration": "PT60S"},
                            "payloads": [],
                        },
                    ],
                }
            ],
        }
    ]
    assert world.vtn.asked == [("names", "e0", "v")]
    assert (world.counted("sent"), world.counted("failed")) == (1.0, 0.0)


async def test_an_interval_without_an_end_has_no_duration(world):
    world.put(replace(LIMIT, kind=LimitKind.SIMPLE, end_s=FOREVER))
    world.ask(SHED)
    await world.report(BEFORE_S)
    (interval,) = world.vtn.sent[0]["resources"][0]["intervals"]
    assert interval["intervalPeriod"] == {"start": rfc3339(LIMIT.start_s, "seconds")}


async def test_an_interval_whose_id_is_not_known_is_left_out_and_holds_up_no_other(world):
    world.put(notes={"joulie.io/openadr-interval": "x"})
    world.put(replace(LIMIT, index=1, interval_id=4))
    world.put(replace(LIMIT, event_id="e1"))
    world.ask(SHED)
    world.ask(SHED, event_id="e1")
    assert await world.report(BEFORE_S) == ["joulie-e0-before", "joulie-e1-before"]
    assert [each["id"] for each in world.vtn.sent[0]["resources"][0]["intervals"]] == [4]


@pytest.mark.parametrize(
    ("now_s", "name"),
    [
        (LIMIT.start_s - 0.1, "before"),
        (LIMIT.start_s, None),
        (END_S + 119.9, None),
        (END_S + 120.0, "after"),
        (END_S + 3_599.9, "after"),
        (END_S + 3_600.0, None),
    ],
)
async def test_it_is_sent_before_the_first_start_or_from_two_minutes_to_an_hour_after_the_last_end(world, now_s, name):
    world.put(replace(LIMIT, end_s=END_S - 60))
    world.put(replace(LIMIT, index=1, start_s=END_S - 60))
    world.ask(SHED, BASELINE)
    assert await world.report(now_s) == ([] if name is None else [f"joulie-e0-{name}"])


async def test_each_report_has_only_what_is_of_its_time(world):
    world.put()
    world.ask(SHED, BASELINE, "READING")
    await world.report(BEFORE_S)
    await world.report(END_S + 120)
    types = [[each["payloadType"] for each in report["payloadDescriptors"]] for report in world.vtn.sent]
    assert types == [[SHED], [BASELINE]]
    (interval,) = world.vtn.sent[1]["resources"][0]["intervals"]
    assert interval["payloads"] == [{"type": BASELINE, "values": [600.0]}]


@pytest.mark.parametrize(
    ("types", "fields"), [((), {}), ((BASELINE,), {"units": "THERMS"}), ((BASELINE,), {"historical": False})], ids=str
)
async def test_what_is_not_requested_or_not_supported_is_not_looked_at_again(world, types, fields):
    world.put()
    world.ask(*types, listed=False, **fields)
    assert await world.report(END_S + 120) == []
    assert await world.report(END_S + 130) == []
    assert world.vtn.asked == [("event", "e0", "p1")]


async def test_a_forecast_is_sent_also_where_history_is_not_requested(world):
    world.put()
    world.ask(SHED, historical=False)
    assert await world.report(BEFORE_S) == ["joulie-e0-before"]


async def test_an_event_that_is_not_listed_is_read_and_one_that_is_gone_has_no_report(world):
    world.put()
    world.put(replace(LIMIT, event_id="e1"))
    world.ask(BASELINE, listed=False)
    world.ask(SHED, event_id="e2")
    assert await world.report(END_S + 120) == ["joulie-e0-after"]
    assert await world.report(END_S + 130) == []
    assert world.vtn.asked == [("event", "e0", "p1"), ("names", "e0", "v"), ("event", "e1", "p1")]
    assert world.read.events.keys() == {"e2"}, "the events of the list are as they were read"


async def test_a_report_that_the_vtn_has_is_not_sent_again(world):
    world.put()
    world.ask(SHED)
    world.vtn.names = {"joulie-e0-before"}
    assert await world.report(BEFORE_S) == []
    assert await world.report(BEFORE_S) == []
    assert world.vtn.asked == [("names", "e0", "v")]
    assert world.counted("sent") == 0.0


async def test_a_report_without_a_figure_waits_for_one(world):
    world.put(baseline_watts=None)
    world.ask(SHED)
    assert await world.report(BEFORE_S) == []
    world.own.clear()
    world.put()
    assert await world.report(BEFORE_S) == ["joulie-e0-before"]


async def test_a_subscribed_capacity_has_no_reports(world):
    world.put(replace(LIMIT, kind=LimitKind.SUBSCRIPTION))
    world.ask(SHED)
    assert await world.report(BEFORE_S) == []
    assert world.vtn.asked == []


async def test_a_failed_report_is_told_and_tried_again_and_holds_up_no_other(world):
    world.put()
    world.put(replace(LIMIT, event_id="e1"))
    world.ask(SHED)
    world.ask(event_id="e1")
    world.vtn.error = VtnError(VtnReason.REFUSED, "status 500")
    with capture_logs() as logs:
        assert await world.report(BEFORE_S) == []
    assert [(each["event"], each["cause"], each["problem"]) for each in logs] == [
        ("report not sent", "Refused", "status 500")
    ]
    assert (world.counted("failed"), world.counted("sent")) == (1.0, 0.0)
    world.vtn.error = None
    with capture_logs() as logs:
        assert await world.report(BEFORE_S) == ["joulie-e0-before"]
    assert [each["event"] for each in logs] == ["reports are sent again"]
    assert (world.counted("failed"), world.counted("sent")) == (1.0, 1.0)


async def test_what_is_remembered_of_reports_ends_with_their_events(world):
    world.put()
    world.ask(SHED)
    await world.report(BEFORE_S)
    assert world.sender._done == {"joulie-e0-before"}
    world.own.clear()
    await world.report(BEFORE_S)
    assert world.sender._done == set()
