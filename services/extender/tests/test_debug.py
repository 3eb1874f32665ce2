"""The endpoints for people."""

import pytest

from joulie_core.timestamps import rfc3339
from joulie_testing.api import claiming, make_node, make_pod


async def scoring(extender, query=""):
    async with extender.http.get(f"/debug/scoring{query}") as answer:
        assert answer.status == 200
        return await answer.json()


CLUSTER = {
    "scorePolicy": "headroom_v1",
    "coefficients": {"cpuUtilCoeff": 0.8, "gpuUtilCoeffStandard": 0.6, "gpuUtilCoeffPerformance": 0.9},
    "cluster": {"trendWPerMin": -5.2, "trendScale": 6.0, "perfPressure": pytest.approx(27.5), "problem": None},
}
#: Of `node-0` and of a pod of 16 CPUs.
STANDARD_POD = {"allowed": True, "reason": "StandardPod", "message": "standard pods run on every node"}


@pytest.fixture
def node_0(unwatched, make_twin, make_hardware):
    """One performance node with a GPU."""
    twin = make_twin("node-0", measured=330, capped=1_200, cooling=31.3, trend=-5.2, estimatedPUE=1.25)
    unwatched.put(make_node("node-0"), twin, make_hardware("node-0", gpus=1))
    return unwatched


async def test_scoring_shows_what_is_known_of_the_cluster_and_of_a_node(node_0):
    assert await scoring(node_0) == CLUSTER | {
        "nodes": [
            {
                "nodeName": "node-0",
                "schedulableClass": "performance",
                "headroom": pytest.approx(72.5),
                "coolingStress": 31.3,
                "measuredPowerW": 330,
                "assumedPowerW": 0,
                "cappedPowerW": 1200,
                "nodeTdpW": 1000,
                "powerTrendWPerMin": -5.2,
                "estimatedPUE": 1.25,
                "baseScore": pytest.approx(72.5 * 0.7 + 68.7 * 0.15 + 5.2 / 6),
                "cpuTotalCores": 128,
                "cpuTotalThreads": 128,
                "cpuMaxWattsTotal": 700,
                "gpuCount": 1,
                "gpuMaxWattsPerGpu": 400,
                "hasGpu": True,
                "stale": False,
                "performancePods": {
                    "allowed": True,
                    "reason": "PerformanceNode",
                    "message": "node supplies performance",
                },
                "standardPods": STANDARD_POD,
            }
        ]
    }


async def test_explain_shows_the_cluster_the_pod_and_every_term_of_a_node(node_0):
    answer = await node_0.post("/debug/explain", {"Pod": make_pod("p", cpu=16, gpu=1), "NodeNames": ["node-0"]})
    free_pct = 100 * (1_200 - 330 - 16 * 0.8 * 700 / 128 - 0.6 * 400) / 1_200
    terms = {
        "headroom": pytest.approx(free_pct * 0.7),
        "cooling": pytest.approx(68.7 * 0.15),
        "trend": pytest.approx(5.2 / 6),
        "profile": 0,
        "pressure": pytest.approx(-27.5 * 0.3),
    }
    assert answer == (
        200,
        CLUSTER
        | {
            "pod": {"cpu_cores": 16, "gpus": 1, "memory_bytes": 0, "workload_class": "standard", "run_s": None},
            "nodes": [
                {
                    "nodeName": "node-0",
                    "score": pytest.approx(free_pct * 0.7 + 68.7 * 0.15 + 5.2 / 6 - 27.5 * 0.3),
                    "terms": terms,
                    "projectedHeadroom": pytest.approx(free_pct),
                    "coveredShare": 0,
                    "marginalCpuW": pytest.approx(70),
                    "marginalGpuW": pytest.approx(240),
                    "neutral": None,
                    "filter": STANDARD_POD,
                }
            ],
        },
    )


async def test_watts_of_a_pod_are_weighted_with_the_pue_of_its_node_where_scores_are(start, fake_api, make_twin):
    fake_api.put_all([make_twin("n", estimatedPUE=1.5), make_twin("m")])
    shown = {}
    for weighted in ("true", "false"):
        extender = await start(ENABLE_FACILITY_METRICS=weighted)
        _, answer = await extender.post("/debug/explain", {"Pod": make_pod(cpu=2), "NodeNames": ["n", "m"]})
        shown[weighted] = [node["marginalCpuW"] for node in answer["nodes"]]
    assert shown["false"][0] == shown["false"][1] > 0
    assert shown["true"] == pytest.approx([1.5 * shown["false"][0], shown["false"][1]])


async def test_claims_of_an_explained_pod_are_looked_up(unwatched):
    unwatched.feeds.claims.gpus = lambda _pod: 3.0
    pod = claiming(make_pod("p", cpu=1), claim="c")
    _, answer = await unwatched.post("/debug/explain", {"Pod": pod, "NodeNames": ["n"]})
    assert answer["pod"]["gpus"] == 3


async def test_what_cannot_be_explained_is_answered_with_the_reason(unwatched):
    assert await unwatched.post("/debug/explain", b"{") == (400, "not a request: Input data was truncated\n")


