"""A performance pod on a node planned eco: the node drains, and no running performance pod is ever throttled."""

import pytest
from tests.e2e.system import System
from tests.e2e.waiting import eventually, holds

pytestmark = pytest.mark.e2e

_ALL_PERFORMANCE = {"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"}
_HALF = {"STATIC_HP_FRAC": "0.5"}
#: The least dense node of its family: it is eco whenever half of the nodes are.
_NODE = "xeon-8480-2"


async def _place_performance_pod(system: System, name: str) -> None:
    pods = await system.view.create_pods(
        1, name, cpu="4", workload_class="performance", node_selector={"kubernetes.io/hostname": _NODE}
    )
    await eventually(lambda: system.view.placed(pods), within_s=15)


async def _is(system: System, *, profile: str, draining: bool, schedulable: str, cap_share: float) -> None:
    view = system.view
    marks, target, twin = await view.labels_of(_NODE), await view.target(_NODE), await view.twin(_NODE)
    assert (marks.get("joulie.io/power-profile"), marks.get("joulie.io/draining")) == (profile, str(draining).lower())
    assert (target["profile"], target["draining"]) == (profile, draining)
    assert twin["schedulableClass"] == schedulable
    assert target["cpu"]["packagePowerCapPctOfMax"] == 100 * cap_share
    await _capped_at(system, cap_share)


async def _capped_at(system: System, share: float) -> None:
    limit = (await system.hardware(_NODE))["cpu"]["capRange"]["maxWattsPerSocket"]
    assert (await system.view.simulated(_NODE))["controls"]["capWatts"] == pytest.approx(share * limit)


@pytest.mark.system(operator=_ALL_PERFORMANCE)
async def test_a_node_with_a_performance_pod_drains_before_it_is_capped(shared_system: System) -> None:
    async def performance() -> None:
        await _is(shared_system, profile="performance", draining=False, schedulable="performance", cap_share=1.0)

    async def draining() -> None:
        await _is(shared_system, profile="eco", draining=True, schedulable="draining", cap_share=1.0)

    async def eco() -> None:
        await _is(shared_system, profile="eco", draining=False, schedulable="eco", cap_share=0.6)

    await eventually(performance, within_s=30)
    await _place_performance_pod(shared_system, "holder")

    await shared_system.operator.restart(_HALF)
    await eventually(draining, within_s=20)
    await holds(draining, for_s=5)

    await shared_system.view.delete_pods(["holder-0"])
    await eventually(eco, within_s=10)

    await shared_system.operator.restart(_ALL_PERFORMANCE)
    await eventually(performance, within_s=20)


@pytest.mark.system(operator=_ALL_PERFORMANCE)
async def test_planning_performance_again_clears_the_draining(shared_system: System) -> None:
    async def performance() -> None:
        await _is(shared_system, profile="performance", draining=False, schedulable="performance", cap_share=1.0)

    async def draining() -> None:
        await _is(shared_system, profile="eco", draining=True, schedulable="draining", cap_share=1.0)

    await eventually(performance, within_s=30)
    await _place_performance_pod(shared_system, "stayer")
    await shared_system.operator.restart(_HALF)
    await eventually(draining, within_s=20)
    await shared_system.operator.restart(_ALL_PERFORMANCE)
    await eventually(performance, within_s=20)
    assert (await shared_system.view.pods())["stayer-0"]["status"]["phase"] == "Running"


@pytest.mark.system(operator=_ALL_PERFORMANCE)
async def test_an_operator_killed_while_a_node_drains_forgets_nothing(system: System) -> None:
    async def draining() -> None:
        await _is(system, profile="eco", draining=True, schedulable="draining", cap_share=1.0)

    async def never_capped() -> None:
        await _capped_at(system, 1.0)

    await eventually(never_capped, within_s=30)
    await _place_performance_pod(system, "witness")
    await system.operator.restart(_HALF)
    await eventually(draining, within_s=20)
    for _ in range(3):
        system.operator.kill()
        await system.operator.wait(5)
        await system.operator.start()
        await holds(never_capped, for_s=3)
    # A killed leader's lease must run out first.
    await eventually(draining, within_s=30)
    await system.view.delete_pods(["witness-0"])

    async def eco() -> None:
        await _is(system, profile="eco", draining=False, schedulable="eco", cap_share=0.6)

    await eventually(eco, within_s=30)
