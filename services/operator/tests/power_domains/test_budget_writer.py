"""What each answer of the API server to the write of a NodePowerBudget means, with the answers scripted."""

import json
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from joulie_api.errors import AlreadyExists, ApiError, Conflict, NotFound, NotLeader, TransportError
from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_api.wire import decode_kind
from joulie_core.kinds import NodePowerBudget
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_operator.power_domains.budget_changes import BudgetChange
from joulie_operator.power_domains.budget_writer import LOWER_S, RAISE_S, BudgetWriter
from joulie_operator.power_domains.sent import SentLimits
from joulie_testing.api import make_node_power_budget

NODES = {name: Node(NodeName(name), uid=f"uid-{name}") for name in ("n1", "n2", "n3")}
DECIDED_S = 100.0


def stored(name="n1", version="1", **spec):
    made = make_node_power_budget(name, **spec)
    made["metadata"] |= {"resourceVersion": version, "uid": "u"}
    return decode_kind(NodePowerBudget)(json.dumps(made).encode())


def change(name="n1", version="1", *, raises=False, **spec):
    asked = stored(name, **({"sequence": 2, "limit_watts": None} | spec)).model.spec
    return BudgetChange(NodeName(name), version, asked, raises=raises, lowers=not raises)


class Scripted:
    """Takes the place of FencedWriter: raises the answers by node, and remembers the requests.

    As of that, a deletion of what is gone is no error.
    """

    def __init__(self):
        self.requests = []
        self.answers = {}

    async def create(self, resource, name, body):
        self._answer("create", resource, name, body)

    async def patch(self, resource, name, body):
        self._answer("patch", resource, name, body)

    async def delete(self, resource, name, *, version):
        with suppress(NotFound):
            self._answer("delete", resource, name, version)

    def _answer(self, verb, resource, name, body):
        assert resource is NODE_POWER_BUDGETS
        self.requests.append((verb, name, body))
        if name in self.answers:
            raise self.answers[name]


class Writing:
    def __init__(self, concurrency=2):
        self.api = Scripted()
        self.sent = SentLimits()
        self.now_s = DECIDED_S
        #: For how long at most, and the nodes that were written meanwhile.
        self.others_waited = []
        self.writer = BudgetWriter(
            self.api, self.sent, clock=lambda: self.now_s, concurrency=concurrency, ahead=self.ahead
        )

    @contextmanager
    def ahead(self, most_s):
        before = len(self.api.requests)
        yield
        self.others_waited.append((most_s, [name for _, name, _ in self.api.requests[before:]]))

    async def write(self, *changes):
        await self.writer.write(changes, NODES, DECIDED_S, lambda: False)


@pytest.fixture
def writing():
    return Writing()


async def test_a_patch_removes_the_limits_that_the_spec_is_without(writing):
    await writing.write(change())
    ((verb, name, body),) = writing.api.requests
    assert (verb, name) == ("patch", "n1")
    assert body["metadata"]["resourceVersion"] == "1"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-n1"
    assert body["spec"] | {"limitWatts": None, "ceilingWatts": None} == body["spec"]


async def test_a_patch_states_the_limits_of_the_spec(writing):
    await writing.write(change(limit_watts=300, ceilingWatts=400))
    ((_, _, body),) = writing.api.requests
    assert (body["spec"]["limitWatts"], body["spec"]["ceilingWatts"]) == (300, 400)


async def test_an_object_that_was_not_there_is_created_without_a_version(writing):
    await writing.write(change(version=None))
    ((verb, name, body),) = writing.api.requests
    assert (verb, name) == ("create", "n1")
    assert "resourceVersion" not in body["metadata"]
    assert "limitWatts" not in body["spec"]


@pytest.mark.parametrize(
    ("answer", "may_be_stored"),
    [
        (None, True),
        (Conflict(409, "Conflict", "changed"), False),
        (AlreadyExists(409, "AlreadyExists", "there"), False),
        (NotFound(404, "NotFound", "gone"), False),
        (NotLeader("not sent"), False),
        (ApiError(422, "Invalid", "refused"), False),
        (ApiError(499, "", "refused"), False),
        (ApiError(500, "InternalError", "broken"), True),
        (TransportError("cut"), True),
    ],
    ids=lambda value: type(value).__name__ + str(getattr(value, "status", "")) if value is not True else "",
)
async def test_what_may_be_stored_after_an_answer_counts(writing, answer, may_be_stored):
    if answer is not None:
        writing.api.answers["n1"] = answer
    lost = pytest.raises(NotLeader) if isinstance(answer, NotLeader) else nullcontext()
    with lost:
        await writing.write(change(limit_watts=300))
    seen = writing.sent.seen("n1", stored(sequence=1), DECIDED_S)
    assert seen.ask.sequence == (2 if may_be_stored else 1)
    assert seen.in_flight is (answer is None)
    assert seen.unanswered is (may_be_stored and answer is not None)
    assert writing.sent.last_s("n1") == (DECIDED_S if may_be_stored else None)


OVERSUBSCRIBED = {"fallbackWatts": 200, "sampleSeconds": 4, "holdSeconds": 8}


