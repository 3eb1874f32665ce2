"""Oversubscribed limits on a real API server: real agents, and a client that writes the specs as an operator does.

An observer of the simulated hardware adds up caps and power, and knows nothing of samples.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from tests.e2e.power_observer import PowerObserver, observing
from tests.e2e.system import System
from tests.e2e.waiting import eventually, holds

from joulie_api.resources import NODE_POWER_BUDGETS
from joulie_core.labels import HW_GPU_COUNT
from joulie_devcluster.binaries.modules import Binary
from joulie_sim.annotations import CPU_UTILIZATION

pytestmark = pytest.mark.e2e

_RACK: Final = "rack"
#: Two packages of 360 W, and 384 hardware threads, in each.
_NODES: Final = tuple(f"epyc-9654-{number}" for number in range(4))
_CPUS: Final = 384
#: Of the rack, and of each node.
_BREAKER_W, _MOST_W, _LIMIT_W, _FALLBACK_W = 1_600, 720, 600, 400
_SAMPLE_S, _HOLD_S = 2, 4
#: That a pass, a backend and this machine take.
_PROGRAMS_S: Final = 3.0


class Naming:
    """Names the samples of all nodes while they draw less than the breaker of their rack carries."""

    def __init__(self, system: System) -> None:
        self._client = system.view.client
        self._view = system.view
        self.withdrawn = asyncio.Event()

    async def put(self) -> None:
        """Ask each node for its limit, with no sample named."""
        for node in _NODES:
            spec = {
                "nodeName": node,
                "nodeUID": "u",
                "bootID": "b",
                "term": 1,
                "sequence": 1,
                "renewal": 1,
                "limitWatts": _LIMIT_W,
                "onLostControl": "KeepGuaranteed",
                "leaseSeconds": 300,
                "oversubscription": {
                    "fallbackWatts": _FALLBACK_W,
                    "sampleSeconds": _SAMPLE_S,
                    "holdSeconds": _HOLD_S,
                },
            }
            body = {"apiVersion": NODE_POWER_BUDGETS.api_version, "kind": NODE_POWER_BUDGETS.kind}
            await self._client.create(NODE_POWER_BUDGETS, {**body, "metadata": {"name": node}, "spec": spec})

    async def told(self) -> dict[str, dict[str, Any]]:
        """Return `status` of each node, which may be empty."""
        return {name: each.get("status", {}) for name, each in (await self._view.objects(NODE_POWER_BUDGETS)).items()}

    async def run(self) -> None:
        """Name each new sample, until the sum of what is drawn is above the breaker, or until cancelled."""
        named: dict[str, int] = {}
        while True:
            samples = {name: each.get("oversubscription", {}) for name, each in (await self.told()).items()}
            drawn = [each.get("drawnWatts") for each in samples.values()]
            if None not in drawn and sum(drawn) > _BREAKER_W:
                self.withdrawn.set()
                return
            for name, sample in samples.items():
                if "drawnWatts" in sample and named.get(name) != sample["sample"]:
                    named[name] = sample["sample"]
                    spec = {"renewal": 1 + len(named), "oversubscription": {"sample": sample["sample"]}}
                    await self._client.merge_patch(NODE_POWER_BUDGETS, name, {"spec": spec})
            await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Name samples while the block runs."""
        self.withdrawn.clear()
        task = asyncio.create_task(self.run())
        try:
            yield
            assert not task.done() or self.withdrawn.is_set(), task.exception()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _holds_caps(observer: PowerObserver, watts: float) -> None:
    assert observer.sums.get(_RACK) == pytest.approx(watts * len(_NODES)), observer.sums


async def _until_fallen_back(observer: PowerObserver) -> float:
    return await eventually(lambda: _holds_caps(observer, _FALLBACK_W), within_s=30)


