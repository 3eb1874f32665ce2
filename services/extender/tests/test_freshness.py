"""Readiness, and what silence does to scores."""

import asyncio

from joulie_testing.api import Respond, make_node, make_pod

PERFORMANCE = make_pod(workload_class="performance")
STANDARD = make_pod()


async def test_before_the_first_sync_nothing_is_answered(start, fake_api):
    fake_api.faults.add(Respond(403), verb="list", path="/nodetwins", times=None)
    extender = await start(wait=False)
    await extender.wait_for(lambda: extender.feeds.stale_reason().count("first list not complete") == 1)
    for path in ("/filter", "/prioritize"):
        assert (await extender.post(path, {"Pod": STANDARD, "NodeNames": ["n"]}))[0] == 503
    assert extender.feeds.stale_reason().startswith("nodetwins.joulie.io: first list not complete (")


async def test_liveness_does_not_wait_for_the_sync(start, fake_api):
    fake_api.faults.add(Respond(403), verb="list", path="/nodetwins", times=None)
    extender = await start(wait=False)
    async with extender.http.get("/healthz") as answer:
        assert answer.status == 200


async def test_a_quiet_watch_is_not_a_silent_one(start):
    extender = await start(CACHE_TTL="1ms")
    await extender.wait_for(lambda: extender.api.watches() == 4)
    await asyncio.sleep(0.01)
    assert extender.feeds.stale_reason() is None


async def test_readiness_falls_when_the_api_server_cannot_be_read_and_returns_with_it(start):
    extender = await start(CACHE_TTL="50ms")
    assert extender.feeds.stale_reason() is None
    await extender.api.stop()
    await extender.wait_for(extender.feeds.stale_reason)
    await extender.api.start()
    await extender.wait_for(lambda: extender.feeds.stale_reason() is None, timeout_s=30)


async def test_silence_makes_every_node_stale_but_frees_none(start, fake_api, make_twin):
    fake_api.put_all([make_node("eco"), make_twin("eco", "eco", measured=0), make_twin("perf", measured=0)])
    extender = await start(CACHE_TTL="50ms")
    assert (await extender.scores(STANDARD, "perf"))["perf"] > 60
    await extender.api.stop()
    await extender.wait_for(extender.feeds.stale_reason)
    assert await extender.scores(STANDARD, "eco", "perf") == {"eco": 50, "perf": 50}
    _, answer = await extender.post("/filter", {"Pod": PERFORMANCE, "NodeNames": ["eco", "perf"]})
    assert answer["NodeNames"] == ["perf"]
    await extender.api.start()
    await extender.wait_for(lambda: extender.feeds.stale_reason() is None, timeout_s=30)
    assert (await extender.scores(STANDARD, "perf"))["perf"] > 60


async def test_no_request_reaches_the_api_server(start, fake_api, make_twin):
    fake_api.put_all([make_node("n"), make_twin("n")])
    extender = await start()
    await extender.wait_for(lambda: extender.api.watches() == 4)
    before = len(list(extender.api.requests))
    await extender.scores(STANDARD, "n", "ghost")
    await extender.post("/filter", {"Pod": PERFORMANCE, "NodeNames": ["n", "ghost"]})
    assert len(list(extender.api.requests)) == before
