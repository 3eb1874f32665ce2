"""Presets on a real control plane: where kube-scheduler places pods, and a change of the preset of a running system."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.e2e.extender_client import scoring
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually

from joulie_api.presets import PRESETS, PresetName

pytestmark = pytest.mark.e2e

_NODES = 12
_ECO = {PresetName.SCORE: 0, PresetName.SLEEP: 0, PresetName.DOCUMENTS: 6}
#: Variables that some preset has; an empty one is unset.
_UNSET = {
    service: {name: "" for preset in PRESETS.values() for name in getattr(preset, service)}
    for service in ("operator", "extender")
}


def _env(name: PresetName, service: str) -> dict[str, str]:
    """Return the variables of a service, also those that a change from another preset takes away."""
    preset = PRESETS[name]
    sleep = {"SLEEP_ENABLED": str(preset.sleeps).lower()} if service == "operator" else {}
    return {**_UNSET[service], **getattr(preset, service), **sleep}


def _system(name: PresetName) -> pytest.MarkDecorator:
    return pytest.mark.system(operator=_env(name, "operator"), extender=_env(name, "extender"))


async def _at_rest(system: System, name: PresetName) -> None:
    """Nodes have the profiles of a preset, and the caps of their profiles are in force, and no others."""
    profiles = await system.view.profiles()
    assert count(profiles) == +Counter(performance=_NODES - _ECO[name], eco=_ECO[name])
    for node, profile in profiles.items():
        assert (await system.view.twin(node))["schedulableClass"] == profile
        await system.assert_caps(node, eco=profile == "eco")
        assert not (await system.view.simulated(node))["controls"]["throttlePct"], node


async def _measured(system: System) -> None:
    """The extender has measurements of all nodes, and no trend that tells nodes apart."""
    found = await scoring(system.stack.extender_url)
    assert len(found) == _NODES
    for name, node in found.items():
        assert not node["stale"], (name, node)
        assert node["measuredPowerW"] is not None, (name, node)
        assert abs(node["powerTrendWPerMin"]) < 6, (name, node)


async def _burst(system: System, name: PresetName) -> dict[str, dict[str, str]]:
    """Return the nodes of the pods of a burst, by class and pod."""
    await eventually(lambda: _at_rest(system, name), within_s=60)
    await eventually(lambda: _measured(system), within_s=90)
    standard, performance = await asyncio.gather(
        system.view.create_pods(30, "standard", cpu="1"),
        system.view.create_pods(10, "performance", cpu="1", workload_class="performance"),
    )
    await eventually(lambda: system.view.placed([*standard, *performance]), within_s=60)
    return {
        "standard": dict(await system.view.placed(standard)),
        "performance": dict(await system.view.placed(performance)),
    }


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=_system(name)) for name in PresetName if not _ECO[name]], ids=str
)
async def test_pods_of_a_burst_keep_few_nodes_busy_where_no_node_is_eco(system: System, name: PresetName):
    placements = await _burst(system, name)
    used = Counter(node for nodes in placements.values() for node in nodes.values())
    assert count(await system.view.profiles()) == Counter(performance=_NODES)
    # kube-scheduler alone spreads forty pods over all twelve nodes.
    assert len(used) <= 3, used


@pytest.mark.timeout(400)
@_system(PresetName.DOCUMENTS)
async def test_standard_pods_of_a_burst_go_to_eco_nodes_and_performance_pods_to_none_with_the_documents(system: System):
    placements = await _burst(system, PresetName.DOCUMENTS)
    profiles = await system.view.profiles()
    landed = {each: Counter(profiles[node] for node in nodes.values()) for each, nodes in placements.items()}
    assert landed["performance"] == Counter(performance=10)
    assert landed["standard"]["eco"] > 0.8 * landed["standard"].total(), landed


@pytest.mark.timeout(400)
@_system(PresetName.DOCUMENTS)
async def test_a_change_of_the_preset_disturbs_no_pod_and_leaves_no_cap_that_is_not_its_own(system: System):
    await eventually(lambda: _at_rest(system, PresetName.DOCUMENTS), within_s=60)
    names = await system.view.create_pods(20, "standard", cpu="1")
    names += await system.view.create_pods(6, "performance", cpu="1", workload_class="performance")
    await eventually(lambda: _running(system, names), within_s=60)
    before = await _running(system, names)
    for name in (PresetName.SCORE, PresetName.DOCUMENTS):
        await system.operator.restart(_env(name, "operator"))
        await system.extender.restart(_env(name, "extender"))
        await system.extender.wait_ready()
        await eventually(lambda name=name: _at_rest(system, name), within_s=90)
        assert await _running(system, names) == before


async def _running(system: System, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return identity, node, start and restarts of the pods; raise AssertionError unless all run."""
    found = {}
    for name, pod in (await system.view.pods()).items():
        if name not in names:
            continue
        status = pod["status"]
        assert status.get("phase") == "Running", (name, status)
        assert "deletionTimestamp" not in pod["metadata"], name
        found[name] = {
            "uid": pod["metadata"]["uid"],
            "node": pod["spec"]["nodeName"],
            "started": status.get("startTime"),
            "restarts": [each["restartCount"] for each in status.get("containerStatuses", ())],
        }
    assert len(found) == len(names)
    return found
