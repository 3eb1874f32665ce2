"""Two operators, one leader: the other takes over, and one that was paused writes nothing when it wakes."""

import json

import pytest
from tests.e2e.system import System
from tests.e2e.view import count
from tests.e2e.waiting import eventually, holds, settled

from joulie_api.resources import LEASES, NODE_POWER_PROFILES

pytestmark = pytest.mark.e2e

_DEMAND = {"POLICY_TYPE": "queue_aware_v1", "QUEUE_HP_BASE_FRAC": "0.5", "QUEUE_PERF_PER_HP_NODE": "1"}


async def _holder(system: System) -> str:
    lease = json.loads(await system.view.client.get(LEASES, "joulie-operator", "joulie-system"))
    return lease["spec"].get("holderIdentity", "")


async def _performance_nodes(system: System, expected: int) -> None:
    assert count(await system.view.profiles())["performance"] == expected


@pytest.mark.system(operator=_DEMAND)
async def test_a_second_operator_takes_over_from_a_killed_one(system: System) -> None:
    await eventually(lambda: _performance_nodes(system, 6), within_s=30)
    leader = await _holder(system)
    await system.start_second_operator()
    assert await _holder(system) == leader
    system.operator.kill()
    await system.operator.wait(5)
    await system.view.create_pods(8, "after", cpu="100m", workload_class="performance")
    took_s = await eventually(lambda: _performance_nodes(system, 8), within_s=20)
    assert took_s <= 20
    assert await _holder(system) != leader


@pytest.mark.system(operator=_DEMAND)
async def test_a_paused_operator_is_replaced_and_writes_nothing_when_it_wakes(system: System) -> None:
    await eventually(lambda: _performance_nodes(system, 6), within_s=30)
    await system.start_second_operator()
    system.operator.pause()
    pods = await system.view.create_pods(9, "while", cpu="100m", workload_class="performance")
    await eventually(lambda: _performance_nodes(system, 9), within_s=20)
    await system.view.delete_pods(pods)
    await eventually(lambda: _performance_nodes(system, 6), within_s=30)

    # What the agents report of it comes later.
    before = await settled(lambda: system.view.resource_versions([NODE_POWER_PROFILES]), for_s=2, within_s=30)
    labels = await system.view.profiles()
    system.operator.resume()

    async def untouched() -> None:
        assert await system.view.resource_versions([NODE_POWER_PROFILES]) == before
        assert await system.view.profiles() == labels

    await holds(untouched, for_s=5)
    assert await system.operator.wait(10) != 0
    assert "leadership" in system.operator.log_of_run()
