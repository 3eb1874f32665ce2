import asyncio

import hypothesis.strategies as st
import pytest
from hypothesis import given

from joulie_api.apply import Applier, FencedWriter, WriteResult, covers, same
from joulie_api.errors import AlreadyExists, Conflict, NotFound, NotLeader, ServerError, TransportError
from joulie_api.resources import NODE_POWER_PROFILES
from joulie_testing.api import Disconnect, Respond, make_node


def body(watts=72):
    return {"spec": {"nodeName": "n1", "profile": "eco", "cpu": {"packagePowerCapWatts": watts}}}


class Results(list):
    def __call__(self, kind, result):
        self.append((kind, result.value))


@pytest.fixture
def results():
    return Results()


@pytest.fixture
def writer(fake_client, results):
    return FencedWriter(fake_client, "joulie-operator", on_write=results)


@pytest.fixture
def applier(fake_client):
    return Applier(fake_client, "joulie-operator")


async def test_the_same_body_is_written_once_and_numbers_compare_by_value(fake_api, applier):
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body(72))
    assert not await applier.apply(NODE_POWER_PROFILES, "n1", body(72.0))
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body(73))
    assert len(fake_api.requests.writes()) == 2


async def test_a_writer_without_memory_sends_the_same_body_again(fake_api, writer, results):
    for _ in range(2):
        await writer.apply(NODE_POWER_PROFILES, "n1", body())
    assert len(fake_api.requests.writes()) == 2
    assert results == [("NodePowerProfile", "applied")] * 2


async def test_names_and_owners_are_filled_in(fake_api, applier):
    await applier.apply(NODE_POWER_PROFILES, "n1", {"metadata": {"labels": {"a": "b"}}, **body()})
    stored = fake_api.get("NodePowerProfile", "n1")
    assert (stored["apiVersion"], stored["metadata"]["labels"]) == ("joulie.io/v1alpha1", {"a": "b"})
    assert list(fake_api.owners("NodePowerProfile", "n1")) == ["joulie-operator"]


async def test_a_field_left_out_of_the_next_body_is_removed(fake_api, applier):
    await applier.apply(NODE_POWER_PROFILES, "n1", body())
    await applier.apply(NODE_POWER_PROFILES, "n1", {"spec": {"nodeName": "n1", "profile": "eco"}})
    assert "cpu" not in fake_api.get("NodePowerProfile", "n1")["spec"]


async def test_fields_of_another_manager_are_taken_over(fake_api, fake_client, applier):
    await Applier(fake_client, "kubectl").apply(NODE_POWER_PROFILES, "n1", body(10))
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body(72))
    assert fake_api.get("NodePowerProfile", "n1")["spec"]["cpu"]["packagePowerCapWatts"] == 72


async def test_status_is_written_through_its_subresource_and_compared_by_itself(fake_api, applier):
    status = {"status": {"conditions": []}}
    with pytest.raises(NotFound):
        await applier.apply(NODE_POWER_PROFILES, "n1", status, status=True)
    await applier.apply(NODE_POWER_PROFILES, "n1", body())
    assert await applier.apply(NODE_POWER_PROFILES, "n1", status, status=True)
    assert not await applier.apply(NODE_POWER_PROFILES, "n1", status, status=True)
    assert fake_api.requests[-1].subresource == "status"


async def test_an_object_that_drifted_is_written_again_and_one_that_did_not_is_not(fake_api, applier):
    await applier.apply(NODE_POWER_PROFILES, "n1", body())
    live = fake_api.get("NodePowerProfile", "n1")
    assert not await applier.apply(NODE_POWER_PROFILES, "n1", body(), live=live)
    live["spec"]["profile"] = "performance"
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body(), live=live)


async def test_the_first_write_of_a_process_is_made_even_if_the_object_is_as_desired(fake_api, applier):
    # A former process may have owned fields that this one no longer sets; only an apply takes them away.
    fake_api.put({"kind": "NodePowerProfile", "metadata": {"name": "n1"}, **body()})
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body(), live=fake_api.get("NodePowerProfile", "n1"))


async def test_an_object_is_created_where_there_is_none(fake_api, writer, results):
    await writer.create(NODE_POWER_PROFILES, "n1", {"metadata": {"labels": {"a": "b"}}, **body()})
    stored = fake_api.get("NodePowerProfile", "n1")
    assert (stored["apiVersion"], stored["metadata"]["labels"]) == ("joulie.io/v1alpha1", {"a": "b"})
    with pytest.raises(AlreadyExists):
        await writer.create(NODE_POWER_PROFILES, "n1", body())
    assert results == [("NodePowerProfile", "applied"), ("NodePowerProfile", "failed")]


