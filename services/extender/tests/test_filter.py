"""/filter, as kube-scheduler uses it."""

import pytest

from joulie_core.demand import WorkloadClass
from joulie_testing.api import make_node, make_pod

PERFORMANCE = make_pod("p", cpu=4, workload_class="performance")
STANDARD = make_pod("s", cpu=4)
ECO_LABEL = {"joulie.io/power-profile": "eco"}


@pytest.fixture
def cluster(fake_api, make_twin):
    """A node of every sort; `bare` has no twin, `labelled` has only its label, `ghost` is not in the cluster at all."""
    for name in ("perf", "eco", "draining", "unknown"):
        fake_api.put_all([make_node(name), make_twin(name, {"perf": "performance"}.get(name, name))])
    fake_api.put_all([make_node("bare"), make_node("labelled", labels=ECO_LABEL)])
    return ["perf", "eco", "draining", "unknown", "bare", "labelled", "ghost"]


def names_body(pod, names):
    return {"Pod": pod, "Nodes": None, "NodeNames": names}


async def test_a_performance_pod_is_kept_off_eco_and_draining_nodes(start, cluster):
    extender = await start()
    status, answer = await extender.post("/filter", names_body(PERFORMANCE, cluster))
    assert status == 200
    assert answer["NodeNames"] == ["perf", "unknown", "bare", "ghost"]
    assert answer["Nodes"] is None
    assert answer["Error"] == ""
    assert set(answer["FailedNodes"]) == {"eco", "draining", "labelled"}


async def test_refusals_are_unresolvable_too_so_that_preemption_does_not_try(start, cluster):
    extender = await start()
    _, answer = await extender.post("/filter", names_body(PERFORMANCE, cluster))
    assert answer["FailedAndUnresolvableNodes"] == answer["FailedNodes"]


async def test_a_refusal_has_a_reason_without_the_name_of_the_node(start, cluster):
    extender = await start()
    _, answer = await extender.post("/filter", names_body(PERFORMANCE, cluster))
    assert answer["FailedNodes"]["eco"] == "joulie: node is eco, performance pods are kept off it"
    assert "draining towards eco" in answer["FailedNodes"]["draining"]
    assert "labelled eco" in answer["FailedNodes"]["labelled"]


async def test_a_standard_pod_passes_every_node(start, cluster):
    extender = await start()
    _, answer = await extender.post("/filter", names_body(STANDARD, cluster))
    assert answer["NodeNames"] == cluster
    assert answer["FailedNodes"] == {}


@pytest.mark.parametrize("pod", [STANDARD, PERFORMANCE], ids=["standard", "performance"])
@pytest.mark.parametrize(
    ("state", "passes"),
    [("cordoned", False), ("draining", False), ("powering-off", False), ("asleep", False), ("waking", True)],
)
async def test_no_pod_goes_to_a_node_that_is_asleep_or_about_to_be(start, fake_api, pod, state, passes):
    fake_api.put(make_node("sleepy", labels={"joulie.io/sleep-state": state}))
    extender = await start()
    _, answer = await extender.post("/filter", names_body(pod, ["sleepy"]))
    assert (answer["NodeNames"] == ["sleepy"]) is passes
    node = fake_api.get("Node", "sleepy")
    _, answer = await extender.post("/filter", {"Pod": pod, "Nodes": {"items": [node]}, "NodeNames": None})
    assert bool(answer["Nodes"]["items"]) is passes
    if not passes:
        assert answer["FailedNodes"]["sleepy"].startswith("joulie: node is asleep, or about to be")


async def test_a_node_that_wakes_takes_pods_again(start, fake_api):
    fake_api.put(make_node("sleepy", labels={"joulie.io/sleep-state": "asleep"}))
    extender = await start()
    fake_api.patch("Node", "sleepy", {"metadata": {"labels": {"joulie.io/sleep-state": None}}})
    await extender.wait_for(lambda: not extender.table.refusals(WorkloadClass.STANDARD))
    _, answer = await extender.post("/filter", names_body(STANDARD, ["sleepy"]))
    assert answer["NodeNames"] == ["sleepy"]


async def test_required_affinity_against_eco_makes_a_performance_pod(start, cluster):
    extender = await start()
    pod = make_pod(node_selector={"joulie.io/power-profile": "performance"})
    _, answer = await extender.post("/filter", names_body(pod, cluster))
    assert "eco" in answer["FailedNodes"]


async def test_a_stale_eco_twin_still_keeps_performance_pods_off(start, cluster):
    extender = await start()
    extender.clock.now_s += 3600
    _, answer = await extender.post("/filter", names_body(PERFORMANCE, cluster))
    assert set(answer["FailedNodes"]) == {"eco", "draining", "labelled"}