@pytest.mark.parametrize(
    ("spec", "patched"),
    [
        ({}, None),
        # A sample that is not named any more must not stay: the agent would hold the limit by it.
        ({"oversubscription": OVERSUBSCRIBED}, {**OVERSUBSCRIBED, "sample": None}),
        ({"oversubscription": {**OVERSUBSCRIBED, "sample": 7}}, {**OVERSUBSCRIBED, "sample": 7}),
    ],
    ids=["none", "no sample", "a sample"],
)
async def test_a_patch_withdraws_the_sample_that_the_spec_does_not_name(writing, spec, patched):
    await writing.write(change(**spec))
    ((_, _, body),) = writing.api.requests
    assert "oversubscription" in body["spec"]
    assert body["spec"]["oversubscription"] == patched


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"raises": True}, 0),
        ({"renews": True}, 0),
        ({"renews": True, "lowers": True}, 1),
        ({"raises": True, "lowers": True}, 1),
        ({"lowers": True}, 1),
        ({}, 1),
    ],
    ids=str,
)
async def test_a_decision_that_is_superseded_raises_and_renews_nothing_and_lowers_all_the_same(writing, fields, count):
    await writing.writer.write([replace(change(), **{"lowers": False} | fields)], NODES, DECIDED_S, lambda: True)
    assert len(writing.api.requests) == count
    assert (writing.sent.last_s("n1") is not None) is bool(count)


async def test_a_renewal_counts_from_before_its_request_where_it_is_stored(writing):
    await writing.write(change(renewal=7))
    answered = stored(version="2", sequence=2, renewal=7, status={"renewal": 7})
    assert writing.sent.seen("n1", answered, DECIDED_S + 50).renewed_s == DECIDED_S


def test_raises_are_sent_for_as_long_as_the_documents_say():
    assert RAISE_S == 5.0


@pytest.mark.parametrize(("late_s", "count"), [(0.0, 1), (RAISE_S, 1), (RAISE_S + 0.001, 0)])
async def test_a_raise_is_sent_for_five_seconds(writing, late_s, count):
    writing.now_s += late_s
    await writing.write(change(raises=True))
    assert len(writing.api.requests) == count
    assert (writing.sent.last_s("n1") is not None) is bool(count)


async def test_a_lowering_is_sent_however_late(writing):
    writing.now_s += 1_000.0
    await writing.write(change())
    assert len(writing.api.requests) == 1


async def test_limits_are_lowered_first_and_other_writes_wait_for_no_more_than_that(writing):
    await writing.write(change("n1", raises=True), change("n2"), change("n3"))
    assert [name for _, name, _ in writing.api.requests] == ["n2", "n3", "n1"]
    assert writing.others_waited == [(LOWER_S, ["n2", "n3"])]


async def test_no_other_write_waits_where_no_limit_is_lowered(writing):
    await writing.write(change(raises=True))
    assert writing.others_waited == []


async def test_a_node_that_is_gone_is_not_written(writing):
    await writing.write(change("gone"))
    assert writing.api.requests == []
    assert writing.sent.last_s("gone") is None


async def test_after_the_loss_of_the_lease_nothing_is_sent():
    writing = Writing(concurrency=1)
    lost = writing.api.answers["n1"] = NotLeader("lost")
    with pytest.raises(NotLeader) as raised:
        await writing.write(change("n1"), change("n2"), change("n3"))
    assert raised.value is lost
    assert [name for _, name, _ in writing.api.requests] == ["n1"]
    assert writing.sent.last_s("n2") is None


async def test_one_failure_holds_up_no_other(writing):
    writing.api.answers["n1"] = TransportError("cut")
    with capture_logs() as logs:
        await writing.write(change("n1"), change("n2"))
        del writing.api.answers["n1"]
        await writing.write(change("n1"))
    assert [name for _, name, _ in writing.api.requests] == ["n1", "n2", "n1"]
    assert [(each["event"], each["node"], each.get("problem")) for each in logs] == [
        ("power budget not written, will be decided again", "n1", "cut"),
        ("power budget written", "n1", None),
    ]


async def test_a_deletion_names_the_version_that_was_seen(writing):
    await writing.writer.delete([stored("n1", "7"), stored("n2", "8")])
    assert writing.api.requests == [("delete", "n1", "7"), ("delete", "n2", "8")]


@pytest.mark.parametrize(
    ("answer", "events"),
    [
        (Conflict(409, "Conflict", "changed"), []),
        (ApiError(500, "InternalError", "broken"), ["power budget not written, will be decided again"]),
        (TransportError("cut"), ["power budget not written, will be decided again"]),
    ],
    ids=["changed", "broken", "cut"],
)
async def test_a_deletion_that_fails_is_reported_unless_the_object_has_changed(writing, answer, events):
    writing.api.answers["n1"] = answer
    with capture_logs() as logs:
        await writing.writer.delete([stored("n1"), stored("n2")])
        assert [(each["event"], each["node"], each["problem"]) for each in logs] == [
            (event, "n1", str(answer)) for event in events
        ]
        del writing.api.answers["n1"]
        await writing.writer.delete([stored("n1")])
    assert [each["event"] for each in logs[len(events) :]] == ["power budget written"] * len(events)


async def test_an_object_that_is_gone_after_a_failed_deletion_is_deleted(writing):
    writing.api.answers["n1"] = TransportError("cut")
    await writing.writer.delete([stored("n1")])
    writing.api.answers["n1"] = NotFound(404, "NotFound", "gone")
    with capture_logs() as logs:
        await writing.writer.delete([stored("n1")])
    assert [each["event"] for each in logs] == ["power budget written"]


async def test_a_deletion_without_the_lease_is_an_error(writing):
    writing.api.answers["n1"] = NotLeader("lost")
    with pytest.raises(NotLeader):
        await writing.writer.delete([stored("n1")])