async def test_a_deletion_of_one_version_leaves_any_other(fake_api, writer):
    version = fake_api.put({"kind": "NodePowerProfile", "metadata": {"name": "n1"}, **body()})["metadata"]
    fake_api.patch("NodePowerProfile", "n1", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        await writer.delete(NODE_POWER_PROFILES, "n1", version=version["resourceVersion"])
    current = fake_api.get("NodePowerProfile", "n1")["metadata"]["resourceVersion"]
    assert await writer.delete(NODE_POWER_PROFILES, "n1", version=current)
    assert fake_api.count("NodePowerProfile") == 0


async def test_a_forgotten_object_is_written_again(applier):
    await applier.apply(NODE_POWER_PROFILES, "n1", body())
    applier.forget(NODE_POWER_PROFILES, "n1")
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body())


@pytest.mark.parametrize("fault", [Respond(500), Disconnect(after_effect=True)], ids=str)
async def test_after_a_failure_the_same_body_is_written_again(fake_api, applier, fault):
    await applier.apply(NODE_POWER_PROFILES, "n1", body(1))
    fake_api.faults.add(fault, verb="apply")
    with pytest.raises((ServerError, TransportError)):
        await applier.apply(NODE_POWER_PROFILES, "n1", body(2))
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body(2))


async def test_a_failed_write_is_counted(fake_api, writer, results):
    fake_api.faults.add(Respond(500), verb="apply")
    with pytest.raises(ServerError):
        await writer.apply(NODE_POWER_PROFILES, "n1", body())
    assert results == [("NodePowerProfile", "failed")]


async def test_a_process_without_the_lease_writes_nothing(fake_api, fake_client, results):
    leading = True
    writer = FencedWriter(fake_client, "op", guard=lambda: leading, on_write=results)
    await writer.apply(NODE_POWER_PROFILES, "n1", body(1))
    leading = False
    before = len(fake_api.requests)
    with pytest.raises(NotLeader):
        await writer.apply(NODE_POWER_PROFILES, "n1", body(2))
    with pytest.raises(NotLeader):
        await writer.patch_node_labels("n1", {"a": "b"})
    with pytest.raises(NotLeader):
        await writer.delete(NODE_POWER_PROFILES, "n1")
    assert len(fake_api.requests) == before
    assert {result for _, result in results[1:]} == {WriteResult.REFUSED}


class SlowWriter:
    """Counts concurrent writes; a write ends when the test permits it."""

    def __init__(self):
        self.under_way = 0
        self.most = 0
        self.full = asyncio.Event()
        self.go = asyncio.Event()

    async def apply(self, *_args, **_kwargs):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == 3:
            self.full.set()
        await self.go.wait()
        self.under_way -= 1
        return b"{}"


async def test_writes_are_limited_and_the_fence_is_checked_after_the_wait():
    slow, leading = SlowWriter(), True
    writer = FencedWriter(slow, "op", guard=lambda: leading, max_in_flight=3)
    tasks = [asyncio.create_task(writer.apply(NODE_POWER_PROFILES, f"n{i}", body())) for i in range(10)]
    await slow.full.wait()
    leading = False  # lost while seven wait for their turn
    slow.go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert slow.most == 3
    assert results[:3] == [None] * 3
    assert all(isinstance(result, NotLeader) for result in results[3:])


async def test_deleting_what_is_absent_succeeds(fake_api, applier, writer, results):
    await applier.apply(NODE_POWER_PROFILES, "n1", body())
    assert await writer.delete(NODE_POWER_PROFILES, "n1")
    assert not await writer.delete(NODE_POWER_PROFILES, "n1")
    assert [result for _, result in results] == ["deleted", "absent"]


async def test_a_deleted_object_is_written_anew(fake_api, applier):
    await applier.apply(NODE_POWER_PROFILES, "n1", body())
    await applier.apply(NODE_POWER_PROFILES, "n1", {"status": {"conditions": []}}, status=True)
    assert await applier.delete(NODE_POWER_PROFILES, "n1")
    assert await applier.apply(NODE_POWER_PROFILES, "n1", body())
    assert await applier.apply(NODE_POWER_PROFILES, "n1", {"status": {"conditions": []}}, status=True)


async def test_node_labels_are_set_and_removed_and_others_stay(fake_api, writer, results):
    fake_api.put(make_node("n1", labels={"mine": "old", "drop": "x", "other": "y"}))
    await writer.patch_node_labels("n1", {"mine": "new", "drop": None})
    labels = fake_api.get("Node", "n1")["metadata"]["labels"]
    assert (labels["mine"], labels["other"], "drop" in labels) == ("new", "y", False)
    assert results == [("Node", "applied")]


async def test_labels_of_a_node_that_does_not_exist_raise_not_found(writer):
    with pytest.raises(NotFound):
        await writer.patch_node_labels("gone", {"a": "1"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_value_is_the_same_as_itself_and_covered_by_itself(value):
    assert same(value, value)
    assert covers(value, value)


@given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("xyz"), JSON))
def test_foreign_fields_do_not_matter_to_covering(ours, theirs):
    assert covers({**ours, **theirs}, ours)
    assert covers(ours, {**ours, **theirs}) == (not theirs)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (72, 72.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        ([1, 2.0], (1.0, 2), True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ("1", 1, False),
        (None, 0, False),
    ],
)
def test_equality_is_that_of_json(left, right, equal):
    assert same(left, right) is equal
    assert same(right, left) is equal
