import json
import re

import pytest
from structlog.testing import capture_logs

from joulie_api.errors import (
    DecodeError,
    Forbidden,
    Gone,
    IdleTimeoutError,
    ServerError,
    StreamBrokenError,
    TooManyRequests,
    TransportError,
)
from joulie_api.reflector.event import read_event, read_page
from joulie_api.reflector.machine import OVERLOAD_RESET_S, Change, Listing, Phase, ReflectorMachine, Watching


def obj(name, version, value=0, **meta):
    return {"metadata": {"name": name, "resourceVersion": str(version), **meta}, "value": value}


def page(*items, version=10, token=""):
    return json.dumps({"metadata": {"resourceVersion": str(version), "continue": token}, "items": items}).encode()


def event(kind, item):
    return json.dumps({"type": kind, "object": item}).encode()


def decode(raw):
    value = json.loads(raw)["value"]
    if value == "bad":
        raise ValueError("bad value")
    return value


@pytest.fixture
def machine():
    return ReflectorMachine(decode, name="test", chance=lambda: 0.5)


def watching(machine, *items, version=10, now=0.0):
    """Return a machine that has listed `items` and whose watch is open."""
    step = machine.on_list_page(read_page(page(*items, version=version)), now)
    machine.on_watch_open(now)
    return step


def test_it_begins_with_a_list_of_the_first_page(machine):
    assert machine.start() == Listing("")


def test_before_the_first_answer_there_is_neither_progress_nor_a_problem(machine):
    assert machine.progress_at is None
    assert machine.problem is None
    machine.check()


def test_no_object_is_visible_before_the_last_page(machine):
    step = machine.on_list_page(read_page(page(obj("a", 1), version=10, token="more")), 0.0)
    assert (step.changes, step.request) == ((), Listing("more"))
    assert machine.objects == {}
    assert not machine.synced
    step = machine.on_list_page(read_page(page(obj("b", 2), version=12)), 1.0)
    assert step.changes == (Change("a", None, 0), Change("b", None, 0))
    assert machine.synced


def test_the_watch_starts_at_the_first_pages_version(machine):
    machine.on_list_page(read_page(page(version=10, token="more")), 0.0)
    step = machine.on_list_page(read_page(page(version=12)), 0.0)
    assert step.request == Watching("10", 450)


def test_watches_last_between_5_and_10_minutes():
    for chance, timeout_s in ((0.0, 300), (0.999, 599)):
        machine = ReflectorMachine(decode, name="test", chance=lambda chance=chance: chance)
        assert machine.on_list_page(read_page(page()), 0.0).request.timeout_s == timeout_s


def test_events_change_objects_and_move_the_version(machine):
    watching(machine, obj("a", 1, 1))
    assert machine.on_event(read_event(event("ADDED", obj("b", 11, 2))), 1.0).changes == (Change("b", None, 2),)
    assert machine.progress_at == 1.0
    assert machine.on_event(read_event(event("MODIFIED", obj("a", 12, 3))), 2.0).changes == (Change("a", 1, 3),)
    assert machine.on_event(read_event(event("DELETED", obj("a", 13, 3))), 3.0).changes == (Change("a", 3, None),)
    assert machine.objects == {"b": 2}
    assert machine.versions == {"b": "11"}
    assert machine.on_end(500.0) == Watching("13", 450)
    assert (machine.counters.events, machine.progress_at) == (3, 3.0)


def test_objects_of_a_namespaced_resource_are_keyed_with_their_namespace(machine):
    watching(machine, obj("a", 1, namespace="x"), obj("a", 2, namespace="y"))
    assert set(machine.objects) == {"x/a", "y/a"}


def test_a_replayed_event_is_delivered_once(machine):
    watching(machine, obj("a", 9, 1))
    assert machine.on_event(read_event(event("ADDED", obj("a", 9, 1))), 1.0).changes == ()


def test_the_deletion_of_an_object_that_was_never_seen_changes_nothing(machine):
    watching(machine, obj("a", 9, 1))
    assert machine.on_event(read_event(event("DELETED", obj("b", 11, 1))), 1.0).changes == ()
    assert machine.versions == {"a": "9"}


