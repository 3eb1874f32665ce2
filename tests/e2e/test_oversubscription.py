"""Oversubscription on a real control plane: real operator and agents, and an observer of the simulated hardware.

The observer adds up caps and power, and knows nothing of samples, fallbacks and breakers.
"""

import asyncio
from typing import Any, Final

import pytest
from tests.e2e.power_observer import PowerObserver, observing
from tests.e2e.power_row import domain_status, has_condition
from tests.e2e.system import System
from tests.e2e.waiting import eventually, holds

from joulie_api.resources import NODE_POWER_BUDGETS, POWER_DOMAINS
from joulie_core.labels import HW_GPU_COUNT, RACK
from joulie_devcluster.binaries.modules import Binary
from joulie_sim.annotations import CPU_UTILIZATION

pytestmark = pytest.mark.e2e

_RACK: Final = "rack"
#: Two packages of 360 W, and 384 hardware threads, in each.
_NODES: Final = tuple(f"epyc-9654-{number}" for number in range(4))
_CPUS: Final = 384
_LIMIT_W, _NODE_W = 1_600, 720
#: Samples are taken every two seconds, and one holds for four.
_REACTION_S, _SAMPLE_S, _HOLD_S = 10, 2, 4
#: That programs and this machine take.
_PROGRAMS_S: Final = 4.0
_SPEC: Final[dict[str, Any]] = {
    "mode": "Enforce",
    "onLostControl": "KeepGuaranteed",
    "nodeSelector": {RACK: _RACK},
    "limitWatts": _LIMIT_W,
    "oversubscription": {
        "breaker": [{"loadPercent": 113, "seconds": 3_600}, {"loadPercent": 180, "seconds": 200}],
        "coolingSeconds": 10,
        "reactionSeconds": _REACTION_S,
    },
}


@pytest.mark.system(
    operator={
        "POWER_DOMAINS": "Enforce",
        "POWER_OVERSUBSCRIPTION": "On",
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "1.0",
    },
    agent={"RECONCILE_INTERVAL": "20s", "POWER_BUDGETS": "On"},
)
async def test_an_overload_ends_in_time_whoever_is_alive(system: System) -> None:
    async with observing(system.view.sim_url, {_RACK: _NODES}) as observer:
        await eventually(lambda: _caps(observer, at_least=4 * _NODE_W), within_s=60)
        for node in _NODES:
            # That there are no GPUs has to be stated where no agent reads it.
            await system.view.label(node, {HW_GPU_COUNT: "0", RACK: _RACK})
        body = {"apiVersion": POWER_DOMAINS.api_version, "kind": "PowerDomain", "metadata": {"name": _RACK}}
        await system.view.client.create(POWER_DOMAINS, {**body, "spec": _SPEC})
        await eventually(lambda: _caps(observer, at_most=_LIMIT_W), within_s=60)
        await _is_raised(system, observer)
        await holds(lambda: _caps(observer, at_least=1.2 * _LIMIT_W), for_s=3 * _HOLD_S)
        await _is_withdrawn_when_more_is_drawn(system, observer)
        await _is_raised(system, observer)
        await _falls_back_without_an_operator(system, observer)
        await _is_raised(system, observer)
        await _falls_back_without_an_api_server(system, observer)


async def _caps(observer: PowerObserver, at_least: float = 0.0, at_most: float = float("inf")) -> None:
    assert at_least <= observer.sums.get(_RACK, float("nan")) <= at_most + 0.01, observer.sums


async def _is_raised(system: System, observer: PowerObserver) -> None:
    async def raised() -> None:
        status = await domain_status(system, _RACK)
        assert status.get("oversubscription", {}).get("raised"), status
        await _caps(observer, at_least=1.2 * _LIMIT_W)

    took_s = await eventually(raised, within_s=120)
    print(f"raised after {took_s:.1f} s: caps of {observer.sums[_RACK]:.0f} W")
    await has_condition(system, _RACK, "Held", "True")
    status = await domain_status(system, _RACK)
    assert status["oversubscription"]["fallbackWatts"] <= _LIMIT_W


async def _is_withdrawn_when_more_is_drawn(system: System, observer: PowerObserver) -> None:
    jobs = []
    for number, node in enumerate(_NODES):
        jobs += await system.view.create_pods(
            1,
            f"job-{number}",
            cpu=_CPUS,
            node_selector={"kubernetes.io/hostname": node},
            annotations={CPU_UTILIZATION: "1"},
        )

    async def above() -> None:
        assert observer.last.drawn_w[_RACK] > _LIMIT_W, observer.last.drawn_w

    await eventually(above, within_s=60)
    begun_s = next(each.at_s for each in observer.samples if each.drawn_w[_RACK] > _LIMIT_W)
    await eventually(lambda: _caps(observer, at_most=_LIMIT_W), within_s=60)
    ended_s = asyncio.get_running_loop().time()
    most_w = max(each.drawn_w[_RACK] for each in observer.samples if each.at_s >= begun_s)
    print(f"overload of up to {most_w:.0f} W ended after {ended_s - begun_s:.1f} s")
    assert ended_s - begun_s <= _REACTION_S + _SAMPLE_S + _PROGRAMS_S
    await holds(lambda: _caps(observer, at_most=_LIMIT_W), for_s=2 * _HOLD_S)
    assert observer.last.drawn_w[_RACK] <= _LIMIT_W
    await system.view.delete_pods(jobs)


async def _falls_back_without_an_operator(system: System, observer: PowerObserver) -> None:
    system.operator.pause()
    took_s = await eventually(lambda: _caps(observer, at_most=_LIMIT_W), within_s=60)
    print(f"at the fallbacks {took_s:.1f} s after the operator stopped")
    assert took_s <= _HOLD_S + _SAMPLE_S + _PROGRAMS_S

    async def told() -> None:
        for name, each in (await system.view.objects(NODE_POWER_BUDGETS)).items():
            spec, status = each["spec"], each["status"]
            assert status["oversubscription"]["fallingBack"], status
            assert status["inForceWatts"] >= spec["limitWatts"] > spec["oversubscription"]["fallbackWatts"], name
            caps_w = (await system.view.simulated(name))["capWatts"]
            assert caps_w <= spec["oversubscription"]["fallbackWatts"] + 0.01, name

    await eventually(told, within_s=10)
    system.operator.resume()


async def _falls_back_without_an_api_server(system: System, observer: PowerObserver) -> None:
    api = system.stack.cluster.processes[Binary.APISERVER]
    api.pause()  # it takes connections, and answers nothing
    try:
        took_s = await eventually(lambda: _caps(observer, at_most=_LIMIT_W), within_s=60)
    finally:
        api.resume()
    print(f"at the fallbacks {took_s:.1f} s after the API server stopped to answer")
    assert took_s <= _HOLD_S + _SAMPLE_S + _PROGRAMS_S
