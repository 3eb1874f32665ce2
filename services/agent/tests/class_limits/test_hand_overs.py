"""Hand-overs of GPUs by all processes of an agent's pod: actuator, holders, start hook and agent.

Compared are the clocks that the driver holds the GPUs to when the runtime goes on to start a container.
"""

import statistics
import time

import pytest
from services.agent.tests.class_limits.agent_processes import AGENT, START_HOOK
from services.agent.tests.class_limits.node_site import GPUS, NodeSite
from services.agent.tests.class_limits.stub_gpus import AMD, NVIDIA
from tests.e2e.waiting import eventually


@pytest.fixture(params=[NVIDIA, AMD], ids=["NVML", "AMD SMI"])
async def site(request, tmp_path):
    site = NodeSite(tmp_path, vendor=request.param)
    async with site.running():
        yield site


async def hand_over(site, rounds):
    """Start a performance pod on each limited GPU, round by round; return the clocks at their starts."""
    locks = []
    for number in range(rounds):
        await eventually(site.are_limited, within_s=60)
        names = [f"performance-{number}-{index}" for index in range(GPUS)]
        locks += [await site.start(name, index) for index, name in enumerate(names)]
        for name in names:
            site.remove(name)
    return locks


async def _hand_overs_are_free_of_limits(site, rounds):
    locks = await hand_over(site, rounds)
    waits = sorted(site.processes.waits_ms("performance"))
    p50, p99 = statistics.median(waits), waits[int(0.99 * len(waits))]
    print(
        f"{len(locks)} hand-overs, {sum(map(bool, locks))} under the limit of another pod; "
        f"a container waited {p50:.1f} ms (p50), {p99:.1f} ms (p99), {waits[-1]:.1f} ms at most"
    )
    hook, agent = await site.processes.series(START_HOOK), await site.processes.series(AGENT)
    assert locks == [0] * (rounds * GPUS)
    assert hook['joulie_start_hook_containers_total{outcome="answered"}'] == len(waits) == len(locks)
    assert agent['joulie_class_limit_limited_starts_total{node="n1"}'] == 0
    assert site.warned() == []


async def test_no_performance_container_starts_under_the_limit_of_another_pod(site):
    await _hand_overs_are_free_of_limits(site, rounds=3)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_none_of_three_hundred_does(site):
    await _hand_overs_are_free_of_limits(site, rounds=38)


async def test_a_driver_that_hangs_delays_a_start_by_the_deadline_and_the_pod_has_an_event(site):
    await eventually(site.are_limited, within_s=60)
    site.gpus.hang(0, on_set=True)
    begun = time.monotonic()
    assert await site.start("stuck", 0) > 0
    assert 1.0 <= time.monotonic() - begun < 2.0

    async def warned():
        assert [name for name, _ in site.warned()] == ["stuck"]

    await eventually(warned, within_s=30)
    site.gpus.hang(0, on_set=False)

    async def freed():
        assert site.gpus.locks_mhz[0] == 0

    await eventually(freed, within_s=30)
