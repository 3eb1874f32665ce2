"""Placement of pods by a real kube-scheduler with the extender."""

from collections import Counter

import pytest
from tests.e2e.extender_client import scoring
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually, holds

pytestmark = pytest.mark.e2e

#: What users write to have kube-scheduler itself keep a pod off eco nodes.
_NOT_ECO = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "joulie.io/power-profile", "operator": "NotIn", "values": ["eco"]}]}
            ]
        }
    }
}
_HALF = {"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0.5"}


async def _planned(system: System, performance: int) -> None:
    assert count(await system.view.profiles()) == Counter({"performance": performance, "eco": 12 - performance})
    for name, profile in (await system.view.profiles()).items():
        assert (await system.view.twin(name))["schedulableClass"] == profile


async def _measured(system: System) -> None:
    for name, node in (await scoring(system.stack.extender_url)).items():
        assert not node["stale"], (name, node)
        assert node["measuredPowerW"] is not None, (name, node)
        assert abs(node["powerTrendWPerMin"]) < 6, (name, node)


@pytest.mark.system(operator=_HALF)
async def test_performance_pods_land_on_performance_nodes_only(shared_system: System) -> None:
    await eventually(lambda: _planned(shared_system, 6), within_s=30)
    profiles = await shared_system.view.profiles()
    pods = await shared_system.view.create_pods(60, "fast", cpu="2", workload_class="performance")
    placements = await _placed(shared_system, pods)
    assert {profiles[node] for node in placements.values()} == {"performance"}


async def _placed(system: System, pods: list[str]) -> dict[str, str]:
    await eventually(lambda: system.view.placed(pods), within_s=30)
    return dict(await system.view.placed(pods))


@pytest.mark.system(operator=_HALF)
async def test_standard_pods_prefer_eco_nodes(system: System) -> None:
    await eventually(lambda: _planned(system, 6), within_s=30)
    # The step from a model's first figures to measured ones is a trend, which moves scores more than a profile does.
    await eventually(lambda: _measured(system), within_s=60)
    profiles = await system.view.profiles()
    # Scheduled within a second, they are all in flight: of 60, the last 18 found the best eco node as full as others.
    placements = await _placed(system, await system.view.create_pods(30, "slow", cpu="1"))
    landed = Counter(profiles[node] for node in placements.values())
    assert landed["eco"] > 0.8 * landed.total(), landed


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0"})
async def test_performance_pods_wait_with_our_reason_where_only_eco_nodes_exist(shared_system: System) -> None:
    await eventually(lambda: _planned(shared_system, 0), within_s=30)
    pods = await shared_system.view.create_pods(3, "stuck", cpu="1", workload_class="performance")

    async def explained() -> None:
        messages = await shared_system.view.event_messages(pods[0])
        assert any("eco" in message and "performance" in message for message in messages), messages

    await eventually(explained, within_s=15)
    assert set((await shared_system.view.placements(pods)).values()) == {None}
    standard = await shared_system.view.create_pods(3, "free", cpu="1")
    await _placed(shared_system, standard)
    assert set((await shared_system.view.placements(pods)).values()) == {None}


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"})
async def test_performance_pods_avoid_a_draining_node(shared_system: System) -> None:
    await eventually(lambda: _planned(shared_system, 12), within_s=30)
    node = "xeon-8480-2"
    holder = await shared_system.view.create_pods(
        1, "holder", cpu="1", workload_class="performance", node_selector={"kubernetes.io/hostname": node}
    )
    await _placed(shared_system, holder)
    await shared_system.operator.restart({"STATIC_HP_FRAC": "0.5"})

    async def draining() -> None:
        assert (await shared_system.view.twin(node))["schedulableClass"] == "draining"

    await eventually(draining, within_s=30)
    pinned = await shared_system.view.create_pods(
        1, "pinned", cpu="1", workload_class="performance", node_selector={"kubernetes.io/hostname": node}
    )

    async def refused() -> None:
        assert any("draining" in message for message in await shared_system.view.event_messages(pinned[0]))

    await eventually(refused, within_s=15)
    assert (await shared_system.view.placements(pinned))[pinned[0]] is None


@pytest.mark.system(operator=_HALF)
async def test_pods_are_scheduled_while_the_extender_is_down(shared_system: System) -> None:
    await eventually(lambda: _planned(shared_system, 6), within_s=30)
    shared_system.extender.kill()
    await shared_system.extender.wait(5)
    pods = await shared_system.view.create_pods(10, "orphan", cpu="1") + await shared_system.view.create_pods(
        5, "orphan-fast", cpu="1", workload_class="performance"
    )
    await _placed(shared_system, pods)


@pytest.mark.system(operator=_HALF)
async def test_a_node_affinity_keeps_pods_off_eco_nodes_while_the_extender_is_down(shared_system: System) -> None:
    await eventually(lambda: _planned(shared_system, 6), within_s=30)
    profiles = await shared_system.view.profiles()
    shared_system.extender.kill()
    await shared_system.extender.wait(5)
    pods = await shared_system.view.create_pods(30, "native", cpu="1", workload_class="performance", affinity=_NOT_ECO)
    placements = await _placed(shared_system, pods)
    assert {profiles[node] for node in placements.values()} == {"performance"}


@pytest.mark.parametrize("affinity", [None, _NOT_ECO], ids=["annotation", "affinity"])
@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0"})
async def test_waiting_performance_pods_are_placed_soon_after_nodes_are_no_longer_eco(
    shared_system: System, affinity
) -> None:
    """kube-scheduler tries a refused pod again when a node changes, and otherwise after five minutes."""
    await eventually(lambda: _planned(shared_system, 0), within_s=30)
    pods = await shared_system.view.create_pods(3, "waiting", cpu="1", workload_class="performance", affinity=affinity)

    async def refused() -> None:
        for pod in pods:
            assert any("0/12 nodes" in message for message in await shared_system.view.event_messages(pod))

    await eventually(refused, within_s=15)
    await shared_system.operator.restart({"STATIC_HP_FRAC": "0.5"})
    placements = await _placed(shared_system, pods)
    profiles = await shared_system.view.profiles()
    assert {profiles[node] for node in placements.values()} == {"performance"}


@pytest.mark.system(operator=_HALF)
async def test_an_extender_that_comes_back_steers_again(shared_system: System) -> None:
    await eventually(lambda: _planned(shared_system, 6), within_s=30)
    profiles = await shared_system.view.profiles()
    await shared_system.extender.restart()
    await shared_system.extender.wait_ready()
    pods = await shared_system.view.create_pods(30, "again", cpu="1", workload_class="performance")
    placements = await _placed(shared_system, pods)
    assert {profiles[node] for node in placements.values()} == {"performance"}

    async def stays() -> None:
        assert await shared_system.view.placed(pods) == placements

    await holds(stays, for_s=1)
