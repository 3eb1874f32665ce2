"""One poll of the VTN: what is written and reported by it, how it ends, and when the next one is."""

import asyncio
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from services.ven.tests.events import KW, interval
from services.ven.tests.limits import NOW_S, SETTINGS
from services.ven.tests.test_changes import own_of
from structlog.testing import capture_logs

from joulie_api.errors import KubeError
from joulie_api.failures import Failures
from joulie_core.kinds.power_event import LOWEST_PRIORITY
from joulie_ven.limits import DomainLimit, LimitKind
from joulie_ven.metrics import VenMetrics
from joulie_ven.objects import name_of
from joulie_ven.poller import Poller
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.vtn import ReadEvents
from joulie_ven.wire import VtnEvent, VtnProgram

HOUR = 3_600
PROGRAM = VtnProgram(id="p1", program_name="p")


def limit(event_id, watts=400_000, **fields):
    made = DomainLimit(event_id, 0, 0, LimitKind.CAPACITY_LIMIT, NOW_S, NOW_S + HOUR, watts, LOWEST_PRIORITY, NOW_S)
    return replace(made, **fields)


def event(event_id, kilowatts=400, *, descriptors=KW, **fields):
    spans = [interval(kilowatts, start=NOW_S, duration="PT1H")]
    body = {"id": event_id, "programID": "p1", "payloadDescriptors": descriptors, "intervals": spans}
    return VtnEvent.model_validate(body | fields)


class Vtn:
    """A VTN: `listed` are the events of its list, `others` those that it has beside them."""

    def __init__(self):
        self.ahead_s, self.error, self.hangs = None, None, False
        self.followed = PROGRAM
        self.listed, self.others, self.unreadable, self.asked = {}, {}, {}, []

    async def program(self, name, targets):
        self.asked.append(("program", name, targets))
        return self.followed

    async def events(self, program_id, targets):
        self.asked.append(("events", program_id, targets))
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return ReadEvents(dict(self.listed), dict(self.unreadable))

    async def event(self, event_id, into, program_id):
        self.asked.append(("event", event_id, program_id))
        found = self.others.get(event_id)
        if isinstance(found, str):
            into.unreadable[event_id] = found
        elif found is not None and found.program_id == program_id:
            into.events[event_id] = found
        return found is not None


class Keeper:
    """The PowerEvents, and what is written to them."""

    def __init__(self):
        self.own, self.written, self.error = [], [], None

    async def read(self):
        if self.error is not None:
            raise self.error
        return self.own

    async def write(self, changes):
        self.written.append(changes)


class Reporter:
    def __init__(self):
        self.asked = []

    async def report(self, read, own, program_id, now_s):
        self.asked.append((sorted(read.events), own, program_id, now_s))


class World:
    def __init__(self, **settings):
        self.vtn, self.keeper, self.reporter = Vtn(), Keeper(), Reporter()
        self.registry, self.now_s, self.chance = CollectorRegistry(), NOW_S, 0.5
        self.poller = Poller(
            self.vtn,
            self.keeper,
            self.reporter,
            settings=SETTINGS.model_copy(update=settings),
            metrics=VenMetrics(self.registry),
            failures=Failures(self.registry),
            wall=lambda: self.now_s,
            chance=lambda: self.chance,
        )

    def series(self, name, **labels):
        return self.registry.get_sample_value(name, labels)

    async def poll(self):
        """Poll once; return the writes, None without any."""
        self.keeper.written = []
        await self.poller.once()
        return self.keeper.written[0] if self.keeper.written else None

    @property
    def looked_up(self):
        return [each[1] for each in self.vtn.asked if each[0] == "event"]


@pytest.fixture
def world():
    return World()


def invalid_inputs(world):
    return world.series("joulie_invalid_input_total", source="vtn") or 0.0


# --- what a poll does -------------------------------------------------------------------------------------------------


async def test_the_limits_of_the_program_are_written_and_reports_are_sent(world):
    world.vtn.listed = {"e0": event("e0")}
    made = await world.poll()
    (found,) = made.create.values()
    assert (found["spec"]["limitWatts"], found["spec"]["domain"]) == (400_000, "site")
    assert (made.patch, made.delete) == ({}, {})
    assert world.vtn.asked == [("program", "p", ()), ("events", "p1", ())]
    assert world.reporter.asked == [(["e0"], [], "p1", NOW_S)]
    assert world.series("joulie_ven_events", result="used") == 1.0
    # The program is read once.
    await world.poll()
    assert world.vtn.asked[2:] == [("events", "p1", ())]


async def test_the_settings_say_what_is_requested_and_what_a_limit_is():
    world = World(
        ven_targets=("row",), site_other_watts=150_000, simple_level_2_watts=90_000, ven_name="v1", vtn_program="q"
    )
    world.vtn.listed = {
        "e0": event("e0", targets=["row"]),
        "e1": event("e1", targets=["other"]),
        "e2": event("e2", intervals=[interval(2, "SIMPLE", start=NOW_S, duration="PT1H")]),
    }
    made = await world.poll()
    assert sorted(each["spec"]["limitWatts"] for each in made.create.values()) == [90_000, 250_000]
    assert world.vtn.asked == [("program", "q", ("row",)), ("events", "p1", ("row",))]
    assert world.series("joulie_ven_events", result="ignored") == 1.0