def test_a_bookmark_moves_the_version_and_is_progress(machine):
    watching(machine)
    assert machine.on_event(read_event(event("BOOKMARK", {"metadata": {"resourceVersion": "40"}})), 60.0).changes == ()
    assert (machine.counters.bookmarks, machine.progress_at) == (1, 60.0)
    assert machine.on_end(61.0) == Watching("40", 450)


def test_a_relist_delivers_exactly_the_deletions_additions_and_changes_since(machine):
    watching(machine, obj("gone", 1, 1), obj("kept", 2, 2), obj("changed", 3, 3))
    assert machine.on_failure(Gone(410, "Expired", "too old"), 5.0) == Listing("")
    step = machine.on_list_page(
        read_page(page(obj("kept", 2, 99), obj("changed", 15, 4), obj("new", 16, 5), version=20)), 6.0
    )
    assert step.changes == (Change("gone", 1, None), Change("changed", 3, 4), Change("new", None, 5))
    assert machine.objects == {"kept": 2, "changed": 4, "new": 5}
    assert machine.counters.relists == 1


def test_the_store_stays_the_same_dictionary_over_a_relist(machine):
    watching(machine, obj("a", 1))
    before = machine.objects
    machine.on_failure(Gone(410, "", ""), 1.0)
    machine.on_list_page(read_page(page()), 2.0)
    assert machine.objects is before


def test_a_410_event_relists_at_once_and_a_second_in_a_row_waits(machine):
    watching(machine, obj("a", 1))
    gone = event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})
    assert machine.on_event(read_event(gone), 1.0).request == Listing("", 0.0)
    watching(machine, obj("a", 1), now=1.0)
    assert machine.on_event(read_event(gone), 1.0).request == Listing("", 0.4)
    watching(machine, obj("a", 1), now=2.0)
    machine.on_event(read_event(event("MODIFIED", obj("a", 11))), 2.0)
    assert machine.on_event(read_event(gone), 3.0).request == Listing("", 0.0)


def test_a_new_list_that_fails_is_requested_again(machine):
    watching(machine, obj("a", 1))
    machine.on_failure(Gone(410, "Expired", "too old"), 1.0)
    assert machine.on_failure(ServerError(500, "", "boom"), 2.0) == Listing("", 0.4)


def test_counters_are_totals(machine):
    watching(machine)
    assert machine.counters.reconnects == 0
    gone = Gone(410, "Expired", "too old")
    for turn in (1, 2):
        for version in (f"{turn}1", f"{turn}2"):
            machine.on_event(read_event(event("BOOKMARK", {"metadata": {"resourceVersion": version}})), turn)
        machine.on_event(read_event(event("ADDED", obj("strange", f"{turn}3", "bad"))), turn)
        machine.on_end(turn)
        machine.on_watch_open(turn)
        machine.on_failure(ServerError(500, "", "boom"), turn)
        machine.on_failure(gone, turn)
        watching(machine, now=turn)
    counters = machine.counters
    assert (counters.relists, counters.reconnects, counters.backoffs) == (2, 4, 2)
    assert (counters.events, counters.bookmarks, counters.decode_errors) == (2, 4, 2)


def test_an_expired_continue_token_starts_the_list_over(machine):
    machine.on_list_page(read_page(page(obj("a", 1), token="t")), 0.0)
    assert machine.on_failure(Gone(410, "Expired", "the token is too old"), 1.0) == Listing("")
    step = machine.on_list_page(read_page(page(obj("b", 2), version=30)), 2.0)
    assert step.changes == (Change("b", None, 0),)
    assert step.request == Watching("30", 450)


def test_a_failed_page_is_requested_again(machine):
    machine.on_list_page(read_page(page(obj("a", 1), token="t")), 0.0)
    assert machine.on_failure(ServerError(500, "", "boom"), 1.0) == Listing("t", 0.4)
    assert isinstance(machine.problem, ServerError)
    assert machine.on_list_page(read_page(page(obj("b", 2))), 2.0).changes == (
        Change("a", None, 0),
        Change("b", None, 0),
    )
    assert machine.problem is None


