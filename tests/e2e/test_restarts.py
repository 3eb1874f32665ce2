"""Any service may be killed at any moment: the system comes back to the same state."""

import random
from typing import Any

import pytest
from tests.e2e.system import System
from tests.e2e.waiting import eventually

pytestmark = pytest.mark.e2e

#: A performance node: without it, others of its family have to supply performance.
_SWING = "epyc-9654-0"


async def _state(system: System) -> dict[str, Any]:
    """What the system has decided and enforced, node by node."""
    view, found = system.view, {}
    for name, profile in (await view.profiles()).items():
        target = await view.target(name)
        found[name] = {
            "profile": profile,
            "draining": (await view.labels_of(name))["joulie.io/draining"],
            "target": {key: target.get(key) for key in ("profile", "draining", "cpu", "gpu")},
            "class": (await view.twin(name))["schedulableClass"],
            "caps": (await view.simulated(name))["controls"],
        }
    return found


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"})
@pytest.mark.timeout(420)
async def test_killing_any_service_at_any_moment_converges_to_the_same_state(system: System) -> None:
    view = system.view

    async def all_up() -> None:
        assert len(await view.profiles()) == 12

    await eventually(all_up, within_s=30)
    holders = await view.create_pods(
        2, "holder", cpu="4", workload_class="performance", node_selector={"kubernetes.io/hostname": "xeon-8480-2"}
    )
    await eventually(lambda: view.placed(holders), within_s=20)
    await system.operator.restart({"STATIC_HP_FRAC": "0.5"})

    async def at_rest() -> None:
        state = await _state(system)
        assert len(state) == 12
        assert state["xeon-8480-2"]["draining"] == "true"
        assert state[_SWING]["profile"] == "performance"
        assert sum(node["profile"] == "performance" for node in state.values()) == 6
        for name, node in state.items():
            eco = node["profile"] == "eco" and node["draining"] == "false"
            await system.assert_caps(name, eco=eco)

    await eventually(at_rest, within_s=40)
    expected = await _state(system)

    dice = random.Random(20)
    for process in [system.operator, *system.agents, system.extender, system.operator, system.agents[0]]:
        # A node is taken out of the plan and put back, so that the plan is in motion while the process dies.
        await view.label(_SWING, {"joulie.io/reserved": "true"})
        await system.wait_random(dice, up_to_s=2.5)
        process.kill()
        await process.wait(5)
        await view.label(_SWING, {"joulie.io/reserved": None})
        await system.wait_random(dice, up_to_s=1.0)
        await process.start()

    async def converged() -> None:
        assert await _state(system) == expected

    await eventually(converged, within_s=60)

    await view.delete_pods(holders)

    async def drained() -> None:
        state = (await _state(system))["xeon-8480-2"]
        assert (state["draining"], state["class"]) == ("false", "eco")
        await system.assert_caps("xeon-8480-2", eco=True)

    await eventually(drained, within_s=20)
