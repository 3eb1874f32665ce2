"""Series of the extender."""

from time import perf_counter

import pytest

from joulie_api.metrics import Registry
from joulie_core.demand import WorkloadClass
from joulie_extender.metrics import ExtenderMetrics
from joulie_testing.api import Respond, make_node, make_pod


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


async def test_requests_of_kube_scheduler_that_end_in_an_error_are_counted_by_verb_and_reason(start):
    extender = await start()
    assert 'joulie_scheduler_request_errors_total{reason="internal",verb="filter"} 0.0' in await scrape(extender)
    assert (await extender.post("/filter", b"{"))[0] == 400
    assert (await extender.post("/prioritize", b"[]"))[0] == 400
    assert (await extender.post("/debug/explain", b"{"))[0] == 400
    async with extender.http.get("/filter") as answer:
        assert answer.status == 405
    async with extender.http.post("/prioritize", data=b"", headers={"Content-Length": str(1 << 40)}) as answer:
        assert answer.status == 413
    text = await scrape(extender)
    assert 'joulie_scheduler_request_errors_total{reason="bad_request",verb="filter"} 2.0' in text
    assert 'joulie_scheduler_request_errors_total{reason="bad_request",verb="prioritize"} 1.0' in text
    assert 'joulie_scheduler_request_errors_total{reason="too_large",verb="prioritize"} 1.0' in text


async def test_requests_before_the_first_sync_are_counted_as_errors(start, fake_api):
    fake_api.faults.add(Respond(500), verb="list", path="/nodes", times=None)
    extender = await start(wait=False)
    body = {"Pod": make_pod(), "NodeNames": ["n"]}
    assert (await extender.post("/filter", body))[0] == 503
    assert 'joulie_scheduler_request_errors_total{reason="not_synced",verb="filter"} 1.0' in await scrape(extender)


async def test_a_fault_of_the_extender_is_counted_as_internal(start, monkeypatch):
    extender = await start()
    monkeypatch.setattr(extender.table, "answer", lambda *_: 1 / 0)
    status, text = await extender.post("/prioritize", {"Pod": make_pod(), "NodeNames": ["n"]})
    assert (status, text) == (500, "internal error, see the log\n")
    assert 'joulie_scheduler_request_errors_total{reason="internal",verb="prioritize"} 1.0' in await scrape(extender)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "bad_request"),
        (408, "timeout"),
        (413, "too_large"),
        (415, "bad_request"),
        (429, "overloaded"),
        (500, "internal"),
        (502, "internal"),
        (503, "not_synced"),
    ],
)
async def test_the_status_of_an_answer_is_the_reason(status, reason, unwatched):
    registry = Registry()
    metrics = ExtenderMetrics(registry, unwatched.table)
    metrics.count_error("/filter", status)
    metrics.count_error("/healthz", status)
    counted = [line for line in (await registry.render()).decode().splitlines() if line.endswith(" 1.0")]
    assert counted == [f'joulie_scheduler_request_errors_total{{reason="{reason}",verb="filter"}} 1.0']


async def test_a_duration_is_that_since_the_given_reading(unwatched):
    registry = Registry()
    metrics = ExtenderMetrics(registry, unwatched.table)
    metrics.filter.observe(WorkloadClass.STANDARD, perf_counter() - 2.0)
    text = (await registry.render()).decode()
    buckets = 'joulie_scheduler_filter_duration_seconds_bucket{le="%s",workload_class="standard"} %s'
    steps = ("0.0005", "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512", "1.0")
    for le, count in [*((step, "0.0") for step in steps), ("5.0", "1.0"), ("+Inf", "1.0")]:
        assert buckets % (le, count) in text
    assert text.count("joulie_scheduler_filter_duration_seconds_bucket{le=") == 2 * (len(steps) + 2)


async def test_a_node_whose_twin_is_too_old_has_no_headroom(unwatched, make_twin):
    unwatched.put(make_twin("n", updated="2026-01-01T00:00:00Z"))
    text = await scrape(unwatched)
    assert 'joulie_scheduler_stale_twin_data{node="n"} 1.0' in text
    assert "joulie_scheduler_node_headroom_score{" not in text
