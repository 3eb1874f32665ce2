"""/prioritize, as kube-scheduler uses it."""

from datetime import UTC, datetime

import pytest

from joulie_testing.api import make_node, make_pod

#: With `make_hardware` of 128 cores and 700 W: 0.8 * 700 / 128 W a core.
WATTS_PER_CORE = 4.375
STANDARD = make_pod("s", cpu=4)


def performance_pod(watts):
    return make_pod(cpu=f"{watts / WATTS_PER_CORE:.6f}", workload_class="performance")


async def test_the_documents_example_scores_41(start, fake_api, make_twin, make_hardware):
    fake_api.put_all([make_node("n"), make_twin("n"), make_hardware("n")])
    extender = await start()
    assert await extender.scores(performance_pod(50), "n") == {"n": 41}


async def test_the_documents_ideal_node_scores_95(start, fake_api, make_twin, make_hardware):
    fake_api.put_all([make_node("n"), make_twin("n", "eco", measured=0, cooling=0), make_hardware("n")])
    extender = await start()
    assert await extender.scores(make_pod(cpu="1m"), "n") == {"n": 95}


async def test_gpu_watts_count_more_for_performance_pods(start, fake_api, make_twin, make_hardware):
    fake_api.put_all([make_twin("n", "unknown", measured=0, capped=3_200), make_hardware("n", gpus=8)])
    extender = await start()
    standard = await extender.scores(make_pod(cpu="1n", gpu=4), "n")
    performance = await extender.scores(make_pod(cpu="1n", gpu=4, workload_class="performance"), "n")
    # 0.6 and 0.9 of 1,600 W: 30 % and 45 % of the cap.
    assert standard == {"n": round(70 * 0.7 + 12)}
    assert performance == {"n": round(55 * 0.7 + 12)}


@pytest.mark.parametrize("enabled", ["true", "false"])
async def test_pue_weighs_the_pods_watts_only_with_facility_metrics(start, fake_api, make_twin, make_hardware, enabled):
    fake_api.put_all([make_twin("n", estimatedPUE=1.6), make_hardware("n")])
    extender = await start(ENABLE_FACILITY_METRICS=enabled)
    headroom = (300 - 50 * (1.6 if enabled == "true" else 1)) / 6
    assert await extender.scores(performance_pod(50), "n") == {"n": round(headroom * 0.7 + 12)}


async def test_unknown_nodes_score_50(start):
    extender = await start()
    assert await extender.scores(STANDARD, "ghost", 'odd"name') == {"ghost": 50, 'odd"name': 50}


async def test_a_node_without_twin_scores_50(start, fake_api):
    fake_api.put(make_node("n"))
    extender = await start()
    assert await extender.scores(STANDARD, "n") == {"n": 50}


@pytest.mark.parametrize("updated", [None, "not a time", "2020-01-01T00:00:00Z"])
async def test_an_undated_or_old_twin_scores_50(start, fake_api, make_twin, updated):
    fake_api.put(make_twin("n", updated=updated))
    extender = await start()
    assert await extender.scores(STANDARD, "n") == {"n": 50}


async def test_a_twin_becomes_stale_with_time_alone(start, fake_api, make_twin):
    fake_api.put(make_twin("n", measured=0))
    extender = await start()
    extender.clock.now_s += 300
    assert (await extender.scores(STANDARD, "n"))["n"] > 70
    extender.clock.now_s += 1
    assert await extender.scores(STANDARD, "n") == {"n": 50}


async def test_a_stale_twin_recovers_with_its_next_update(start, fake_api, make_twin):
    fake_api.put(make_twin("n", measured=0))
    extender = await start()
    extender.clock.now_s += 1_000
    assert await extender.scores(STANDARD, "n") == {"n": 50}
    again = datetime.fromtimestamp(extender.clock.now_s, UTC).isoformat()
    extender.api.put(make_twin("n", measured=0, updated=again))
    await extender.wait_for(lambda: not extender.table.entry("n").stale)
    assert (await extender.scores(STANDARD, "n"))["n"] > 70


