"""The operator on an API server: limits by class are lifted in targets while performance pods wait for GPUs."""

from tests.e2e.waiting import eventually

from joulie_testing.api import make_node, make_pod

H100, V100 = "NVIDIA H100 80GB HBM3", "Tesla V100-PCIE-32GB"
LIFTED = {"lifted": True, "reason": "GpusInDemand"}
NODES = [
    make_node("h100-0", gpus=8, gpu_model=H100, labels={"model": "h100"}),
    make_node("h100-1", gpus=8, gpu_model=H100, labels={"model": "h100"}),
    make_node("v100-0", gpus=4, gpu_model=V100, labels={"model": "v100"}),
    make_node("cpu-0"),
]
ALL_PERFORMANCE = {"STATIC_HP_FRAC": "1", "LIFT_CLASS_LIMITS": "true"}


def waiting(name="train", **more):
    return make_pod(name, gpu=2, workload_class="performance", **more)


def lifted(cluster):
    """Return the nodes whose limits are lifted; None before all have targets."""
    targets = {node["metadata"]["name"]: cluster.target(node["metadata"]["name"]) for node in NODES}
    if None in targets.values():
        return None
    return {name for name, target in targets.items() if target.get("classLimits") == LIFTED}


def written(cluster):
    """Return the nodes whose targets were written, in order, with what was written of their limits by class."""
    bodies = [
        each.json()
        for each in cluster.api.requests
        if (each.verb, each.kind, each.subresource) == ("apply", "NodePowerProfile", "")
    ]
    return [(each["spec"]["nodeName"], each["spec"].get("classLimits")) for each in bodies]


async def test_limits_are_lifted_on_the_nodes_that_a_waiting_pod_could_take_and_come_back(cluster):
    cluster.api.put_all(NODES)
    cluster.start(**ALL_PERFORMANCE, CLASS_LIMITS_LIFTED_FOR="1s")
    await cluster.until(lambda: lifted(cluster) == set())
    before = len(written(cluster))
    cluster.api.put(waiting(node_selector={"model": "h100"}))
    await cluster.until(lambda: lifted(cluster) == {"h100-0", "h100-1"})
    cluster.api.put(waiting(node_selector={"model": "h100"}, node="h100-0"))
    await cluster.until(lambda: lifted(cluster) == set())
    assert sorted(written(cluster)[before:], key=str) == [
        ("h100-0", None),
        ("h100-0", LIFTED),
        ("h100-1", None),
        ("h100-1", LIFTED),
    ]


async def test_the_next_operator_keeps_what_is_lifted(cluster):
    cluster.api.put_all([*NODES, waiting()])
    first = cluster.start(**ALL_PERFORMANCE)
    await cluster.until(lambda: lifted(cluster) == {"h100-0", "h100-1", "v100-0"})
    await first.stop()
    before = len(written(cluster))
    assert before > 0
    cluster.api.remove("Pod", "train", "default")
    second = cluster.start(**ALL_PERFORMANCE)

    async def leads() -> None:
        assert "joulie_operator_class_limit_lifted_nodes 3.0" in await second.metrics()

    await eventually(leads, within_s=20)
    assert lifted(cluster) == {"h100-0", "h100-1", "v100-0"}
    assert written(cluster)[before:] == []


async def test_limits_are_lifted_while_few_gpus_of_a_model_are_free(cluster):
    cluster.api.put_all(NODES)
    cluster.start(**ALL_PERFORMANCE, CLASS_LIMITS_LIFTED_FOR="1s", CLASS_LIMITS_SPARE_PCT="50")
    await cluster.until(lambda: lifted(cluster) == set())
    cluster.api.put_all([make_pod("a", gpu=2, node="v100-0"), make_pod("b", gpu=1, node="v100-0")])
    await cluster.until(lambda: lifted(cluster) == {"v100-0"})
    cluster.api.remove("Pod", "a", "default")
    await cluster.until(lambda: lifted(cluster) == set())


async def test_by_default_nothing_is_lifted_and_unscheduled_pods_are_not_watched(cluster):
    cluster.api.put_all([*NODES, waiting()])
    cluster.start(STATIC_HP_FRAC="1")
    await cluster.until(cluster.settled)
    assert lifted(cluster) == set()
    watched = [each for each in cluster.api.requests if each.path == "/api/v1/pods"]
    assert watched
    assert not any("spec.nodeName" in str(each.query) for each in watched)


async def test_an_operator_that_lifts_nothing_ends_what_another_has_lifted(cluster):
    cluster.api.put_all([*NODES, waiting()])
    first = cluster.start(**ALL_PERFORMANCE)
    await cluster.until(lambda: lifted(cluster) == {"h100-0", "h100-1", "v100-0"})
    await first.stop()
    cluster.start(STATIC_HP_FRAC="1")
    await cluster.until(lambda: lifted(cluster) == set())
