"""Each request of a VEN to a VTN, and what its answers mean, with the answers scripted."""

import json
from email.utils import formatdate

import pytest

from joulie_ven.http import VtnAnswer
from joulie_ven.reasons import VtnError, VtnReason
from joulie_ven.vtn import MOST_ITEMS, PAGE, ReadEvents, Vtn

NOW_S = 1_800_000_000.0


class Http:
    """Answers with what a test sets, page by page; records each request."""

    def __init__(self):
        self.requests, self.answers, self.date = [], [], formatdate(NOW_S + 7, usegmt=True)

    def answer(self, *answers):
        """Set the next answers: bodies, or errors."""
        self.answers = list(answers)

    async def send(self, method, url, *, token, query, body):
        self.requests.append((method, url, token, query, body))
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, VtnError):
            raise answer
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return VtnAnswer(raw, self.date)


class Tokens:
    def __init__(self):
        self.dropped = 0

    async def get(self):
        return f"token-{self.dropped}"

    def drop(self):
        self.dropped += 1


class World:
    def __init__(self):
        self.http, self.tokens = Http(), Tokens()
        self.vtn = Vtn(self.http, self.tokens, url="https://vtn/base/", wall=lambda: NOW_S)

    @property
    def asked(self):
        """Method, URL and query of all requests."""
        return [(method, url, query) for method, url, _, query, _ in self.http.requests]


@pytest.fixture
def world():
    return World()


def event(event_id="e0", program_id="p1", **fields):
    return {"id": event_id, "programID": program_id, **fields}


def program(program_id="p1", name="dispatch"):
    return {"id": program_id, "programName": name}


def status(code, reason=VtnReason.REFUSED):
    return VtnError(reason, f"status {code}", status=code)


def window(skip=0):
    return (("skip", str(skip)), ("limit", "50"))


async def failure(work):
    with pytest.raises(VtnError) as caught:
        await work
    return caught.value.reason, caught.value.message


# --- programs ---------------------------------------------------------------------------------------------------------


async def test_programs_are_requested_for_all_and_for_the_targets(world):
    world.http.answer([program("p2", "other")], [program()])
    assert (await world.vtn.program("dispatch", ("row", "hall"))).id == "p1"
    assert world.asked == [
        ("GET", "https://vtn/base/programs", window()),
        ("GET", "https://vtn/base/programs", (("targets", "row"), ("targets", "hall"), *window())),
    ]
    assert world.http.requests[0][2:] == ("token-0", window(), None)


async def test_an_id_counts_before_a_name_and_what_cannot_be_read_is_passed_over(world):
    world.http.answer([{"id": 7}, program("dispatch", "first"), program("p1", "dispatch")])
    assert (await world.vtn.program("dispatch")).program_name == "first"


@pytest.mark.parametrize(("found", "number"), [([], 0), ([program("p1"), program("p2")], 2)], ids=["none", "two"])
async def test_a_program_that_is_not_the_only_one_of_its_name_is_not_found(world, found, number):
    world.http.answer(found)
    assert await failure(world.vtn.program("dispatch")) == (
        VtnReason.PROGRAM_NOT_FOUND,
        f"{number} programs are named dispatch, must be one",
    )
    world.http.answer([])
    _, message = await failure(world.vtn.program("x" * 500))
    assert len(message) < 120


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_events_of_the_program_that_have_not_ended_are_requested_and_each_counts_once(world):
    same = event("e1")
    world.http.answer([event("e0"), same, {"id": "e2", "programID": 7}, 7], [same, event("e3"), event("e4", "p2"), 8])
    read = await world.vtn.events("p1", ("row",))
    assert list(read.events) == ["e0", "e1", "e3"]
    assert {each.id: each.program_id for each in read.events.values()} == dict.fromkeys(read.events, "p1")
    assert list(read.unreadable) == ["e2", "#3", "#5"]
    query = (("programID", "p1"), ("active", "true"))
    assert world.asked == [
        ("GET", "https://vtn/base/events", (*query, *window())),
        ("GET", "https://vtn/base/events", (*query, ("targets", "row"), *window())),
    ]


@pytest.mark.parametrize(
    ("sizes", "skips"),
    [((PAGE, PAGE, 1), (0, 50, 100)), ((PAGE, 0), (0, 50)), ((PAGE - 1,), (0,)), ((PAGE + 1,), (0,))],
)
async def test_pages_are_read_while_they_are_full(world, sizes, skips):
    numbers = iter(range(1_000))
    world.http.answer(*([event(f"e{next(numbers)}") for _ in range(size)] for size in sizes))
    assert len((await world.vtn.events("p1")).events) == sum(sizes)
    assert [query[2:] for _, _, query in world.asked] == [window(skip) for skip in skips]


async def test_a_page_without_anything_new_is_the_last_one(world):
    page = [event(f"e{number}") for number in range(PAGE)]
    newer = [*page[1:], event("new")]
    world.http.answer(page, newer, newer, [event("never")])
    assert "never" not in (await world.vtn.events("p1")).events
    assert len(world.asked) == 3


