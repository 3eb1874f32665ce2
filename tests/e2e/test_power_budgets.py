"""Power budgets in force on a real control plane: real operator and agents, and an observer that adds up the caps."""

import pytest
from tests.e2e.plugin import Plugin
from tests.e2e.power_observer import PowerObserver
from tests.e2e.power_row import MOST_W, has_condition, is_held, observed, put_tree, sees
from tests.e2e.system import SHORT_LEASE, System
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_POWER_BUDGETS, POWER_DOMAINS

pytestmark = pytest.mark.e2e


async def _limit(system: System, name: str, watts: int) -> None:
    await system.view.client.merge_patch(POWER_DOMAINS, name, {"spec": {"limitWatts": watts}})


@pytest.mark.system(
    operator={
        "POWER_DOMAINS": "Enforce",
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "1.0",
        **SHORT_LEASE,
    },
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_no_sum_of_caps_is_above_its_limit_while_limits_change_and_operators_end(system: System) -> None:
    async with observed(system) as observer:
        await eventually(lambda: sees(observer, MOST_W["row-1"]), within_s=60)
        await put_tree(system, 3_600)
        await eventually(lambda: is_held(system, observer, 3_600), within_s=60)
        await eventually(lambda: _has_more(observer, "row-1", 0.95 * 3_600), within_s=30)

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
        await eventually(lambda: has_condition(system, "rack-1", "Held", "True"), within_s=30)
        await _limit(system, "rack-2", 1_300)
        await eventually(lambda: _holds(observer, "rack-2", 1_300), within_s=40)
        observer.forget_of("rack-1", "rack-2")

        # A leader that is killed; what its successor may raise it raises.
        await system.operator.start()
        second.kill()
        await second.wait(5)
        await _limit(system, "rack-1", 1_700)
        await eventually(lambda: _has_more(observer, "rack-1", 1_400), within_s=60)
        await eventually(lambda: has_condition(system, "row-1", "Held", "True"), within_s=30)
        assert observer.largest["row-1"] <= 3_000
        assert observer.largest["rack-1"] <= 1_700
        assert observer.largest["rack-2"] <= 1_300

        await _is_shown(system)
        await _is_restored(system, observer)


async def _holds(observer: PowerObserver, domain: str, watts: float) -> None:
    assert observer.sums[domain] <= watts, observer.sums


async def _has_more(observer: PowerObserver, domain: str, watts: float) -> None:
    assert observer.sums[domain] > watts, observer.sums


async def _is_shown(system: System) -> None:
    plugin = Plugin(system.stack.cluster.kubeconfig)
    assert "Enforce" in await plugin.run("power")
    node = await plugin.run("power", "rack-1")
    assert "epyc-9654-0" in node
    metrics = await system.operator.metrics()
    assert 'joulie_operator_power_domain_limit_watts{domain="row-1"} 3000.0' in metrics


async def _is_restored(system: System, observer: PowerObserver) -> None:
    """The nodes are as before once one domain of the tree says Observe."""
    await system.view.client.merge_patch(POWER_DOMAINS, "rack-2", {"spec": {"mode": "Observe"}})

    await eventually(lambda: _is_lifted(system, observer), within_s=60)


@pytest.mark.system(
    operator={"POWER_DOMAINS": "Enforce", "POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"},
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_a_rack_whose_agent_is_away_keeps_its_limit_and_nobody_gets_its_watts(system: System) -> None:
    async with observed(system) as observer:
        await eventually(lambda: sees(observer, MOST_W["row-1"]), within_s=60)
        await put_tree(system, 3_600)
        await eventually(lambda: is_held(system, observer, 3_600), within_s=60)
        observer.forget_of("row-1")
        for agent in system.agents:
            agent.kill()
            await agent.wait(5)
        await _limit(system, "row-1", 3_000)
        # The operator asks, and no agent confirms: what was in force counts, and the status says so.
        await eventually(lambda: has_condition(system, "row-1", "Held", "False"), within_s=30)
        assert observer.largest["row-1"] <= 3_600
        for agent in system.agents:
            await agent.start()
        await eventually(lambda: is_held(system, observer, 3_000), within_s=60)
        assert observer.largest["row-1"] <= 3_600


@pytest.mark.system(
    operator={"POWER_DOMAINS": "Enforce", "POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"},
    agent={"RECONCILE_INTERVAL": "2s", "POWER_BUDGETS": "On"},
)
async def test_an_operator_with_power_domains_off_lifts_the_limits_of_an_earlier_one(system: System) -> None:
    async with observed(system) as observer:
        await eventually(lambda: sees(observer, MOST_W["row-1"]), within_s=60)
        await put_tree(system, 3_600)
        await eventually(lambda: is_held(system, observer, 3_600), within_s=60)
        # The agents would keep their limits, and the domains still say Enforce.
        await system.operator.restart({"POWER_DOMAINS": "Off"})
        await eventually(lambda: _is_lifted(system, observer), within_s=60)
        assert "limits of nodes withdrawn" in system.operator.log_of_run()


async def _is_lifted(system: System, observer: PowerObserver) -> None:
    assert not await system.view.objects(NODE_POWER_BUDGETS)
    assert observer.sums["row-1"] == pytest.approx(MOST_W["row-1"]), observer.sums