def test_retry_after_is_honoured_when_longer_than_the_back_off(machine):
    watching(machine)
    assert machine.on_failure(TooManyRequests(429, "", "slow down", retry_after_s=9), 0.0).delay_s == 9
    assert machine.on_failure(ServerError(503, "", "away", retry_after_s=1), 0.0).delay_s == 1
    assert machine.on_failure(ServerError(503, "", "away"), 0.0).delay_s == pytest.approx(0.8)


def test_a_missing_permission_is_the_problem_until_the_server_answers(machine):
    message = 'nodes is forbidden: User "agent" cannot watch resource "nodes" in API group "" at the cluster scope'
    watching(machine)
    machine.on_failure(Forbidden(403, "Forbidden", message), 0.0)
    assert "cannot watch resource" in str(machine.problem)
    machine.on_watch_open(1.0)
    assert machine.problem is None
    assert machine.progress_at == 0.0


def test_a_watch_that_ends_at_once_without_events_backs_off(machine):
    watching(machine, now=0.0)
    assert machine.on_end(0.5) == Watching("10", 450, 0.4)
    machine.on_watch_open(1.0)
    assert machine.on_end(2.0) == Watching("10", 450, 0.0)
    machine.on_watch_open(3.0)
    machine.on_event(read_event(event("ADDED", obj("a", 11))), 3.1)
    assert machine.on_end(3.2) == Watching("11", 450, 0.0)
    assert machine.counters.backoffs == 1


def test_the_length_of_a_watch_counts_from_its_opening(machine):
    watching(machine, now=10.0)
    assert machine.on_end(10.5) == Watching("10", 450, 0.4)


def test_silence_leads_to_a_new_list(machine):
    watching(machine)
    assert machine.on_failure(IdleTimeoutError("no data"), 70.0) == Listing("", 0.0)
    assert machine.counters.backoffs == 0
    machine.check()


def test_a_short_outage_continues_from_the_last_version_and_a_longer_one_lists_again(machine):
    watching(machine)
    assert machine.on_failure(StreamBrokenError("reset"), 100.0) == Watching("10", 450)
    assert isinstance(machine.on_failure(TransportError("refused"), 105.0), Watching)
    assert isinstance(machine.on_failure(TransportError("refused"), 110.0), Listing)
    assert isinstance(machine.on_failure(TransportError("refused"), 300.0), Listing)
    machine.check()


def test_an_outage_ends_with_an_answer(machine):
    watching(machine)
    machine.on_failure(TransportError("refused"), 100.0)
    machine.on_watch_open(105.0)
    assert isinstance(machine.on_failure(TransportError("refused"), 111.0), Watching)


def test_waits_for_overload_grow_by_themselves(machine):
    watching(machine)
    for number in range(20):
        machine.on_failure(TransportError("refused"), 10.0 * number)
    delays = [machine.on_failure(TooManyRequests(429, "", "slow down"), 200.0 + number).delay_s for number in range(8)]
    assert delays == pytest.approx([0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0])
    assert machine.on_failure(TransportError("refused"), 210.0).delay_s == 15.0
    assert machine.counters.backoffs == 29


def test_waits_for_overload_go_on_after_an_answer_and_start_anew_after_a_while(machine):
    watching(machine)
    for now in (100.0, 110.0):
        machine.on_failure(TooManyRequests(429, "", "slow down"), now)
    machine.on_watch_open(111.0)
    assert machine.on_failure(TooManyRequests(429, "", "slow down"), 112.0).delay_s == pytest.approx(1.6)
    machine.on_watch_open(114.0)
    after = 112.0 + 1.6 + OVERLOAD_RESET_S
    assert machine.on_failure(TooManyRequests(429, "", "slow down"), after).delay_s == pytest.approx(0.4)


def test_a_copy_is_current_from_the_last_page_on(machine):
    watching(machine)
    machine.on_failure(IdleTimeoutError("no data"), 70.0)
    machine.on_list_page(read_page(page(obj("x", 5), token="more")), 80.0)
    assert (machine.progress_at, machine.problem) == (0.0, None)
    machine.on_list_page(read_page(page(obj("y", 6))), 81.0)
    assert machine.progress_at == 81.0


