"""What was written and is not seen yet, what counts as this leader's own, and which renewals count."""

import json

import pytest

from joulie_api.wire import decode_kind
from joulie_core.budget import LimitReport
from joulie_core.budget.objects import stored_ask
from joulie_core.budget.samples import ReportedSample
from joulie_core.kinds import NodePowerBudget
from joulie_operator.power_domains.sent import SeenBudget, SentLimits
from joulie_testing.api import make_node_power_budget

#: Below all terms of leaders.
NO_TERM = -1
#: Time after which a write that no watch shows is sent again.
UNSEEN_S = 30.0
_DECODE = decode_kind(NodePowerBudget)


def stored(version="1", *, status=None, **spec):
    made = make_node_power_budget("n1", status=status, **spec)
    made["metadata"] |= {"resourceVersion": version, "uid": "u"}

    return _DECODE(json.dumps(made).encode())


def spec_of(**spec):
    return stored(**spec).model.spec


@pytest.fixture
def sent():
    return SentLimits()


def test_what_was_stored_counts_until_it_is_seen_and_nothing_is_written_meanwhile(sent):
    seen = stored(sequence=1)
    sent.stored("n1", sent.sending("n1", "1", spec_of(sequence=2, limit_watts=300), 10.0))
    found = sent.seen("n1", seen, 11.0)
    assert (found.version, found.ask.sequence, found.in_flight, found.unanswered) == ("1", 2, True, False)
    found = sent.seen("n1", stored("2", sequence=2, limit_watts=300), 11.0)
    assert (found.version, found.ask.sequence, found.in_flight) == ("2", 2, False)
    # Where the watch never shows it, it is sent again.
    sent.stored("n1", sent.sending("n1", "2", spec_of(sequence=3), 20.0))
    assert sent.seen("n1", stored("2", sequence=2), 19.9 + UNSEEN_S).in_flight
    assert sent.seen("n1", stored("2", sequence=2), 20.0 + UNSEEN_S).unanswered


@pytest.mark.parametrize(("before", "term"), [(None, NO_TERM), (3, 3), (4, 4)])
def test_a_limit_without_an_answer_bears_the_term_of_what_is_stored(sent, before, term):
    seen = None if before is None else stored(term=before)
    version = None if before is None else "1"
    sent.sending("n1", version, spec_of(term=4, sequence=2), 10.0)
    found = sent.seen("n1", seen, 11.0)
    assert (found.ask.term, found.ask.sequence, found.unanswered, found.in_flight) == (term, 2, True, False)


def test_a_refusal_leaves_what_was_sent_before_it_over_the_same_version(sent):
    seen = stored(sequence=1)
    sent.sending("n1", "1", spec_of(sequence=2, limit_watts=500), 10.0)
    sent.refused("n1", sent.sending("n1", "1", spec_of(sequence=3, limit_watts=300), 11.0))
    assert sent.seen("n1", seen, 12.0).ask.sequence == 2
    assert sent.last_s("n1") is None
    sent.refused("n1", sent.sending("n1", "2", spec_of(sequence=4), 12.0))
    assert sent.seen("n1", stored("2", sequence=1), 12.0).ask.sequence == 1


def test_a_change_that_is_seen_first_is_not_undone_by_the_answer(sent):
    sending = sent.sending("n1", "1", spec_of(sequence=2, renewal=2), 10.0)
    sent.on_change("n1", stored("2", sequence=2, renewal=2))
    sent.stored("n1", sending)
    found = sent.seen("n1", stored("3", sequence=2, renewal=2, status={"renewal": 2}), 11.0)
    assert (found.in_flight, found.renewed_s) == (False, 10.0)