async def test_an_eco_label_overrules_a_performance_twin_once_that_is_stale(start, cluster, fake_api, make_twin):
    fake_api.put_all([make_node("turned", labels=ECO_LABEL), make_twin("turned", "performance")])
    extender = await start()
    _, answer = await extender.post("/filter", names_body(PERFORMANCE, ["turned"]))
    assert answer["NodeNames"] == ["turned"]
    extender.clock.now_s += 301
    _, answer = await extender.post("/filter", names_body(PERFORMANCE, ["turned"]))
    assert answer["NodeNames"] == []
    assert "turned" in answer["FailedNodes"]


async def test_a_class_change_is_followed_by_watch(start, cluster, make_twin):
    extender = await start()
    extender.api.put(make_twin("perf", "draining"))
    await extender.wait_for(lambda: "perf" in extender.table.refusals(WorkloadClass.PERFORMANCE))
    extender.api.put(make_twin("perf", "performance"))
    await extender.wait_for(lambda: "perf" not in extender.table.refusals(WorkloadClass.PERFORMANCE))


async def test_a_node_that_leaves_leaves_nothing_behind(start, cluster):
    extender = await start()
    extender.api.remove("NodeTwin", "eco")
    await extender.wait_for(lambda: "eco" not in extender.table.refusals(WorkloadClass.PERFORMANCE))
    extender.api.remove("Node", "eco")
    await extender.wait_for(lambda: "eco" not in {entry.name for entry in extender.table})
    for workload_class in ("performance", "standard"):
        assert await extender.scores(make_pod(workload_class=workload_class), "eco") == {"eco": 50}


@pytest.mark.parametrize("pod", [STANDARD, PERFORMANCE])
async def test_no_candidates_is_a_fine_question(start, pod):
    extender = await start()
    status, answer = await extender.post("/filter", names_body(pod, []))
    assert (status, answer["NodeNames"], answer["FailedNodes"]) == (200, [], {})


async def test_full_nodes_come_back_byte_for_byte(start, cluster):
    extender = await start()
    kept = b'{"metadata": {"name":"perf",  "labels":{"\\u0061":"\xc3\xa9"}},"status":{"n":1.50, "x":[ 1,2 ]}}'
    other = b'{"metadata":{"name":"ghost"},"spec":{"taints":null}}'
    gone = b'{"metadata":{"name":"eco"}}'
    pod = b'{"metadata":{"annotations":{"joulie.io/workload-class":"performance"}}}'
    body = b'{"Pod":' + pod + b',"Nodes":{"metadata":{},"items":[' + b",".join([kept, gone, other]) + b"]}}"
    async with extender.http.post("/filter", data=body) as answer:
        raw = await answer.read()
        result = await answer.json()
    assert b"[" + kept + b"," + other + b"]" in raw
    assert result["NodeNames"] is None
    assert set(result["FailedAndUnresolvableNodes"]) == {"eco"}


async def test_full_nodes_of_a_standard_pod_come_back_byte_for_byte(start, cluster):
    extender = await start()
    node = b'{"metadata":{"name":"eco" },"x":1e0}'
    body = b'{"Pod":{"metadata":{}},"Nodes":{"items":[' + node + b']},"NodeNames":null}'
    async with extender.http.post("/filter", data=body) as answer:
        assert b"[" + node + b"]" in await answer.read()


async def test_the_label_of_a_full_node_counts_where_there_is_no_twin(start):
    extender = await start()
    nodes = {"items": [make_node("a", labels=ECO_LABEL), make_node("b")]}
    _, answer = await extender.post("/filter", {"pod": PERFORMANCE, "nodes": nodes})
    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["b"]
    assert set(answer["FailedNodes"]) == {"a"}


async def test_a_full_node_without_labels_is_judged_by_the_watched_label(start, cluster):
    extender = await start()
    _, answer = await extender.post(
        "/filter", {"Pod": PERFORMANCE, "Nodes": {"items": [{"metadata": {"name": "labelled"}}]}}
    )
    assert set(answer["FailedNodes"]) == {"labelled"}


async def test_thousands_of_full_nodes_are_judged_in_parts(start, cluster):
    extender = await start()
    nodes = [make_node(f"n{number}") for number in range(1_000)] + [make_node("eco")]
    _, answer = await extender.post("/filter", {"Pod": PERFORMANCE, "Nodes": {"items": nodes}})
    assert len(answer["Nodes"]["items"]) == 1_000
    assert set(answer["FailedNodes"]) == {"eco"}