def test_a_stream_that_worked_resumes_at_once_and_one_that_did_not_backs_off(machine):
    watching(machine, now=0.0)
    assert machine.on_failure(StreamBrokenError("reset"), 30.0).delay_s == 0
    machine.on_watch_open(30.0)
    assert machine.on_failure(StreamBrokenError("reset"), 30.1).delay_s > 0
    machine.on_watch_open(40.0)
    assert machine.on_failure(StreamBrokenError("reset"), 41.0).delay_s == 0


@pytest.mark.parametrize(
    "line",
    [
        b"Unauthorized",
        b"<html>",
        b"{}",
        b'{"kind":"Status","code":401}',
        event("ADDED", {"metadata": {"resourceVersion": "11"}}),
        event("ADDED", {"metadata": {"name": "a"}}),
        event("BOOKMARK", {"metadata": {}}),
    ],
)
def test_an_invalid_event_ends_the_stream_with_a_back_off(machine, line):
    watching(machine)
    step = machine.on_event(read_event(line), 5.0)
    assert (step.changes, step.request) == ((), Watching("10", 450, 0.4))
    assert re.match("not a watch event: .", str(machine.problem))


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"metadata":{}}', page({"metadata": {"name": "a"}})])
def test_an_invalid_list_is_requested_again(machine, raw):
    assert machine.on_list_page(read_page(raw), 0.0).request == Listing("", 0.4)
    assert not machine.synced
    assert isinstance(machine.problem, DecodeError)


def test_an_error_event_of_another_code_is_a_failure_of_that_code(machine):
    watching(machine)
    step = machine.on_event(read_event(event("ERROR", {"code": 429, "details": {"retryAfterSeconds": 5}})), 1.0)
    assert step.request == Watching("10", 450, 5)
    assert machine.on_event(read_event(event("ERROR", {})), 1.0).request.delay_s > 0
    assert isinstance(machine.problem, ServerError)
    assert machine.problem.status == 500


def test_an_unknown_event_type_is_skipped(machine):
    watching(machine)
    with capture_logs() as logs:
        step = machine.on_event(read_event(event("TELEPORTED", obj("a", 11))), 1.0)
    assert (step.changes, step.request) == ((), None)
    assert (logs[0]["type"], logs[0]["reflector"]) == ("TELEPORTED", "test")


def test_an_object_that_cannot_be_decoded_keeps_its_last_good_value_and_is_logged_once(machine):
    watching(machine, obj("a", 1, 1))
    with capture_logs() as logs:
        for _ in range(3):
            assert machine.on_event(read_event(event("MODIFIED", obj("a", 11, "bad"))), 1.0).changes == ()
        machine.on_failure(Gone(410, "", ""), 2.0)
        machine.on_list_page(read_page(page(obj("a", 11, "bad"))), 3.0)
    assert machine.objects == {"a": 1}
    assert machine.counters.decode_errors == 1
    assert [(log["key"], log["resource_version"]) for log in logs] == [("a", "11")]
    machine.on_watch_open(4.0)
    assert machine.on_event(read_event(event("MODIFIED", obj("a", 12, 2))), 5.0).changes == (Change("a", 1, 2),)


def test_an_invalid_object_of_a_list_that_was_not_completed_is_forgotten_where_the_next_list_has_none(machine):
    machine.on_list_page(read_page(page(obj("a", 1, "bad"), token="next")), 0.0)
    machine.on_failure(Gone(410, "Expired", "too old"), 0.0)
    machine.check()
    assert machine.invalid.keys() == {"a"}
    watching(machine, obj("b", 2))
    machine.check()
    assert machine.invalid == {}


def test_the_deletion_of_an_object_that_was_never_decoded_is_not_delivered(machine):
    with capture_logs() as logs:
        watching(machine, obj("a", 1, "bad"))
    assert [(log["key"], log["resource_version"]) for log in logs] == [("a", "1")]
    assert machine.objects == {}
    assert machine.on_event(read_event(event("DELETED", obj("a", 11))), 1.0).changes == ()
    machine.check()
    assert machine.phase is Phase.WATCHING