async def test_without_measurement_the_predicted_headroom_is_used(start, fake_api, make_twin):
    fake_api.put(make_twin("n", capped=None, cooling=0, predictedPowerHeadroomScore=60))
    extender = await start()
    assert await extender.scores(make_pod(cpu=64, workload_class="performance"), "n") == {"n": 57}


async def test_standard_pods_are_moved_off_congested_performance_nodes(start, fake_api, make_twin, make_hardware):
    fake_api.put_all(
        [make_twin("full", measured=600), make_twin("free", measured=0), make_twin("eco", "eco", measured=0)]
    )
    extender = await start()
    pods = (make_pod(cpu="1n"), make_pod(cpu="1n", workload_class="performance"))
    standard, performance = [await extender.scores(pod, "full", "free", "eco") for pod in pods]
    # Congestion of the performance nodes is (100 + 0) / 2: standard pods lose 15 points there.
    assert performance == {"full": 12, "free": 82, "eco": 82}
    assert standard == {"full": 0, "free": 67, "eco": 92}


async def test_the_trend_scale_follows_the_whole_cluster(start, fake_api, make_twin, make_hardware):
    fake_api.put_all([make_twin("n", measured=0, trend=-12), make_hardware("n")])
    extender = await start()
    pod = make_pod(cpu="1n", workload_class="performance")
    assert await extender.scores(pod, "n") == {"n": 84}
    extender.api.put(make_twin("m", measured=0, trend=600))
    await extender.wait_for(lambda: len(extender.table) == 2)
    assert await extender.scores(pod, "n") == {"n": 88}


async def test_answers_do_not_depend_on_the_other_candidates_or_their_order(start, fake_api, make_twin):
    names = [f"n{number}" for number in range(20)]
    fake_api.put_all(make_twin(name, measured=25 * number) for number, name in enumerate(names))
    extender = await start()
    together = await extender.scores(STANDARD, *names)
    assert await extender.scores(STANDARD, *reversed(names)) == together
    alone = [await extender.scores(STANDARD, name) for name in names]
    assert {name: score for each in alone for name, score in each.items()} == together


@pytest.mark.parametrize(("score_max", "expected"), [("10", 4), ("1000", 412), ("1", 0)])
async def test_score_max_rescales_before_rounding(*, start, fake_api, make_twin, make_hardware, score_max, expected):
    fake_api.put_all([make_twin("n"), make_hardware("n")])
    extender = await start(SCORE_MAX=score_max)
    assert await extender.scores(performance_pod(50), "n") == {"n": expected}


@pytest.mark.parametrize("items", ["items", "Items", "ITEMS"])
@pytest.mark.parametrize(("pod", "nodes"), [("Pod", "Nodes"), ("pod", "nodes"), ("POD", "NODES"), ("Pod", "nodes")])
async def test_full_nodes_are_scored_in_any_letter_case(
    *, start, fake_api, make_twin, make_hardware, pod, nodes, items
):
    fake_api.put_all([make_twin("n"), make_hardware("n")])
    extender = await start()
    body = {pod: performance_pod(50), nodes: {items: [make_node("n"), make_node("ghost")]}, "NodeNames": None}
    assert await extender.post("/prioritize", body) == (
        200,
        [{"Host": "n", "Score": 41}, {"Host": "ghost", "Score": 50}],
    )


@pytest.mark.parametrize("key", ["NodeNames", "nodenames", "nodeNames", "NODENAMES"])
@pytest.mark.parametrize("other", [{"Nodes": None}, {"nodes": None}, {}])
async def test_names_are_scored_in_any_letter_case(start, key, other):
    extender = await start()
    body = {"pod": STANDARD, **other, key: ["ghost"]}
    assert await extender.post("/prioritize", body) == (200, [{"Host": "ghost", "Score": 50}])


@pytest.mark.parametrize("candidates", [{"NodeNames": []}, {"Nodes": {"items": []}}, {"Nodes": {"items": None}}, {}])
async def test_no_candidates_get_an_empty_list(start, candidates):
    extender = await start()
    assert await extender.post("/prioritize", {"Pod": STANDARD, **candidates}) == (200, [])
