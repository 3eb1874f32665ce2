"""Power budgets in force on a real control plane: real operator and agents, an observer that adds up the caps itself.

The observer reads the caps of all nodes from the simulator, twenty times a second, and nothing that Joulie says.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from tests.e2e.plugin import Plugin
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_POWER_BUDGETS, POWER_DOMAINS
from joulie_core.labels import HW_GPU_COUNT, RACK

pytestmark = pytest.mark.e2e

#: Two packages of 360 W, and two of 350 W, in each node: 4,980 W in all.
_RACKS = {
    "rack-1": tuple(f"epyc-9654-{number}" for number in range(4)),
    "rack-2": tuple(f"xeon-8480-{number}" for number in range(3)),
}
_MOST_W = {"row-1": 4980.0, "rack-1": 2880.0, "rack-2": 2100.0}
_OBSERVED_EVERY_S = 0.05


class Observer:
    """The sums of the caps in force, and the largest of each domain since its limit was last changed."""

    def __init__(self, sim_url: str) -> None:
        self._url = f"{sim_url}/state"
        self.sums: dict[str, float] = {}
        self.largest: dict[str, float] = {}

    async def run(self) -> None:
        """Observe until cancelled."""
        async with aiohttp.ClientSession() as session:
            while True:
                async with session.get(self._url) as answer:
                    nodes = (await answer.json())["nodes"]
                sums = {rack: sum(nodes[name]["capWatts"] for name in names) for rack, names in _RACKS.items()}
                self.sums = {**sums, "row-1": sum(sums.values())}
                for name, watts in self.sums.items():
                    self.largest[name] = max(self.largest.get(name, 0.0), watts)
                await asyncio.sleep(_OBSERVED_EVERY_S)

    def forget_of(self, *domains: str) -> None:
        """Begin a new period for domains."""
        self.largest |= {name: self.sums[name] for name in domains}


@contextlib.asynccontextmanager
async def _observed(system: System) -> AsyncIterator[Observer]:
    observer = Observer(system.view.sim_url)
    task = asyncio.create_task(observer.run())
    try:
        yield observer
        assert not task.done(), "the observer has ended"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _put_tree(system: System, row_watts: int) -> None:
    for node in (name for names in _RACKS.values() for name in names):
        # That there are no GPUs has to be stated where no agent reads it.
        await system.view.label(node, {HW_GPU_COUNT: "0"})
    for rack, names in _RACKS.items():
        for node in names:
            await system.view.label(node, {RACK: rack})
    row: dict[str, Any] = {"limitWatts": row_watts}
    racks = {rack: {"parent": "row-1", "nodeSelector": {RACK: rack}, "limitWatts": 2_500} for rack in _RACKS}
    for name, spec in ({"row-1": row} | racks).items():
        fields = {"mode": "Enforce", "onLostControl": "KeepGuaranteed", **spec}
        body = {"apiVersion": POWER_DOMAINS.api_version, "kind": "PowerDomain", "metadata": {"name": name}}
        await system.view.client.create(POWER_DOMAINS, {**body, "spec": fields})


async def _limit(system: System, name: str, watts: int) -> None:
    await system.view.client.merge_patch(POWER_DOMAINS, name, {"spec": {"limitWatts": watts}})


async def _status(system: System, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await system.view.client.get(POWER_DOMAINS, name)).get("status", {})
    return found


async def _is(system: System, name: str, kind: str, status: str) -> None:
    found = {each["type"]: each for each in (await _status(system, name)).get("conditions", ())}
    assert found.get(kind, {}).get("status") == status, found


async def _is_held(system: System, observer: Observer, watts: float) -> None:
    assert observer.sums["row-1"] <= watts, (observer.sums, await _status(system, "row-1"))
    await _is(system, "row-1", "Held", "True")
    await _is(system, "row-1", "Enforced", "True")


@pytest.mark.system(
    operator={
        "POWER_DOMAINS": "Enforce",
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "1.0",
        "LEASE_DURATION": "8s",
        "LEASE_RENEW_DEADLINE": "6s",
        "LEASE_RETRY_PERIOD": "500ms",
    },
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_no_sum_of_caps_is_above_its_limit_while_limits_change_and_operators_end(system: System) -> None:
    async with _observed(system) as observer:
        await eventually(lambda: _sees(observer, _MOST_W["row-1"]), within_s=60)
        await _put_tree(system, 3_600)
        await eventually(lambda: _is_held(system, observer, 3_600), within_s=60)
        assert observer.sums["row-1"] > 0.95 * 3_600, "the row's limit is not used"

        await _limit(system, "row-1", 3_000)
        await eventually(lambda: _holds(observer, "row-1", 3_000), within_s=20)
        observer.forget_of("row-1")

        # A leader that is stopped, and goes on beside its successor.
        second = await system.start_second_operator()
        system.operator.pause()
        await _limit(system, "rack-1", 1_400)
        await eventually(lambda: _holds(observer, "rack-1", 1_400), within_s=40)
        system.operator.resume()
        await system.operator.wait(30)
        await eventually(lambda: _is(system, "rack-1", "Held", "True"), within_s=30)
        await _limit(system, "rack-2", 1_300)
        await eventually(lambda: _holds(observer, "rack-2", 1_300), within_s=40)
        observer.forget_of("rack-1", "rack-2")

        # A leader that is killed; what its successor may raise it raises.
        await system.operator.start()
        second.kill()
        await second.wait(5)
        await _limit(system, "rack-1", 1_700)
        await eventually(lambda: _has_more(observer, "rack-1", 1_400), within_s=60)
        await eventually(lambda: _is(system, "row-1", "Held", "True"), within_s=30)
        assert observer.largest["row-1"] <= 3_000
        assert observer.largest["rack-1"] <= 1_700
        assert observer.largest["rack-2"] <= 1_300

        await _is_shown(system)
        await _is_restored(system, observer)


async def _sees(observer: Observer, watts: float) -> None:
    assert observer.sums.get("row-1") == pytest.approx(watts), observer.sums


async def _holds(observer: Observer, domain: str, watts: float) -> None:
    assert observer.sums[domain] <= watts, observer.sums


async def _has_more(observer: Observer, domain: str, watts: float) -> None:
    assert observer.sums[domain] > watts, observer.sums


async def _is_shown(system: System) -> None:
    plugin = Plugin(system.stack.cluster.kubeconfig)
    assert "Enforce" in await plugin.run("power")
    node = await plugin.run("power", "rack-1")
    assert "epyc-9654-0" in node
    metrics = await system.operator.metrics()
    assert 'joulie_operator_power_domain_limit_watts{domain="row-1"} 3000.0' in metrics


async def _is_restored(system: System, observer: Observer) -> None:
    """The nodes are as before once one domain of the tree says Observe."""
    await system.view.client.merge_patch(POWER_DOMAINS, "rack-2", {"spec": {"mode": "Observe"}})

    async def restored() -> None:
        assert not await system.view.objects(NODE_POWER_BUDGETS)
        assert observer.sums["row-1"] == pytest.approx(_MOST_W["row-1"]), observer.sums

    await eventually(restored, within_s=60)


@pytest.mark.system(
    operator={"POWER_DOMAINS": "Enforce", "POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"},
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_a_rack_whose_agent_is_away_keeps_its_limit_and_nobody_gets_its_watts(system: System) -> None:
    async with _observed(system) as observer:
        await eventually(lambda: _sees(observer, _MOST_W["row-1"]), within_s=60)
        await _put_tree(system, 3_600)
        await eventually(lambda: _is_held(system, observer, 3_600), within_s=60)
        observer.forget_of("row-1")
        for agent in system.agents:
            agent.kill()
            await agent.wait(5)
        await _limit(system, "row-1", 3_000)
        # The operator asks, and no agent confirms: what was in force counts, and the status says so.
        await eventually(lambda: _is(system, "row-1", "Held", "False"), within_s=30)
        assert observer.largest["row-1"] <= 3_600
        for agent in system.agents:
            await agent.start()
        await eventually(lambda: _is_held(system, observer, 3_000), within_s=60)
        assert observer.largest["row-1"] <= 3_600
