import asyncio
import gc
import socket
import time

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from joulie_api.app import App, BackgroundTaskError, freeze_heap, settle_heap
from joulie_api.client import KubeClient
from joulie_api.reflector import Reflector
from joulie_api.resources import NODES
from joulie_api.settings import ServiceSettings
from joulie_api.wire import decode_node
from joulie_testing.api import make_node

SETTINGS = ServiceSettings(metrics_addr="127.0.0.1:0")


@pytest.fixture
def app():
    return App(SETTINGS, service="joulie-test", version="1")


async def serve_until_stopped(app, name, work, *, stop=False):
    async with app:
        app.spawn(name, work)
        if stop:
            await asyncio.sleep(0)
            app.stop()
        await app.wait()


async def fetch(port, path):
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.text(), response.headers["Content-Type"]


async def test_metrics_and_health_are_served_on_the_bound_port(app):
    with capture_logs() as logs:
        async with app:
            status, text, content_type = await fetch(app.metrics_port, "/metrics")
            assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
            assert 'joulie_build_info{service="joulie-test",version="1"} 1.0' in text
            assert (await fetch(app.metrics_port, "/healthz"))[0] == 200
            assert (await fetch(app.metrics_port, "/readyz"))[0] == 200
    listening = [log for log in logs if log["event"] == "listening"]
    assert [(log["name"], log["port"]) for log in listening] == [("metrics", app.metrics_port)]


async def test_a_work_port_is_served_beside(app):
    async def hello(_request):
        return web.Response(text="hello")

    work = web.Application()
    work.router.add_get("/hello", hello)
    async with app:
        port = await app.serve("work", work, "127.0.0.1:0")
        assert (await fetch(port, "/hello"))[1] == "hello"
    with pytest.raises(aiohttp.ClientConnectionError):
        await fetch(port, "/hello")


async def test_a_stopping_process_is_not_ready(app):
    async with app:
        app.stop()
        status, text, _ = await fetch(app.metrics_port, "/readyz")
    assert (status, text) == (503, "[-]running failed: shutting down\nreadyz check failed\n")


async def test_wait_returns_when_every_task_has_ended_the_last_started_first(app):
    ended = []

    async def work(name):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async with app:
        for name in ("watch", "reconcile"):
            app.spawn(name, work(name))
        await asyncio.sleep(0)
        app.stop()
        await app.wait()
        assert ended == ["reconcile", "watch"]


async def test_a_task_that_fails_ends_the_process_and_is_named(app):
    async def die():
        raise RuntimeError("no more")

    with capture_logs() as logs, pytest.raises(BaseExceptionGroup) as caught:
        await serve_until_stopped(app, "watch nodes", die())
    assert caught.group_contains(BackgroundTaskError, match="watch nodes")
    died = [log for log in logs if log["event"] == "background task failed"]
    assert [(log["task"], log["error"]) for log in died] == [("watch nodes", "RuntimeError: no more")]


async def test_a_task_that_returns_ends_the_process(app):
    async def quit_early():
        return

    with pytest.raises(BaseExceptionGroup) as caught:
        await serve_until_stopped(app, "watch nodes", quit_early())
    assert caught.group_contains(BackgroundTaskError)


async def test_a_task_that_may_end_does_not_end_the_process(app):
    async def once():
        return

    async with app:
        await app.spawn("first list", once(), may_end=True)
        app.stop()
        await app.wait()


async def test_a_task_that_fails_while_it_is_being_ended_is_not_lost(app):
    async def fail_at_the_end():
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("could not release")

    with pytest.raises(BaseExceptionGroup) as caught:
        await serve_until_stopped(app, "lease", fail_at_the_end(), stop=True)
    assert caught.group_contains(BackgroundTaskError, match="lease")


async def test_a_task_cancelled_before_it_began_leaves_nothing_behind(app):
    async with app:
        app.spawn("late", asyncio.Event().wait())


async def test_the_callers_own_error_passes_as_it_is(app):
    async def body():
        async with app:
            app.spawn("watch", asyncio.Event().wait())
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await body()


async def test_a_port_that_is_taken_fails_the_start_and_leaves_nothing_open():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        settings = ServiceSettings(metrics_addr=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(OSError, match="address already in use"):
            async with App(settings, service="s"):
                pass


async def test_a_task_that_ignores_cancellation_is_named_and_not_awaited_beyond_the_timeout():
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    with capture_logs() as logs:
        async with App(SETTINGS, service="s", shutdown_timeout_s=30.0) as app:
            app.tasks_timeout_s = 0.05
            app.spawn("stubborn", stubborn())
            await asyncio.sleep(0)
            app.stop()
            start = time.monotonic()
            await app.wait()
            assert time.monotonic() - start < 5
            release.set()
    assert [log["task"] for log in logs if log["event"] == "background task still running at shutdown"] == ["stubborn"]


def test_a_frozen_heap_is_exempt_from_collection():
    gc.unfreeze()
    try:
        freeze_heap()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_garbage_of_a_settled_heap_is_collected_more_rarely():
    before = gc.get_threshold()
    gc.unfreeze()
    try:
        settle_heap()
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


async def test_a_watch_counts_in_readiness_and_its_invalid_objects_are_shown(app, fake_api, tmp_path):
    fake_api.put_all([make_node("good"), make_node("bad", labels={"a": 1})])
    kubeconfig = str(fake_api.kubeconfig(tmp_path))
    async with await KubeClient.connect(kubeconfig=kubeconfig, user_agent="test") as client, app:
        nodes = Reflector(client, NODES, decode_node)
        app.watch(nodes)
        status, text, _ = await fetch(app.metrics_port, "/readyz")
        assert (status, "first list not complete" in text) == (503, True)
        await nodes.wait_synced()
        assert (await fetch(app.metrics_port, "/readyz"))[0] == 200
        metrics = (await fetch(app.metrics_port, "/metrics"))[1]
        assert 'joulie_objects_set_aside{resource="nodes"} 1.0' in metrics
        assert 'joulie_invalid_input_total{source="nodes"} 1.0' in metrics
        assert set(nodes.store) == {"good"}
        app.stop()