def test_a_renewal_counts_from_its_request_where_it_is_stored_and_repeated(sent):
    for renewal, at_s, keep in ((2, 10.0, True), (3, 20.0, False), (3, 30.0, True), (4, 40.0, True)):
        sending = sent.sending("n1", str(renewal - 1), spec_of(renewal=renewal), at_s)
        (sent.stored if keep else sent.refused)("n1", sending)
    for repeated, renewed_s in ((None, None), (1, None), (2, 10.0), (3, 30.0), (4, 40.0)):
        status = None if repeated is None else {"renewal": repeated}
        assert sent.seen("n1", stored("9", renewal=4, status=status), 50.0).renewed_s == renewed_s
    # No agent has seen what was never written.
    assert sent.seen("n1", stored("9", renewal=4, status={"renewal": 5}), 50.0).renewed_s is None


def test_a_renewal_without_an_answer_counts_once_it_is_seen_as_it_was_sent(sent):
    sent.sending("n1", "1", spec_of(renewal=2), 10.0)
    assert sent.seen("n1", stored("1", renewal=1, status={"renewal": 1}), 11.0).renewed_s is None
    sent.on_change("n1", stored("2", renewal=2))
    assert sent.seen("n1", stored("3", renewal=2, status={"renewal": 2}), 11.0).renewed_s == 10.0
    sent.sending("n1", "3", spec_of(renewal=3), 20.0)
    # Another leader has written meanwhile.
    sent.on_change("n1", stored("4", renewal=3, term=7))
    assert sent.seen("n1", stored("5", renewal=3, term=7, status={"renewal": 3}), 21.0).renewed_s == 10.0


def test_a_long_silence_forgets_no_renewal_that_was_repeated(sent):
    for renewal in range(2, 80):
        sent.stored("n1", sent.sending("n1", str(renewal), spec_of(renewal=renewal), float(renewal)))
    assert sent.seen("n1", stored("99", renewal=79, status={"renewal": 2}), 100.0).renewed_s == 2.0


@pytest.mark.parametrize(
    ("term", "sequence", "foreign"), [(1, 9, None), (2, 5, None), (2, 4, None), (2, 6, 2), (3, 1, 3)]
)
def test_a_limit_is_own_where_this_leader_has_sent_it_in_its_term(sent, term, sequence, foreign):
    sent.sending("n1", "1", spec_of(term=2, sequence=5), 10.0)
    assert sent.foreign_term("n1", spec_of(term=term, sequence=sequence), 2) == foreign
    # In a new process nothing is.
    assert SentLimits().foreign_term("n1", spec_of(term=2, sequence=5), 2) == 2


def test_what_is_known_of_removed_nodes_is_forgotten(sent):
    sent.stored("n1", sent.sending("n1", None, spec_of(renewal=1), 10.0))
    sent.retain(set())
    assert sent.last_s("n1") is None
    assert sent.seen("n1", None, 11.0).ask is None
    sent.stored("n1", sent.sending("n1", None, spec_of(renewal=1), 12.0))
    sent.on_change("n1", None)
    assert sent.seen("n1", stored("5", renewal=9, status={"renewal": 3}), 13.0).renewed_s is None


STATUS = {
    "nodeUID": "u", "bootID": "b", "sequence": 1, "renewal": 2, "inForceWatts": 390, "refused": True,
    "oversubscription": {"sample": 7, "drawnWatts": 123.456},
}  # fmt: skip
REPORT = LimitReport("u/b", 1, 390_000, refused=True)


def test_an_object_counts_with_all_that_its_agent_reports(sent):
    sent.stored("n1", sent.sending("n1", "1", spec_of(renewal=2), 10.0))
    found = stored("2", renewal=2, status=STATUS)
    expected = SeenBudget(
        "2", found.model.spec, stored_ask(found.model.spec), REPORT, 10.0, 2, ReportedSample(7, 123_456, 10.0)
    )
    assert sent.seen("n1", found, 11.0) == expected
    assert (expected.in_flight, expected.unanswered) == (False, False)


