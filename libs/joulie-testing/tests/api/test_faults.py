import asyncio

import aiohttp
import pytest

from joulie_testing.api import (
    CutMidLine,
    Delay,
    Disconnect,
    EndStream,
    HalfOpen,
    Inject,
    Respond,
    conflicting_apply,
    expired_event,
    make_node,
)

NODES = "/api/v1/nodes"


async def test_a_scripted_status_is_answered_so_many_times(fake_api, raw):
    script = fake_api.faults.add(Respond(429, retry_after_s=3), verb="list", times=2)
    async with raw.session.get(NODES) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "3")
    assert (await raw("GET", NODES))[1]["reason"] == "TooManyRequests"
    assert (await raw("GET", NODES))[0] == 200
    assert script.hits == 2


@pytest.mark.parametrize("status", [401, 403, 410, 500])
async def test_any_status_can_be_scripted(fake_api, raw, status):
    fake_api.faults.add(Respond(status))
    found, body = await raw("GET", NODES)
    assert (found, body["code"]) == (status, status)


async def test_a_script_fits_by_verb_and_path_and_may_let_some_pass(fake_api, raw):
    fake_api.put(make_node("a"))
    fake_api.faults.add(Respond(500), verb="get", path="/nodes/a", times=None, skip=1)
    assert (await raw("GET", NODES))[0] == 200
    assert [(await raw("GET", f"{NODES}/a"))[0] for _ in range(3)] == [200, 500, 500]
    fake_api.faults.clear()
    assert (await raw("GET", f"{NODES}/a"))[0] == 200


async def test_a_body_need_not_be_json(fake_api, raw):
    fake_api.faults.add(Respond(200, body=b"<html>", content_type="text/html"))
    async with raw.session.get(NODES) as response:
        assert await response.read() == b"<html>"


# Patches, because aiohttp's client repeats a broken GET, PUT or DELETE once by itself.
@pytest.mark.parametrize("landed", [False, True])
async def test_a_disconnect_leaves_no_answer_whether_or_not_the_write_landed(fake_api, raw, landed):
    fake_api.put(make_node("a"))
    fake_api.faults.add(Disconnect(after_effect=landed), verb="patch")
    with pytest.raises(aiohttp.ClientConnectionError):
        await raw.merge(f"{NODES}/a", {"metadata": {"labels": {"x": "y"}}})
    assert ("x" in fake_api.get("Node", "a")["metadata"]["labels"]) is landed
    assert fake_api.requests[-1].status == 0


async def test_a_half_open_connection_sends_nothing(fake_api, raw):
    fake_api.faults.add(HalfOpen(), verb="list")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await raw("GET", NODES)


async def test_a_half_open_watch_goes_silent_after_its_lines(fake_api, raw):
    fake_api.put_all([make_node("a"), make_node("b")])
    fake_api.faults.add(HalfOpen(after_lines=1), verb="watch")
    async with raw.watch(NODES, timeoutSeconds="0.01") as watch:
        assert await watch.named(1) == [("ADDED", "a")]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await watch.line()


async def test_a_cut_leaves_half_a_line(fake_api, raw):
    fake_api.put(make_node("a"))
    fake_api.faults.add(CutMidLine(after_lines=1), verb="watch")
    async with raw.watch(NODES) as watch:
        assert await watch.named(1) == [("ADDED", "a")]
        with pytest.raises(aiohttp.ClientError):
            await watch.drain()


async def test_a_cut_leaves_half_a_body(fake_api, raw):
    fake_api.put(make_node("a"))
    fake_api.faults.add(CutMidLine(), verb="list")
    with pytest.raises(aiohttp.ClientError):
        await raw("GET", NODES)


async def test_a_watch_can_end_at_once(fake_api, raw):
    fake_api.faults.add(EndStream(), verb="watch", times=2)
    for _ in range(2):
        async with raw.watch(NODES) as watch:
            assert await watch.line() == b""


async def test_slow_answers_come_late_but_right(fake_api, raw):
    fake_api.faults.add(Delay(0.05))
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert (await raw("GET", NODES))[0] == 200
    assert loop.time() - start >= 0.05


async def test_lines_can_be_injected_and_the_stream_goes_on(fake_api, raw):
    fake_api.faults.add(Inject((b"not json",)), verb="watch")
    async with raw.watch(NODES, resourceVersion="0") as watch:
        assert await watch.line() == b"not json\n"
        fake_api.put(make_node("a"))
        assert await watch.named(1) == [("ADDED", "a")]


async def test_an_open_watch_can_be_expired(fake_api, raw):
    async with raw.watch(NODES, resourceVersion="0") as watch:
        await fake_api.wait_for(lambda: fake_api.watches("Node") == 1)
        assert fake_api.disturb_watches(expired_event(), "Node") == 1
        kind, status = await watch.event()
        assert (kind, status["code"]) == ("ERROR", 410)
        assert await watch.line() == b""


async def test_an_open_watch_can_be_cut(fake_api, raw):
    async with raw.watch(NODES, resourceVersion="0") as watch:
        fake_api.put(make_node("a"))
        await watch.event()
        fake_api.disturb_watches(CutMidLine())
        with pytest.raises(aiohttp.ClientError):
            await watch.drain()


async def test_a_closed_watch_is_forgotten(fake_api, raw):
    async with raw.watch(NODES, resourceVersion="0"):
        await fake_api.wait_for(lambda: fake_api.watches() == 1)
    await fake_api.wait_for(lambda: not fake_api.watches())


async def test_a_conflicting_apply_names_the_other_manager(fake_api, raw, make_profile):
    fake_api.faults.add(conflicting_apply("rival", ".spec.cpu"), verb="apply")
    status, body = await raw.apply("/apis/joulie.io/v1alpha1/nodetwins/n", {}, manager="m")
    assert status == 409
    assert 'conflict with "rival": .spec.cpu' in body["message"]


def test_stream_faults_must_be_scripted_for_watches(fake_api):
    with pytest.raises(ValueError, match='verb="watch"'):
        fake_api.faults.add(EndStream(), verb="list")
