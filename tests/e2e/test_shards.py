"""Two agents share the nodes by a hash of the name; the end of one leaves the nodes of the other alone."""

import asyncio

import pytest
from tests.e2e.system import System
from tests.e2e.waiting import eventually, holds

pytestmark = pytest.mark.e2e


@pytest.mark.system(operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"})
async def test_the_death_of_a_shard_leaves_the_nodes_of_the_other_in_hand(system: System) -> None:
    first, second = system.agents

    async def owned() -> None:
        halves = await system.nodes_of(first), await system.nodes_of(second)
        assert not halves[0] & halves[1]
        assert halves[0] | halves[1] == set(await system.view.profiles())
        assert len(halves[0] | halves[1]) == 12
        assert all(halves)

    await eventually(owned, within_s=30)
    orphaned, held = await system.nodes_of(first), await system.nodes_of(second)
    before = await _caps(system, orphaned)
    first.kill()
    await first.wait(5)

    await system.operator.restart({"STATIC_HP_FRAC": "0"})

    async def capped() -> None:
        for name, share in (await _cap_shares(system, held)).items():
            assert share == pytest.approx(0.6), name

    await eventually(capped, within_s=40)
    assert await system.nodes_of(second) == held

    async def untouched() -> None:
        assert await _caps(system, orphaned) == before

    await holds(untouched, for_s=3)

    await first.start()

    async def all_capped() -> None:
        assert all(share == pytest.approx(0.6) for share in (await _cap_shares(system, held | orphaned)).values())

    await eventually(all_capped, within_s=30)


async def _caps(system: System, nodes: set[str]) -> dict[str, object]:
    states = await asyncio.gather(*(system.view.simulated(name) for name in sorted(nodes)))
    return {name: state["controls"] for name, state in zip(sorted(nodes), states, strict=True)}


async def _cap_shares(system: System, nodes: set[str]) -> dict[str, float]:
    """The cap of what each node is capped at, the GPUs or else the CPU packages, as a share of the maximum."""
    shares = {}
    for name in nodes:
        hardware, controls = await system.hardware(name), (await system.view.simulated(name))["controls"]
        if "capWattsPerGpu" in controls:
            shares[name] = controls["capWattsPerGpu"] / hardware["gpu"]["capRangePerGpu"]["maxWatts"]
        else:
            shares[name] = controls["capWatts"] / hardware["cpu"]["capRange"]["maxWattsPerSocket"]
    return shares