async def test_scoring_of_an_empty_cluster_is_empty(unwatched):
    assert (await scoring(unwatched))["nodes"] == []


async def test_a_node_without_twin_is_shown_as_unknown_and_neutral(unwatched):
    unwatched.put(make_node("n"))
    (node,) = (await scoring(unwatched))["nodes"]
    assert (node["schedulableClass"], node["baseScore"], node["stale"]) == ("unknown", 50, True)
    assert (node["gpuCount"], node["gpuMaxWattsPerGpu"], node["hasGpu"]) == (0, 0, False)


async def test_the_base_score_leaves_out_what_depends_on_the_pods_class(unwatched, make_twin):
    classes = ("performance", "eco", "draining")
    unwatched.put(*(make_twin(name, name, measured=300, capped=1_200, cooling=0, trend=0) for name in classes))
    nodes = (await scoring(unwatched))["nodes"]
    assert [node["baseScore"] for node in nodes] == [pytest.approx(75 * 0.7 + 15)] * 3


async def test_scoring_of_one_node(unwatched, make_twin):
    unwatched.put(make_twin("a"), make_twin("b"))
    assert [node["nodeName"] for node in (await scoring(unwatched, "?node=b"))["nodes"]] == ["b"]
    async with unwatched.http.get("/debug/scoring?node=ghost") as answer:
        assert (answer.status, await answer.text()) == (404, "nothing is known of a node ghost\n")


@pytest.mark.parametrize(("state", "allowed"), [("asleep", False), ("draining", False), ("waking", True)])
async def test_a_node_that_sleeps_is_shown_as_refusing_all_pods(unwatched, make_twin, state, allowed):
    unwatched.put(make_node("n", labels={"joulie.io/sleep-state": state}), make_twin("n"))
    (node,) = (await scoring(unwatched))["nodes"]
    for told in (node["performancePods"], node["standardPods"]):
        assert told["allowed"] is allowed
        assert (told["reason"] == "SleepingNode") is not allowed


async def test_explain_shows_every_term_and_the_filters_reason(unwatched, make_twin, make_hardware):
    unwatched.put(make_twin("p"), make_hardware("p"), make_twin("e", "eco"))
    pod = make_pod(cpu="11428571u", workload_class="performance")
    status, shown = await unwatched.post("/debug/explain", {"Pod": pod, "NodeNames": ["p", "e", "ghost"]})
    assert status == 200
    perf, eco, ghost = shown["nodes"]
    assert perf["score"] == pytest.approx(41.2, abs=0.05)
    assert perf["terms"]["headroom"] == pytest.approx(29.2, abs=0.05)
    assert perf["terms"]["cooling"] == pytest.approx(12)
    assert perf["marginalCpuW"] == pytest.approx(50, abs=1e-3)
    assert eco["filter"] == {
        "allowed": False,
        "reason": "EcoNode",
        "message": "joulie: node is eco, performance pods are kept off it",
    }
    assert (ghost["score"], ghost["neutral"]) == (50, "NoTwin")


async def test_explained_scores_are_those_of_prioritize(start, fake_api, make_twin):
    names = [f"n{number}" for number in range(12)]
    classes = ["performance", "eco", "draining"]
    fake_api.put_all(
        make_twin(name, classes[number % 3], measured=60 * number, trend=20 * number - 100)
        for number, name in enumerate(names)
    )
    extender = await start()
    for workload_class in ("standard", "performance"):
        pod = make_pod(cpu=3, workload_class=workload_class)
        scores = await extender.scores(pod, *names)
        _, shown = await extender.post("/debug/explain", {"Pod": pod, "NodeNames": names})
        for node in shown["nodes"]:
            assert abs(node["score"] - scores[node["nodeName"]]) <= 0.5 + 1e-6


async def test_explain_shows_the_stated_run_time_and_what_is_covered_of_it(start, fake_api, make_twin):
    running = make_pod("running", node="n", cpu=2)
    running["metadata"]["annotations"] = {"joulie.io/expected-duration": "1h"}
    extender = await start(SCORE_POLICY="energy_v2")
    running["status"] = {"phase": "Running", "startTime": rfc3339(extender.clock.now_s)}
    fake_api.put_all([make_node("n"), make_node("m"), make_twin("n"), make_twin("m"), running])
    await extender.wait_for(lambda: extender.table.covered(5_400.0) and len(extender.table) == 2)
    pod = make_pod("p", cpu=2)
    pod["metadata"]["annotations"] = {"joulie.io/expected-duration": "90m"}
    body = {"Pod": pod, "NodeNames": ["n", "m"]}
    _, answer = await extender.post("/debug/explain", body)
    assert answer["pod"]["run_s"] == 5_400
    assert [node["coveredShare"] for node in answer["nodes"]] == [pytest.approx(6 / 9), 0]
    told = await extender.scores(pod, "n", "m")
    for node in answer["nodes"]:
        assert abs(told[node["nodeName"]] - node["score"]) <= 0.5
