"""Series of the extender."""

from joulie_api.testing import make_node, make_pod


async def scrape(extender):
    return (await extender.registry.render()).decode()


async def test_requests_are_counted_and_timed_by_workload_class(start):
    extender = await start()
    for workload_class in ("standard", "standard", "performance"):
        body = {"Pod": make_pod(workload_class=workload_class), "NodeNames": ["n"]}
        await extender.post("/filter", body)
        await extender.post("/prioritize", body)
    text = await scrape(extender)
    for verb in ("filter", "prioritize"):
        assert f'joulie_scheduler_{verb}_requests_total{{workload_class="standard"}} 2.0' in text
        assert f'joulie_scheduler_{verb}_requests_total{{workload_class="performance"}} 1.0' in text
        assert f'joulie_scheduler_{verb}_duration_seconds_count{{workload_class="standard"}} 2.0' in text


async def test_per_node_series_show_headroom_staleness_and_the_last_pods_score(
    start, fake_api, make_twin, make_hardware
):
    fake_api.put_all([make_twin("n"), make_hardware("n"), make_node("bare")])
    extender = await start()
    scores = await extender.scores(make_pod(cpu=16), "n", "bare")
    text = await scrape(extender)
    assert 'joulie_scheduler_node_headroom_score{node="n"} 50.0' in text
    assert 'joulie_scheduler_node_headroom_score{node="bare"}' not in text
    assert 'joulie_scheduler_stale_twin_data{node="n"} 0.0' in text
    assert 'joulie_scheduler_stale_twin_data{node="bare"} 1.0' in text
    for name, score in scores.items():
        assert f'joulie_scheduler_final_node_score{{node="{name}",workload_class="standard"}} {score}.0' in text
    assert 'workload_class="performance"} 50' not in text


async def test_the_series_of_a_node_vanish_with_it(start, fake_api, make_twin):
    fake_api.put(make_twin("n"))
    extender = await start()
    assert 'node="n"' in await scrape(extender)
    extender.api.remove("NodeTwin", "n")
    await extender.wait_for(lambda: not len(extender.table))
    assert 'node="n"' not in await scrape(extender)
