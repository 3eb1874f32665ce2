"""The reflector against a real HTTP server with faults."""

import asyncio
import contextlib
import json
import math
import threading

import pytest
from structlog.testing import capture_logs

from joulie_api.client import KubeClient
from joulie_api.errors import IdleTimeoutError, NotLeader
from joulie_api.reflector import Reflector, driver
from joulie_api.resources import NODES, PODS
from joulie_api.wire import decode_node, decode_pod
from joulie_testing.api import (
    CutMidLine,
    Disconnect,
    EndStream,
    FakeApiServer,
    HalfOpen,
    Inject,
    Respond,
    expired_event,
    make_node,
    make_pod,
)


@contextlib.asynccontextmanager
async def running(reflector):
    task = asyncio.create_task(reflector.run())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def reflector(fake_client):
    return Reflector(fake_client, NODES, decode_node, chance=lambda: 0.01)


async def agree(fake_api, reflector):
    """Wait until the store equals the server's objects."""

    def same():
        server = {node["metadata"]["name"]: node["metadata"]["resourceVersion"] for node in fake_api.objects("Node")}
        return {name: node.resource_version for name, node in reflector.store.items()} == server

    changed = asyncio.Event()
    reflector.subscribe(lambda *_: changed.set())
    async with asyncio.timeout(20):
        while not same():
            await changed.wait()
            changed.clear()


async def test_it_lists_in_pages_and_then_follows(fake_api, reflector):
    fake_api.put_all(make_node(f"n{i}") for i in range(1200))
    assert reflector.age_s() == math.inf
    async with running(reflector):
        await reflector.wait_synced()
        assert len(reflector.store) == 1200
        assert len([request for request in fake_api.requests if request.verb == "list"]) == 3
        fake_api.put(make_node("late"))
        fake_api.remove("Node", "n7")
        await agree(fake_api, reflector)
    assert reflector.age_s() < 20
    assert reflector.problem is None


async def test_subscribers_receive_existing_objects_and_changes(fake_api, reflector):
    fake_api.put(make_node("a"))
    heard = []
    async with running(reflector):
        await reflector.wait_synced()
        reflector.subscribe(lambda key, old, new: heard.append((key, old is not None, new is not None)))
        await fake_api.wait_for(lambda: fake_api.watches("Node"))
        fake_api.patch("Node", "a", {"spec": {"unschedulable": True}})
        fake_api.remove("Node", "a")
        await agree(fake_api, reflector)
    assert heard == [("a", False, True), ("a", True, True), ("a", True, False)]


async def test_selectors_and_namespace_limit_what_is_followed(fake_api, fake_client):
    fake_api.put_all([make_pod("a", "x", labels={"k": "1"}), make_pod("b", "x"), make_pod("c", "y", labels={"k": "1"})])
    reflector = Reflector(fake_client, PODS, decode_pod, namespace="x", label_selector="k=1")
    async with running(reflector):
        await reflector.wait_synced()
        assert list(reflector.store) == ["x/a"]
        await fake_api.wait_for(lambda: fake_api.watches("Pod"))
        gone = asyncio.Event()
        reflector.subscribe(lambda _key, _old, new: new or gone.set())
        fake_api.patch("Pod", "a", {"metadata": {"labels": {"k": None}}}, "x")
        async with asyncio.timeout(10):
            await gone.wait()
    assert dict(reflector.store) == {}


@pytest.mark.parametrize(
    "fault",
    [
        expired_event(),
        expired_event(500),
        EndStream(),
        CutMidLine(),
        Inject((b"Too Many Requests",)),
        Inject((b'{"type":"NOVEL","object":{}}',)),
        Inject((b'{"type":"ADDED","object":{"metadata":{"name":"broken","resourceVersion":"1"},"spec":7}}',)),
    ],
    ids=lambda fault: type(fault).__name__,
)
async def test_it_catches_up_after_a_watch_went_wrong(fake_api, reflector, fault):
    fake_api.put_all([make_node("a"), make_node("b")])
    async with running(reflector):
        await reflector.wait_synced()
        await fake_api.wait_for(lambda: fake_api.watches("Node"))
        fake_api.disturb_watches(fault)
        fake_api.put(make_node("c"))
        fake_api.remove("Node", "a")
        await agree(fake_api, reflector)


@pytest.mark.parametrize(
    "fault",
    [Respond(401, body=b"Unauthorized"), Respond(403), Respond(410), Respond(429), Respond(503), Disconnect()],
    ids=str,
)
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_it_catches_up_after_refusals(fake_api, reflector, fault, verb):
    fake_api.put(make_node("a"))
    fake_api.faults.add(fault, verb=verb, times=3)
    async with running(reflector):
        await reflector.wait_synced()
        fake_api.put(make_node("b"))
        await agree(fake_api, reflector)
    assert reflector.problem is None


