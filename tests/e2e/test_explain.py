"""Ask the running system why: a node that was rejected, and one that scores low."""

import json

import pytest
from tests.e2e.extender_client import explain, extender_args, request, scoring
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually

from joulie_testing.api.builders import make_pod

pytestmark = pytest.mark.e2e

_TERMS = ("headroom", "cooling", "trend", "profile", "pressure")


@pytest.mark.system(
    operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0.5"},
    agent={"RECONCILE_INTERVAL": "2s"},
    extender={"TELEMETRY_INTERVAL": "2s"},
)
async def test_every_refusal_and_every_point_is_explained(system: System) -> None:
    async def planned() -> None:
        assert count(await system.view.profiles()) == {"performance": 6, "eco": 6}
        nodes = await scoring(system.stack.extender_url)
        assert all(node["measuredPowerW"] for node in nodes.values()), nodes
        assert not any(node["stale"] for node in nodes.values()), nodes

    await eventually(planned, within_s=40)
    await _check_a_rejected_node(system)
    await _check_a_low_scored_node(system)


async def _check_a_rejected_node(system: System) -> None:
    profiles = await system.view.profiles()
    pod = make_pod("train", cpu=8, workload_class="performance")
    for name, node in (await explain(system.stack.extender_url, pod, profiles)).items():
        eco = profiles[name] == "eco"
        result = node["filter"]
        assert result["allowed"] is not eco, (name, result)
        assert result["reason"] == ("EcoNode" if eco else "PerformanceNode")
        assert ("eco" in result["message"]) is eco
    rejected = next(name for name, profile in profiles.items() if profile == "eco")
    print(rejected, (await explain(system.stack.extender_url, pod, [rejected]))[rejected])


async def _check_a_low_scored_node(system: System) -> None:
    """A node under load scores low for want of headroom, and the explanation adds up to kube-scheduler's answer."""
    busy, idle = "xeon-8480-0", "xeon-8480-1"
    load = await system.view.create_pods(3, "load", cpu="60", node_selector={"kubernetes.io/hostname": busy})
    await eventually(lambda: system.view.placed(load), within_s=20)
    pod = make_pod("web", cpu=40)
    url = system.stack.extender_url

    async def low() -> None:
        nodes = await explain(url, pod, [busy, idle])
        assert nodes[busy]["score"] < nodes[idle]["score"] - 15, nodes
        assert nodes[busy]["terms"]["headroom"] < nodes[idle]["terms"]["headroom"] - 15, nodes

    await eventually(low, within_s=40)
    nodes = await explain(url, pod, [busy, idle])
    print(busy, nodes[busy])
    for node in nodes.values():
        assert node["neutral"] is None
        assert node["marginalCpuW"] > 0
        assert node["terms"]["headroom"] == pytest.approx(0.7 * node["projectedHeadroom"])
        total = sum(node["terms"][term] for term in _TERMS)
        assert node["score"] == pytest.approx(min(100, max(0, total)))
    pod["metadata"].pop("uid", None)  # only a request, no real pod: no binding is expected
    (answer,) = json.loads(await request(url, "/prioritize", extender_args(pod, [busy])))
    explained = (await explain(url, pod, [busy]))[busy]["score"]
    assert abs(answer["Score"] - explained) <= 1