async def test_a_list_is_bounded(world):
    assert (PAGE, MOST_ITEMS) == (50, 2_000)
    items = [event(f"e{number}") for number in range(MOST_ITEMS + 1)]
    world.http.answer(items[:-1])
    assert len((await world.vtn.events("p1")).events) == MOST_ITEMS
    world.http.answer(items)
    assert await failure(world.vtn.events("p1")) == (
        VtnReason.INVALID_ANSWER,
        "/events: more than 2000 objects, or 4194304 bytes",
    )


async def test_an_answer_that_is_no_list_is_refused(world):
    world.http.answer({"id": "e0"})
    reason, message = await failure(world.vtn.events("p1"))
    assert (reason, "list of /events" in message) == (VtnReason.INVALID_ANSWER, True)


# --- one event --------------------------------------------------------------------------------------------------------


async def test_one_event_is_requested_by_its_id(world):
    read = ReadEvents()
    world.http.answer(event("a/b c"), event("e1"))
    await world.vtn.event("a/b c", read, "p1")
    assert world.asked == [("GET", "https://vtn/base/events/a%2Fb%20c", ())]
    assert await world.vtn.event("e1", read, "p1") is True
    assert list(read.events) == ["e1"]


async def test_an_event_is_gone_only_where_the_vtn_says_so_of_its_id(world):
    world.http.answer(status(404), status(410), status(403))
    assert await world.vtn.event("e0", ReadEvents(), "p1") is False
    for code in (410, 403):
        assert (await failure(world.vtn.event("e0", ReadEvents(), "p1")))[1] == f"status {code}"


@pytest.mark.parametrize("other", [event("e1"), {"id": "e1", "programID": 7}, event("e1", "p2")], ids=str)
async def test_another_event_than_the_requested_one_says_nothing_of_it(world, other):
    read = ReadEvents()
    world.http.answer(other)
    assert await world.vtn.event("e0", read, "p1") is True
    assert (read.events, read.unreadable) == ({}, {"e0": "the VTN answers with the event e1"})


async def test_an_event_that_cannot_be_read_is_named_by_the_requested_id(world):
    read = ReadEvents()
    world.http.answer({}, {"id": "e1", "programID": 7})
    assert await world.vtn.event("e0", read, "p1") is True
    assert await world.vtn.event("e1", read, "p1") is True
    assert read.unreadable.keys() == {"e0", "e1"}
    assert "programID" in read.unreadable["e1"]


async def test_an_event_of_another_program_is_not_taken(world):
    read = ReadEvents()
    world.http.answer(event("e0", "p2"))
    assert await world.vtn.event("e0", read, "p1") is True
    assert read == ReadEvents({}, {})


# --- reports ----------------------------------------------------------------------------------------------------------


async def test_the_names_of_the_reports_of_an_event_are_requested(world):
    world.http.answer([{"reportName": "a"}, {}, {"reportName": "b"}])
    assert await world.vtn.report_names("e0", "v") == {"a", "", "b"}
    assert world.asked == [("GET", "https://vtn/base/reports", (("eventID", "e0"), ("clientName", "v"), *window()))]
    world.http.answer([{"reportName": 7}])
    reason, message = await failure(world.vtn.report_names("e0", "v"))
    assert (reason, "reportName" in message) == (VtnReason.INVALID_ANSWER, True)


async def test_a_report_is_sent_as_it_is(world):
    await world.vtn.send_report({"reportName": "a"})
    assert world.http.requests == [("POST", "https://vtn/base/reports", "token-0", (), {"reportName": "a"})]


# --- tokens and clock -------------------------------------------------------------------------------------------------


async def test_a_token_that_is_refused_is_replaced_once_and_the_request_repeated_as_it_was(world):
    world.http.answer(status(401), [])
    await world.vtn.send_report({"reportName": "a"})
    first, second = world.http.requests
    assert (first[2], second[2], world.tokens.dropped) == ("token-0", "token-1", 1)
    assert first[:2] + first[3:] == second[:2] + second[3:]
    world.http.answer(status(401), status(401), [])
    assert (await failure(world.vtn.events("p1")))[1] == "status 401"
    assert (world.tokens.dropped, len(world.http.requests)) == (3, 4)


@pytest.mark.parametrize("answers", [(status(403),), (status(401), status(500))], ids=["403", "500 after 401"])
async def test_another_refusal_is_no_reason_for_a_new_token(world, answers):
    world.http.answer(*answers)
    await failure(world.vtn.events("p1"))
    assert (world.tokens.dropped, len(world.http.requests)) == (len(answers) - 1, len(answers))


@pytest.mark.parametrize(("date", "ahead_s"), [(None, 7.0), ("yesterday", None), ("", None)])
async def test_the_clock_of_the_vtn_is_that_of_its_last_answer(world, date, ahead_s):
    assert world.vtn.ahead_s is None
    world.http.date = world.http.date if date is None else date
    await world.vtn.events("p1")
    assert world.vtn.ahead_s == ahead_s