async def _fill(system: System) -> list[str]:
    """Keep every CPU busy, which draws the limits of the nodes."""
    found = []
    for number, node in enumerate(_NODES):
        found += await system.view.create_pods(
            1,
            f"job-{number}",
            cpu=_CPUS,
            node_selector={"kubernetes.io/hostname": node},
            annotations={CPU_UTILIZATION: "1"},
        )
    return found


@pytest.mark.system(
    operator={"POLICY_TYPE": "static_partition", "STATIC_HP_FRAC": "1.0"},
    agent={"RECONCILE_INTERVAL": "1m", "POWER_BUDGETS": "On"},
)
async def test_nodes_fall_back_in_time_whoever_is_alive(system: System) -> None:
    for node in _NODES:
        # That there are no GPUs has to be stated where no agent reads it.
        await system.view.label(node, {HW_GPU_COUNT: "0"})
    naming = Naming(system)
    async with observing(system.view.sim_url, {_RACK: _NODES}) as observer:
        await eventually(lambda: _holds_caps(observer, _MOST_W), within_s=60)
        # What is in its place here writes the specs.
        system.operator.kill()
        await system.operator.wait(5)
        await naming.put()
        await _until_fallen_back(observer)
        await _withdrawal_ends_an_overload(system, naming, observer)
        await _each_node_falls_back_without_an_operator(naming, observer)
        await _each_node_falls_back_without_an_api_server(system, naming, observer)


async def _withdrawal_ends_an_overload(system: System, naming: Naming, observer: PowerObserver) -> None:
    loop = asyncio.get_running_loop()
    async with naming.running():
        await eventually(lambda: _holds_caps(observer, _LIMIT_W), within_s=30)
        # Raised for longer than one hold: each sample is named in time.
        await holds(lambda: _holds_caps(observer, _LIMIT_W), for_s=3 * _HOLD_S)
        for each in (await naming.told()).values():
            assert (each["oversubscription"]["fallingBack"], each["inForceWatts"]) == (False, _LIMIT_W)
        jobs = await _fill(system)
        begun_s = await _begins(observer)
        await asyncio.wait_for(naming.withdrawn.wait(), timeout=30)
        withdrawn_s = loop.time()
        await _until_fallen_back(observer)
        ended_s = loop.time()
        print(f"overload told after {withdrawn_s - begun_s:.1f} s, ended after {ended_s - begun_s:.1f} s")
        assert ended_s - withdrawn_s <= _HOLD_S + _PROGRAMS_S
        assert observer.last.drawn_w[_RACK] <= _BREAKER_W
    for each in (await naming.told()).values():
        assert each["inForceWatts"] == _LIMIT_W, "what comes back with the next sample counts"
    await system.view.delete_pods(jobs)


async def _begins(observer: PowerObserver) -> float:
    """Return the time of the first sample that is above the breaker."""

    async def above() -> None:
        assert observer.last.drawn_w[_RACK] > _BREAKER_W, observer.last.drawn_w

    await eventually(above, within_s=60)
    return next(each.at_s for each in observer.samples if each.drawn_w[_RACK] > _BREAKER_W)


async def _each_node_falls_back_without_an_operator(naming: Naming, observer: PowerObserver) -> None:
    async with naming.running():
        await eventually(lambda: _holds_caps(observer, _LIMIT_W), within_s=60)
    took_s = await _until_fallen_back(observer)
    print(f"at the fallback {took_s:.1f} s after the operator ended")
    assert took_s <= _HOLD_S + _PROGRAMS_S


async def _each_node_falls_back_without_an_api_server(system: System, naming: Naming, observer: PowerObserver) -> None:
    async with naming.running():
        await eventually(lambda: _holds_caps(observer, _LIMIT_W), within_s=60)
    api = system.stack.cluster.processes[Binary.APISERVER]
    api.pause()  # it takes connections, and answers nothing
    try:
        took_s = await _until_fallen_back(observer)
    finally:
        api.resume()
    print(f"at the fallback {took_s:.1f} s after the API server stopped to answer")
    assert took_s <= _HOLD_S + _PROGRAMS_S