async def test_deletions_during_an_interruption_are_delivered_after_the_history_is_gone(fake_api, reflector):
    fake_api.put_all([make_node("a"), make_node("b")])
    async with running(reflector):
        await reflector.wait_synced()
        await fake_api.wait_for(lambda: fake_api.watches("Node"))
        await fake_api.stop()
        fake_api.remove("Node", "a")
        fake_api.compact()
        await fake_api.start()
        await agree(fake_api, reflector)
    assert set(reflector.store) == {"b"}
    assert reflector.counters.relists == 1


async def test_a_server_that_disconnects_at_once_is_not_overloaded(fake_api, fake_client):
    fake_api.faults.add(EndStream(), verb="watch", times=None)
    reflector = Reflector(fake_client, NODES, decode_node, chance=lambda: 0.5)
    async with running(reflector):
        await reflector.wait_synced()
        # The fourth comes after back-offs of 0.4, 0.8 and 1.6 s; without them there would be hundreds by then.
        await fake_api.wait_for(lambda: sum(request.verb == "watch" for request in fake_api.requests) >= 4)
    assert reflector.counters.backoffs in {3, 4}


async def test_silence_is_noticed_and_the_watch_resumed(fake_api, fake_client):
    lines = []
    fake_api.put(make_node("a"))
    version = str(fake_api.resource_version)
    fake_api.faults.add(HalfOpen(), verb="watch")
    fake_api.put(make_node("b"))
    with pytest.raises(IdleTimeoutError):
        async with fake_client.watch(NODES, resource_version=version, timeout_s=300, idle_timeout_s=0.2) as stream:
            lines.extend([line async for line in stream])
    assert lines == []
    async with fake_client.watch(NODES, resource_version=version, timeout_s=300, idle_timeout_s=5) as stream:
        assert json.loads(await anext(stream))["object"]["metadata"]["name"] == "b"


async def test_a_missing_permission_is_named_and_logged_once(fake_api, fake_client):
    message = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    fake_api.faults.add(Respond(403, reason="Forbidden", message=message), verb="list", times=5)
    reflector = Reflector(fake_client, NODES, decode_node, chance=lambda: 0.001)
    with capture_logs() as logs:
        async with running(reflector):
            await fake_api.wait_for(lambda: reflector.problem is not None)
            assert "cannot list resource" in reflector.problem
            assert not reflector.synced.is_set()
            await reflector.wait_synced()
    assert [log["event"] for log in logs] == ["watch failed", "synced", "watch recovered"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), NotLeader("a refused write")])
async def test_an_exception_of_a_handler_ends_the_reflector(fake_api, reflector, error):
    def fail(*_):
        raise error

    reflector.subscribe(fail)
    task = asyncio.create_task(reflector.run())
    fake_api.put(make_node("a"))
    with pytest.raises(type(error), match=str(error)):
        await task


async def test_an_object_that_cannot_be_decoded_does_not_stop_the_others(fake_api, reflector):
    fake_api.put_all([make_node("a"), make_node("b")])
    async with running(reflector):
        await reflector.wait_synced()
        await fake_api.wait_for(lambda: fake_api.watches("Node"))
        before = reflector.store["a"]
        fake_api.patch("Node", "a", {"spec": {"unschedulable": "perhaps"}})
        seen = asyncio.Event()
        reflector.subscribe(lambda key, _old, _new: key == "c" and seen.set())
        fake_api.put(make_node("c"))
        async with asyncio.timeout(10):
            await seen.wait()
    assert reflector.store["a"] is before
    assert reflector.counters.decode_errors == 1


async def test_bookmarks_are_progress(tmp_path):
    async with FakeApiServer(bookmark_interval_s=0.05) as server:
        kubeconfig = str(server.kubeconfig(tmp_path))
        async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client:
            reflector = Reflector(client, NODES, decode_node)
            async with running(reflector), asyncio.timeout(10):
                while reflector.counters.bookmarks < 2:  # noqa: ASYNC110 - bookmarks reach no subscriber
                    await asyncio.sleep(0.01)
                assert reflector.age_s() < 5
    assert reflector.counters.events == 0


def held_until_the_loop_runs(monkeypatch, name, holding):
    """Replace a reader by one that waits, with input that `holding` is true of, until the event loop has run."""
    read, ran = getattr(driver, name), threading.Event()

    def reader(raw):
        if holding(raw):
            loop.call_soon_threadsafe(ran.set)
            assert ran.wait(10), "the event loop waits for the reader"
        return read(raw)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(driver, name, reader)


@pytest.mark.parametrize("name", ["read_page", "read_event"])
async def test_large_input_is_read_beside_the_event_loop(fake_api, reflector, monkeypatch, name):
    """What no decoder takes as a whole is cut in Python, which takes seconds."""
    held_until_the_loop_runs(monkeypatch, name, lambda raw: b"large" in raw)
    if name == "read_page":
        fake_api.put(make_node("large", annotations={"padding": "x" * 100_000}))
    async with asyncio.timeout(20), running(reflector):
        await reflector.wait_synced()
        if name == "read_event":
            fake_api.put(make_node("large", annotations={"padding": "x" * 100_000}))
        await agree(fake_api, reflector)
    assert "large" in reflector.store