@pytest.mark.parametrize("is_stored", [True, False])
def test_an_object_over_which_a_write_was_sent_counts_with_it_and_with_what_its_agent_reports(sent, is_stored):
    sent.stored("n1", sent.sending("n1", "1", spec_of(renewal=2), 10.0))
    found, newer = stored("2", renewal=2, status=STATUS), spec_of(renewal=3, sequence=2, limit_watts=300)
    sent.seen("n1", found, 11.0)
    sending = sent.sending("n1", "2", newer, 12.0)
    if is_stored:
        sent.stored("n1", sending)
    assert sent.seen("n1", found, 13.0) == SeenBudget(
        "2", newer, stored_ask(newer), REPORT, 10.0, 2, ReportedSample(7, 123_456, 10.0),
        in_flight=is_stored, unanswered=not is_stored,
    )  # fmt: skip


def test_of_a_node_without_an_object_nothing_is_known(sent):
    assert sent.seen("n1", None, 10.0) == SeenBudget(
        None, None, None, None, None, None, None, in_flight=False, unanswered=False
    )
    assert (SeenBudget().spec, SeenBudget().renewed_s) == (None, None)
    found = sent.seen("n1", stored("1", status={"renewal": 1}), 10.0)
    assert (found.report, found.renewed_s, found.repeated, found.sample) == (None, None, 1, None)


def test_a_change_of_a_node_that_nothing_was_sent_to_is_taken(sent):
    sent.on_change("n1", stored("2"))
    sent.on_change("n1", None)
    assert sent.seen("n1", stored("3"), 10.0).version == "3"


def test_the_last_write_is_that_which_was_sent_and_not_refused(sent):
    sending = sent.sending("n1", "1", spec_of(), 10.0)
    assert (sent.last_s("n1"), sent.last_s("n2")) == (10.0, None)
    newer = sent.sending("n1", "1", spec_of(), 20.0)
    assert sent.last_s("n1") == 20.0
    # The answers to both come late, in any order.
    sent.refused("n1", newer)
    sent.refused("n1", sending)
    assert (sent.last_s("n1"), sent.seen("n1", stored(), 21.0).unanswered) == (None, False)


def test_of_all_that_was_sent_over_one_version_the_last_two_are_kept(sent):
    for at_s in (1.0, 2.0, 3.0):
        found = sent.sending("n1", "1", spec_of(), at_s)
    assert (found.before.at_s, found.before.before) == (2.0, None)
    assert sent.sending("n2", "1", spec_of(), 4.0).before is None


def test_a_newer_limit_of_a_lower_number_does_not_make_an_own_one_foreign(sent):
    for sequence in (5, 4):
        sent.sending("n1", "1", spec_of(term=2, sequence=sequence), 10.0)
    assert sent.foreign_term("n1", spec_of(term=2, sequence=5), 2) is None


def test_a_version_that_is_seen_first_by_its_object_ends_what_was_sent_over_the_one_before(sent):
    sent.sending("n1", "1", spec_of(sequence=2, renewal=2), 10.0)
    seen = stored("2", sequence=2, renewal=2, status={"renewal": 2})
    for _ in range(2):
        found = sent.seen("n1", seen, 11.0)
        assert (found.renewed_s, found.unanswered, found.ask.sequence) == (10.0, False, 2)
    assert not sent.seen("n1", stored("1"), 12.0).unanswered


def test_a_renewal_that_is_sent_twice_counts_from_its_first_request(sent):
    for version, at_s in (("1", 10.0), ("2", 20.0)):
        sent.stored("n1", sent.sending("n1", version, spec_of(renewal=2), at_s))
    assert sent.seen("n1", stored("3", renewal=2, status={"renewal": 2}), 21.0).renewed_s == 10.0


def test_the_renewals_that_are_remembered_are_bounded(sent):
    for renewal in range(1, 130):
        sent.stored("n1", sent.sending("n1", str(renewal), spec_of(renewal=renewal), float(renewal)))
    seen = {each: stored("200", renewal=129, status={"renewal": each}) for each in (1, 2)}
    assert [sent.seen("n1", seen[each], 200.0).renewed_s for each in (1, 2)] == [None, 2.0]
