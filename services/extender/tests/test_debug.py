"""The endpoints for people."""

import pytest

from joulie_api.testing import make_node, make_pod

DOCUMENTED = {
    "nodeName", "schedulableClass", "headroom", "coolingStress", "measuredPowerW", "cappedPowerW", "nodeTdpW",
    "powerTrendWPerMin", "baseScore", "cpuTotalCores", "cpuTotalThreads",
    "cpuMaxWattsTotal", "gpuCount", "gpuMaxWattsPerGpu", "hasGpu",
    "stale",
}  # fmt: skip


async def scoring(extender, query=""):
    async with extender.http.get(f"/debug/scoring{query}") as answer:
        assert answer.status == 200
        return await answer.json()


async def test_scoring_shows_every_documented_field(unwatched, make_twin, make_hardware):
    twin = make_twin("node-0", measured=330, capped=1_200, cooling=31.3, trend=-5.2)
    unwatched.put(make_node("node-0"), twin, make_hardware("node-0", gpus=8))
    shown = await scoring(unwatched)
    assert shown["coefficients"] == {"cpuUtilCoeff": 0.8, "gpuUtilCoeffStandard": 0.6, "gpuUtilCoeffPerformance": 0.9}
    (node,) = shown["nodes"]
    assert node.keys() >= DOCUMENTED
    assert node["schedulableClass"] == "performance"
    assert node["headroom"] == pytest.approx(72.5)
    assert node["baseScore"] == pytest.approx(72.5 * 0.7 + 68.7 * 0.15 + 5.2 / 6)
    assert (node["cpuTotalCores"], node["cpuTotalThreads"], node["cpuMaxWattsTotal"]) == (128, 128, 700)
    assert (node["gpuCount"], node["gpuMaxWattsPerGpu"], node["hasGpu"]) == (8, 400, True)
    assert node["stale"] is False


async def test_scoring_of_an_empty_cluster_is_empty(unwatched):
    assert (await scoring(unwatched))["nodes"] == []


async def test_a_node_without_twin_is_shown_as_unknown_and_neutral(unwatched):
    unwatched.put(make_node("n"))
    (node,) = (await scoring(unwatched))["nodes"]
    assert (node["schedulableClass"], node["baseScore"], node["stale"]) == ("unknown", 50, True)


async def test_the_base_score_leaves_out_what_depends_on_the_pods_class(unwatched, make_twin):
    classes = ("performance", "eco", "draining")
    unwatched.put(*(make_twin(name, name, measured=300, capped=1_200, cooling=0, trend=0) for name in classes))
    nodes = (await scoring(unwatched))["nodes"]
    assert [node["baseScore"] for node in nodes] == [pytest.approx(75 * 0.7 + 15)] * 3


async def test_scoring_of_one_node(unwatched, make_twin):
    unwatched.put(make_twin("a"), make_twin("b"))
    assert [node["nodeName"] for node in (await scoring(unwatched, "?node=b"))["nodes"]] == ["b"]
    async with unwatched.http.get("/debug/scoring?node=ghost") as answer:
        assert answer.status == 404


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