async def test_units_of_the_program_are_those_of_its_events(world):
    world.vtn.followed = PROGRAM.model_copy(update={"payload_descriptors": event("x").payload_descriptors})
    world.vtn.listed = {"e0": event("e0", descriptors=None)}
    assert len((await world.poll()).create) == 1


async def test_an_event_that_is_refused_keeps_what_it_had_and_is_told_while_it_is(world):
    world.keeper.own = [own_of(limit("e0")), own_of(limit("e1"))]
    world.vtn.listed = {"e0": event("e0", descriptors=None)}
    world.vtn.unreadable = {"e1": "intervals: too many"}
    with capture_logs() as logs:
        made = await world.poll()
        await world.poll()
    assert (made.create, made.patch, made.delete) == ({}, {}, {})
    assert {each["openadr_event"]: each["problem"] for each in logs if "openadr_event" in each} == {
        "e0": "payloadDescriptors: no units for IMPORT_CAPACITY_LIMIT, and OpenADR has no default",
        "e1": "intervals: too many",
    }
    assert world.series("joulie_ven_events", result="refused") == 2.0
    assert invalid_inputs(world) >= 2.0
    world.vtn.listed, world.vtn.unreadable = {"e0": event("e0"), "e1": event("e1")}, {}
    with capture_logs() as logs:
        await world.poll()
        await world.poll()
    assert sorted(each["openadr_event"] for each in logs if "openadr_event" in each) == ["e0", "e1"]


# --- events that the list lacks ---------------------------------------------------------------------------------------


async def test_a_missing_event_is_deleted_where_the_vtn_has_none_of_its_id(world):
    gone, there = own_of(limit("e0")), own_of(limit("e1"))
    ended = own_of(limit("e2", start_s=NOW_S - 2 * HOUR, end_s=NOW_S, seen_s=NOW_S - 2 * HOUR))
    world.keeper.own = [there, gone, ended]
    world.vtn.others = {"e1": event("e1")}
    made = await world.poll()
    assert made.delete == {gone.name: "5"}
    assert world.vtn.asked[2:] == [("event", "e0", "p1"), ("event", "e1", "p1")]
    assert world.reporter.asked == [(["e1"], world.keeper.own, "p1", NOW_S)]


async def test_a_missing_event_that_cannot_be_read_stays_and_one_of_another_program_does_not(world):
    world.keeper.own = [own_of(limit("e0")), own_of(limit("e1"))]
    world.vtn.others = {"e0": "intervals: too many", "e1": event("e1", programID="p2")}
    made = await world.poll()
    assert made.delete == {name_of(limit("e1")): "5"}


async def test_an_event_of_the_list_is_not_looked_up(world):
    world.keeper.own = [own_of(limit("e0")), own_of(limit("e1"))]
    world.vtn.listed, world.vtn.unreadable = {"e0": event("e0")}, {"e1": "unreadable"}
    await world.poll()
    assert world.looked_up == []


async def test_many_missing_events_are_looked_up_in_turn_so_that_none_waits_for_ever(world):
    ids = [f"e{number:02}" for number in range(50)]
    world.keeper.own = [own_of(limit(each)) for each in ids]
    # The list lacks them, but the VTN has all but the last.
    world.vtn.others = {each: event(each) for each in ids[:-1]}
    deleted = [(await world.poll()).delete for _ in range(3)]
    assert deleted == [{}, {}, {name_of(limit("e49")): "5"}]
    assert world.looked_up == [*ids, *ids[:10]]
    world.vtn.asked.clear()
    await world.poll()
    assert world.looked_up == ids[10:30]


async def test_a_past_limit_keeps_the_subscribed_capacity_out_of_its_time(world):
    past = own_of(limit("e0", start_s=NOW_S - HOUR, end_s=NOW_S, seen_s=NOW_S - HOUR))
    world.keeper.own = [past]
    subscribed = interval(240, "IMPORT_CAPACITY_SUBSCRIPTION", start=NOW_S - 2 * HOUR, duration="P9999Y")
    descriptors = [{**KW[0], "payloadType": "IMPORT_CAPACITY_SUBSCRIPTION"}]
    world.vtn.listed = {"e1": event("e1", descriptors=descriptors, intervals=[subscribed])}
    (made,) = (await world.poll()).create.values()
    assert made["spec"]["start"] == "2027-01-15T08:00:00Z"


async def test_an_event_counts_from_when_it_was_first_read(world):
    earlier = limit("e0", seen_s=NOW_S - 50)
    world.keeper.own = [own_of(earlier)]
    world.vtn.listed = {"e0": event("e0")}
    made = await world.poll()
    assert (made.create, made.patch) == ({}, {})


# --- how it ends ------------------------------------------------------------------------------------------------------


