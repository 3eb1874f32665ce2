"""The operator's plan on a real API server: what each policy demands, how fast it follows, and how quiet it is."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.e2e.system import System
from tests.e2e.view import count, families
from tests.e2e.waiting import eventually, holds

from joulie_api.resources import NODE_HARDWARES, NODE_POWER_PROFILES, NODE_TWINS, NODES, TELEMETRY_PROFILES

pytestmark = pytest.mark.e2e

_NODES = 12
_FAMILIES = 5


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "0.5"})
async def test_static_partition_converges_with_a_performance_node_in_every_family(system: System) -> None:
    view = system.view

    async def converged() -> None:
        profiles = await view.profiles()
        assert count(profiles) == {"performance": 6, "eco": 6}
        family_of = families(await view.objects(NODES))
        served = {family_of[name] for name, profile in profiles.items() if profile == "performance"}
        assert len(served) == _FAMILIES
        for name, profile in profiles.items():
            target, twin = await view.target(name), await view.twin(name)
            assert (target["profile"], target["draining"]) == (profile, False)
            assert twin["schedulableClass"] == profile
            assert (await view.labels_of(name))["joulie.io/draining"] == "false"

    await eventually(converged, within_s=20)

    async def enforced() -> None:
        for name, profile in (await view.profiles()).items():
            await system.assert_caps(name, eco=profile == "eco")

    await eventually(enforced, within_s=20)


@pytest.mark.system(
    operator={"POLICY_TYPE": "queue_aware_v1", "QUEUE_HP_BASE_FRAC": "0.5", "QUEUE_PERF_PER_HP_NODE": "10"}
)
async def test_queue_aware_follows_the_demand_within_five_seconds(system: System) -> None:
    view = system.view

    async def performance_nodes(expected: int) -> None:
        assert count(await view.profiles())["performance"] == expected

    await eventually(lambda: performance_nodes(6), within_s=20)
    pods = await view.create_pods(81, "demand", cpu="100m", workload_class="performance")
    await eventually(lambda: performance_nodes(9), within_s=5)
    await view.delete_pods(pods)
    await eventually(lambda: performance_nodes(6), within_s=15)


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "TWIN_HEARTBEAT": "45s"})
@pytest.mark.timeout(240)
async def test_nothing_but_heartbeats_is_written_in_a_quiet_minute(system: System) -> None:
    await eventually(lambda: _settled(system), within_s=30)
    before, twins_before = await _writings(system), await system.writes()
    await asyncio.sleep(60)  # the quiet minute itself
    assert await _writings(system) == before
    written = {kind: total - twins_before.get(kind, 0) for kind, total in (await system.writes()).items()}
    # A twin is written at least every 45 s, and more often only when its numbers move.
    assert 0 < written.pop("NodeTwin") <= 2 * _NODES
    assert not any(written.values()), written


async def _settled(system: System) -> None:
    """Two readings two seconds apart are equal: the system has come to rest after its start."""
    before = await _writings(system)
    await asyncio.sleep(2)
    assert await _writings(system) == before


async def _writings(system: System) -> Mapping[Any, Any]:
    """What Joulie wrote, without the heartbeats of kubelets, KWOK and twins."""
    versions: dict[Any, Any] = await system.view.resource_versions([NODE_POWER_PROFILES, NODE_HARDWARES])
    for name, node in (await system.view.objects(NODES)).items():
        written = [
            entry["time"] for entry in node["metadata"]["managedFields"] if entry["manager"].startswith("joulie")
        ]
        versions["Node", name] = (written, node["metadata"]["labels"])
    return versions


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition"})
async def test_a_node_that_leaves_management_is_restored(system: System) -> None:
    view, node = system.view, "epyc-9654-3"

    async def capped() -> None:
        assert (await view.profiles()).get(node) == "eco"
        await system.assert_caps(node, eco=True)

    await eventually(capped, within_s=30)
    full_watts = (await system.hardware(node))["cpu"]["capRange"]["maxWattsPerSocket"]
    await view.label(node, {"joulie.io/managed": None})

    async def restored() -> None:
        marks = await view.labels_of(node)
        assert not {"joulie.io/power-profile", "joulie.io/draining"} & marks.keys()
        for resource in (NODE_POWER_PROFILES, NODE_TWINS, NODE_HARDWARES, TELEMETRY_PROFILES):
            assert node not in await view.objects(resource)
        assert (await view.simulated(node))["controls"]["capWatts"] == full_watts

    await eventually(restored, within_s=20)
    await holds(restored, for_s=2)
    await view.label(node, {"joulie.io/managed": "true"})
    await eventually(capped, within_s=30)
