"""Copies that are made of another copy: what their readers see, and when they are told."""

import asyncio
import contextlib

import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.reflector import MappedCopy, Reflector, driver
from joulie_api.resources import NODES
from joulie_api.wire import decode_node
from joulie_testing.api import make_node


def in_pool_a(node):
    return node if node.labels.get("pool") == "a" else None


class Followed:
    """A watch of Nodes, and the copy with those of pool a."""

    def __init__(self, api, client):
        self.api = api
        self.registry = CollectorRegistry()
        self.source = Reflector(client, NODES, decode_node)
        self.source.report_to(Failures(self.registry))
        self.copy = MappedCopy(self.source, in_pool_a)

    def put(self, name, pool):
        self.api.put(make_node(name, labels={"pool": pool}))

    def move(self, name, pool):
        self.api.patch("Node", name, {"metadata": {"labels": {"pool": pool}}})

    async def seen(self):
        """Wait until everything that happened until now has arrived."""
        arrived = asyncio.Event()
        self.source.subscribe(lambda key, old, new: arrived.set() if key == "last" and old and not new else None)
        self.api.put(make_node("last"))
        self.api.remove("Node", "last")
        async with asyncio.timeout(10):
            await arrived.wait()


@pytest.fixture
async def followed(fake_api, fake_client):
    found = Followed(fake_api, fake_client)
    task = asyncio.create_task(found.source.run())
    await found.source.wait_synced()
    await fake_api.wait_for(lambda: fake_api.watches("Node"))
    yield found
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def listener(copy):
    heard = []
    copy.subscribe(lambda key, old, new: heard.append((key, old is not None, new is not None)))
    return heard


async def test_an_object_that_begins_or_ceases_to_be_of_the_copy_is_added_or_deleted(followed):
    heard = listener(followed.copy)
    followed.put("n1", "a")
    followed.put("n2", "b")
    await followed.seen()
    followed.move("n2", "a")
    followed.move("n1", "b")
    await followed.seen()
    followed.move("n2", "a")
    followed.api.patch("Node", "n1", {"spec": {"unschedulable": True}})
    followed.api.patch("Node", "n2", {"spec": {"unschedulable": True}})
    await followed.seen()
    followed.api.remove("Node", "n1")
    followed.api.remove("Node", "n2")
    await followed.seen()
    added, changed, deleted = (False, True), (True, True), (True, False)
    assert heard == [(name, *change) for name, change in [("n1", added), ("n2", added), ("n1", deleted)]] + [
        ("n2", *changed),
        ("n2", *deleted),
    ]


async def test_objects_that_are_there_are_told_of_at_once_and_only_those_of_the_copy(followed):
    followed.put("n1", "a")
    followed.put("n2", "b")
    await followed.seen()
    assert listener(followed.copy) == [("n1", False, True)]


async def test_the_store_has_the_objects_of_the_copy_at_every_moment(followed):
    store = followed.copy.store
    followed.put("n1", "a")
    followed.put("n2", "b")
    await followed.seen()
    assert (dict(store), len(store)) == ({"n1": followed.source.store["n1"]}, 1)
    assert "n2" not in store
    assert store.get("n2") is None
    with pytest.raises(KeyError, match="n2"):
        store["n2"]
    followed.move("n2", "a")
    await followed.seen()
    assert sorted(store) == ["n1", "n2"]


async def test_name_age_and_what_cannot_be_decoded_are_those_of_the_source(followed, fake_client):
    assert (followed.copy.name, followed.copy.is_stale(), followed.copy.stale_reason()) == ("nodes", False, None)
    followed.put("n1", "a")
    followed.api.patch("Node", "n1", {"spec": {"unschedulable": "perhaps"}})
    await followed.seen()
    assert list(followed.copy.invalid) == ["n1"]
    idle = MappedCopy(Reflector(fake_client, NODES, decode_node, name="idle"), in_pool_a)
    assert (idle.name, idle.is_stale(), idle.stale_reason()) == ("idle", True, "first list not complete")
    assert (followed.copy.is_stale(-200.0), followed.copy.stale_reason(-200.0) is None) == (True, False)


async def test_an_object_whose_latest_version_cannot_be_decoded_stays_as_it_was(followed):
    followed.put("n1", "a")
    await followed.seen()
    heard, before = listener(followed.copy), followed.copy.store["n1"]
    followed.api.patch("Node", "n1", {"spec": {"unschedulable": "perhaps"}, "metadata": {"labels": {"pool": "b"}}})
    await followed.seen()
    assert followed.copy.store["n1"] is before
    assert heard == [("n1", False, True)]


async def test_a_handler_that_fails_stops_no_other_and_gets_the_object_again(followed, monkeypatch):
    monkeypatch.setattr(driver, "HANDLER_RETRY_S", 0.0)
    heard, broken = [], {"n1"}

    def handler(key, old, new):
        if key in broken:
            raise ZeroDivisionError("a defect")
        heard.append((key, old is not None, new is not None))

    followed.copy.subscribe(handler)
    other = listener(followed.copy)
    followed.put("n1", "a")
    followed.put("n2", "a")
    await followed.seen()
    assert (heard, other) == ([("n2", False, True)], [("n1", False, True), ("n2", False, True)])
    broken.clear()
    await followed.seen()
    assert heard == [("n2", False, True), ("n1", False, True)]
    assert len(other) == 2
    assert followed.registry.get_sample_value("joulie_internal_errors_total", {"work": "take nodes"}) > 0


async def test_what_a_handler_took_in_part_is_deleted_where_it_ceases_to_be_of_the_copy(followed):
    taken, broken = {}, {"n1"}

    def handler(key, old, new):
        if new is None:
            assert old is not None
            taken.pop(key)
            return
        taken[key] = new
        if key in broken:
            raise ZeroDivisionError("a defect")

    followed.copy.subscribe(handler)
    followed.put("n1", "a")
    await followed.seen()
    assert list(taken) == ["n1"]
    followed.move("n1", "b")
    await followed.seen()
    assert taken == {}
    followed.move("n1", "c")
    followed.api.remove("Node", "n1")
    await followed.seen()
    assert taken == {}


async def test_a_change_that_leaves_the_object_of_the_copy_the_same_is_not_told_of(followed):
    kept = {"a": object(), "b": object()}
    heard = listener(MappedCopy(followed.source, lambda node: kept.get(node.labels.get("pool"))))
    followed.put("n1", "a")
    followed.api.patch("Node", "n1", {"spec": {"unschedulable": True}})
    await followed.seen()
    followed.move("n1", "b")
    await followed.seen()
    assert heard == [("n1", False, True), ("n1", True, True)]