async def test_a_poll_that_succeeds_waits_for_the_interval_give_or_take_a_tenth(world):
    for chance, wait_s in ((0.0, 9.0), (0.5, 10.0), (0.75, 10.5)):
        world.chance = chance
        assert await world.poller.once() == pytest.approx(wait_s)
    assert world.series("joulie_ven_polls_total", reason="Ok") == 3.0
    assert world.series("joulie_ven_last_success_timestamp_seconds") == NOW_S


async def test_a_failure_changes_nothing_is_told_once_and_waits_longer_each_time(world):
    world.vtn.error = VtnError(VtnReason.REFUSED, "status 500")
    with capture_logs() as logs:
        waits = [await world.poller.once() for _ in range(5)]
    # Half of a ceiling that doubles up to a minute, beyond the interval.
    assert waits == [15.0, 20.0, 30.0, 40.0, 40.0]
    told = [(each["event"], each["cause"], each["problem"]) for each in logs if each["log_level"] == "warning"]
    assert told == [("poll failed", "Refused", "status 500")]
    assert (world.keeper.written, world.reporter.asked) == ([], [])
    assert world.series("joulie_ven_polls_total", reason="Refused") == 5.0
    assert world.series("joulie_ven_last_success_timestamp_seconds") == 0.0
    world.vtn.error = None
    with capture_logs() as logs:
        await world.poller.once()
    assert "polls succeed again" in [each["event"] for each in logs]
    # After twice the interval without a failure the waits start over.
    world.now_s += 40.0 - 10.0 + 20.0
    world.vtn.error = VtnError(VtnReason.REFUSED, "status 500")
    assert await world.poller.once() == 15.0


async def test_a_vtn_that_requests_to_be_left_alone_is(world):
    world.vtn.error = VtnError(VtnReason.BUSY, "busy", status=429, retry_after_s=120.0)
    assert await world.poller.once() == 120.0
    assert world.series("joulie_ven_polls_total", reason="Busy") == 1.0


async def test_after_a_failure_the_program_is_looked_for_again(world):
    await world.poller.once()
    world.vtn.error = VtnError(VtnReason.REFUSED, "status 404")
    await world.poller.once()
    world.vtn.error = None
    await world.poller.once()
    assert [each[0] for each in world.vtn.asked] == ["program", "events", "events", "program", "events"]


async def test_an_api_server_that_cannot_be_read_is_named(world):
    world.keeper.error = KubeError("no answer")
    with capture_logs() as logs:
        assert await world.poller.once() == 15.0
    assert [(each["cause"], each["problem"]) for each in logs] == [("KubernetesFailed", "no answer")]
    assert world.series("joulie_ven_polls_total", reason="KubernetesFailed") == 1.0
    assert world.vtn.asked == []


async def test_a_poll_that_hangs_ends_after_twelve_deadlines_of_a_request():
    world = World(vtn_request_timeout=0.001)
    world.vtn.hangs = True
    with capture_logs() as logs:
        assert await world.poller.once() == 15.0
    told = [(each["cause"], each["problem"]) for each in logs if "cause" in each]
    assert told == [("TimedOut", "the poll took too long")]
    assert world.series("joulie_ven_polls_total", reason="TimedOut") == 1.0


async def test_a_defect_is_counted_and_the_next_poll_waits_as_after_a_failure(world):
    world.reporter.report = None
    assert await world.poller.once() == 15.0
    assert world.series("joulie_ven_polls_total", reason="InternalError") == 1.0
    assert world.series("joulie_internal_errors_total", work="poll the VTN") == 1.0


@pytest.mark.parametrize(("ahead_s", "problem"), [(5.0, None), (5.1, 5), (-5.0, None), (-75.4, -75), (None, None)])
async def test_a_clock_that_differs_by_more_than_five_seconds_is_told(world, ahead_s, problem):
    world.vtn.ahead_s = ahead_s
    with capture_logs() as logs:
        await world.poller.once()
    told = [(each["cause"], each["problem"]) for each in logs if each["event"] == "the clock of the VTN differs"]
    assert told == ([] if problem is None else [("clock", f"it is ahead by {problem} s")])
    shown = world.series("joulie_ven_vtn_clock_ahead_seconds")
    assert shown == ahead_s or (ahead_s is None and shown != shown)  # noqa: PLR0124 - NaN
    world.vtn.ahead_s = 0.0
    with capture_logs() as logs:
        await world.poller.once()
    agrees = [each["event"] for each in logs if each["event"] == "the clock of the VTN agrees"]
    assert len(agrees) == len(told)


async def test_it_polls_until_it_is_cancelled(world, monkeypatch):
    waits, third = [], asyncio.Event()

    async def once():
        return 0.001 * len(waits)

    async def sleep(seconds, sleeps=asyncio.sleep):
        waits.append(seconds)
        if len(waits) == 3:
            third.set()
        await sleeps(0)

    monkeypatch.setattr(world.poller, "once", once)
    monkeypatch.setattr("joulie_ven.poller.asyncio.sleep", sleep)
    running = asyncio.create_task(world.poller.run())
    await asyncio.wait_for(third.wait(), 30.0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert waits[:3] == [0.0, 0.001, 0.002]
