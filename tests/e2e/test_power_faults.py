"""Everything that fails, together: forty nodes under three levels, and an observer of the simulated hardware.

A leader is paused and goes on beside its successor, the agents of a rack are killed, and the API server is away for 150
seconds while both last. Written to out/power-faults: every sample, and a picture.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.e2e.power_feed import FEED, GROUPS, MOST_W, NODES, RACKS, draws, fill, is_enforced, limit, put_tree
from tests.e2e.power_limits import WrittenLimits, caps, drawn
from tests.e2e.power_observer import PowerObserver, observing
from tests.e2e.system import SHORT_LEASE, System
from tests.e2e.waiting import eventually

from joulie_api.errors import KubeError
from joulie_api.resources import POWER_DOMAINS
from joulie_core.labels import RACK
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.host.process import ServiceProcess
from joulie_sim.stack.service import JoulieService, Service

_OUT = Path(__file__).parents[2] / "out" / "power-faults"
_OUTAGE_S = 150.0
_LIMITS = {FEED: 24_000, "row-0": 13_000, "row-1": 13_000, **dict.fromkeys(RACKS, 7_000)}
_SILENT = "rack-3"


class Run:
    """One run: the limits that were written, what happened when, and how long each lowering took."""

    def __init__(self, system: System, observer: PowerObserver) -> None:
        self._system = system
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self.limits = WrittenLimits()
        self.marks: list[tuple[float, str]] = []

    def mark(self, text: str) -> None:
        """Note what happens now."""
        self.marks.append((self._loop.time(), text))
        print(f"{self._loop.time() - self._observer.samples[0].at_s:6.1f} s  {text}")

    async def limit(self, domain: str, watts: int, within_s: float = 60.0) -> None:
        """Write a limit, and wait until the caps below the domain are within it."""
        self.mark(f"{domain} to {watts:,} W")
        self.limits.write(domain, watts, self._loop.time())
        await limit(self._system, domain, watts)

        async def within() -> None:
            assert self._observer.sums[domain] <= watts, self._observer.sums

        took_s = await eventually(within, within_s=within_s)
        print(f"          within it after {took_s:.1f} s")


async def _one_agent_for_each_rack(system: System) -> dict[str, JoulieService]:
    """Give each rack an agent of its own, so that all agents of one rack can end."""
    agents = list(system.agents)
    while len(agents) < len(RACKS):
        agents.append(
            await system.stack.start(Service.AGENT, f"joulie-agent-{len(agents)}", env={"POOL_SHARD_ID": "0"})
        )
    found = dict(zip(RACKS, agents, strict=True))
    for rack, agent in found.items():
        env = {"POOL_SHARDS": "1", "POOL_SHARD_ID": "0", "POOL_NODE_SELECTOR": f"{RACK}={rack}"}
        await agent.restart(env)
    for agent in found.values():
        await agent.wait_ready(60)
    return found


@contextlib.asynccontextmanager
async def _restarted(*services: JoulieService) -> AsyncIterator[None]:
    """Start services again that end by themselves, as a kubelet does."""

    async def keep() -> None:
        while True:
            for each in services:
                if not each.running:
                    await each.start()
            await asyncio.sleep(1.0)

    task = asyncio.create_task(keep())
    try:
        yield
        assert not task.done(), "nothing restarts the services"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _without_api_server(system: System, for_s: float) -> None:
    api: ServiceProcess = system.stack.cluster.processes[Binary.APISERVER]
    api.kill()
    await api.wait(10)
    await asyncio.sleep(for_s)
    await api.start()

    async def answers() -> None:
        try:
            # Custom resources are served last.
            await system.view.client.list_page(POWER_DOMAINS, limit=1)
        except KubeError as error:
            raise AssertionError(str(error)) from error

    await eventually(answers, within_s=60)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.system(
    nodes=NODES,
    operator={
        "POWER_DOMAINS": "Enforce",
        "POLICY_TYPE": "static_partition",
        "STATIC_HP_FRAC": "1.0",
        **SHORT_LEASE,
    },
    agent={"POWER_BUDGETS": "On", "RECONCILE_INTERVAL": "5s"},
)
async def test_no_sum_is_above_its_limit_while_everything_fails_together(system: System) -> None:
    agents = await _one_agent_for_each_rack(system)
    await fill(system, performance=10)
    async with observing(system.view.sim_url, GROUPS) as observer:
        await eventually(lambda: draws(observer, FEED, 0.99 * MOST_W[FEED]), within_s=60)
        run = Run(system, observer)
        try:
            await _everything_fails(system, run, agents)
            await eventually(lambda: draws(observer, FEED, 0.95 * _LIMITS[FEED]), within_s=90)
        finally:
            run.limits.save(_OUT, observer.samples, run.marks)
        seconds = observer.last.at_s - observer.samples[0].at_s
        above = {each.__name__: run.limits.above(observer.samples, each) for each in (caps, drawn)}
        print(f"{len(observer.samples)} samples in {seconds:.0f} s; above the limit that held: {above}; {_OUT}")
        assert len(observer.samples) > 2 * seconds, "too few samples"
        assert not any(count for counts in above.values() for count in counts.values()), above


async def _everything_fails(system: System, run: Run, agents: Mapping[str, JoulieService]) -> None:
    run.mark("limits of all domains")
    for name, watts in _LIMITS.items():
        run.limits.write(name, watts, asyncio.get_running_loop().time())
    await put_tree(system, _LIMITS)
    await is_enforced(system, within_s=90)
    second = await system.start_second_operator()
    async with _restarted(system.operator, second):
        run.mark("leader paused")
        system.operator.pause()
        await run.limit(FEED, 21_000)
        await run.limit("rack-1", 5_000)
        run.mark(f"agents of {_SILENT} killed")
        agents[_SILENT].kill()
        await agents[_SILENT].wait(10)
        run.mark("API server killed")
        await _without_api_server(system, _OUTAGE_S)
        run.mark("API server back, paused leader goes on")
        system.operator.resume()
        # What the silent rack keeps the other one of its row gives up, when the new leader has waited for its answer.
        await run.limit("row-1", 10_000, within_s=180)
        await run.limit(FEED, 19_000, within_s=90)
        run.mark(f"agents of {_SILENT} back")
        await agents[_SILENT].start()
        await is_enforced(system, within_s=120)
        await run.limit(FEED, _LIMITS[FEED])
        await run.limit("row-1", _LIMITS["row-1"])
