"""Hand-overs of limited GPUs on a real kubelet and containerd: no performance container starts under a limit."""

import os
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from services.agent.tests.class_limits.agent_processes import START_HOOK
from tests.e2e.gpu_node import GpuNode
from tests.e2e.gpu_pods import AMD_GPUS, MANY_NVIDIA_GPUS, PERFORMANCE, SHARED, WHOLE
from tests.e2e.gpu_site import gpu_machine, gpu_site, logs_of_failed

from joulie_devcluster.fixtures import RealNodeStarter, Starter
from joulie_devcluster.real_node.node import RealNode

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sites")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(start_cluster: Starter, start_real_node: RealNodeStarter, files: Path) -> AsyncIterator[RealNode]:
    async with gpu_machine(start_cluster, start_real_node, files) as node:
        yield node


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(request: pytest.FixtureRequest, node: RealNode, files: Path) -> AsyncIterator[GpuNode]:
    """The node with the GPUs of the layout that is the parameter, NVIDIA's without one."""
    async with gpu_site(node, getattr(request, "param", MANY_NVIDIA_GPUS), files) as site:
        yield site


@pytest.fixture(autouse=True)
def show_logs(request: pytest.FixtureRequest, site: GpuNode) -> Iterator[None]:
    yield from logs_of_failed(request, site)


async def _no_performance_container_starts_limited(site: GpuNode, number: int) -> None:
    found = await site.hand_over(number, site.layout.offered)
    limited = [each for each in found if each.lock_mhz]
    handed_over = Counter(site.layout.resource_of(gpu) for each in found for gpu in each.handed_over)
    waits = site.processes.waits_ms("performance")
    print(
        f"{handed_over.total()} hand-overs of limited GPUs {dict(handed_over)}, among {len(found)} containers, "
        f"{len(limited)} of which started under the limit of another pod; "
        f"a container waited for the start hook {_percentiles(waits)}"
    )
    assert limited == []
    assert not {each.pod for each in found} & await site.warned()


@pytest.mark.e2e
@pytest.mark.timeout(600)
async def test_no_performance_container_starts_under_the_limit_of_another_pod(site: GpuNode) -> None:
    await _no_performance_container_starts_limited(site, 300)


@pytest.mark.soak
@pytest.mark.timeout(86_400)
async def test_none_of_many_does(site: GpuNode) -> None:
    await _no_performance_container_starts_limited(site, int(os.environ.get("JOULIE_HAND_OVERS", "300")))


def _percentiles(milliseconds: Sequence[float]) -> str:
    ordered = sorted(milliseconds)
    p99 = ordered[int(0.99 * len(ordered))]
    return f"{statistics.median(ordered):.1f} ms (p50), {p99:.1f} ms (p99), {ordered[-1]:.1f} ms (longest)"


@pytest.mark.e2e
async def test_the_start_hook_adds_little_to_the_creation_of_a_container(site: GpuNode) -> None:
    hook = site.processes.running[START_HOOK]
    with_hook = await _creations_ms(site)
    await hook.stop()
    try:
        without = await _creations_ms(site)
    finally:
        await hook.start()
    await hook.wait_for_log("plugin registered", 30)
    print(f"CreateContainer with the start hook {_percentiles(with_hook)}, without {_percentiles(without)}")
    assert statistics.median(with_hook) - statistics.median(without) < 100


async def _creations_ms(site: GpuNode, number: int = 15) -> list[float]:
    return [(await site.start(SHARED, PERFORMANCE)).creation_ms for _ in range(number)]


async def _limits_are_lifted_without_the_start_hook(site: GpuNode, number: int) -> None:
    hook = site.processes.running[START_HOOK]
    await hook.stop()
    site.lifts_s.clear()
    try:
        found = await site.hand_over(number, [WHOLE])
    finally:
        await hook.start()
    await hook.wait_for_log("plugin registered", 30)
    lifts_ms = [1000 * each for each in site.lifts_s]
    print(
        f"{len(lifts_ms)} hand-overs without the start hook, {sum(each.lock_mhz > 0 for each in found)} containers "
        f"started limited; from the assignment, a limit was lifted after {_percentiles(lifts_ms)}"
    )
    assert len(lifts_ms) >= number
    assert sorted(lifts_ms)[int(0.99 * len(lifts_ms))] <= 1500


@pytest.mark.e2e
async def test_without_the_start_hook_a_limit_is_lifted_soon_after_the_assignment(site: GpuNode) -> None:
    await _limits_are_lifted_without_the_start_hook(site, 9)


@pytest.mark.soak
@pytest.mark.timeout(86_400)
async def test_without_the_start_hook_limits_are_lifted_many_times(site: GpuNode) -> None:
    await _limits_are_lifted_without_the_start_hook(site, int(os.environ.get("JOULIE_HAND_OVERS", "300")) // 3)


# At the end: the node then has these GPUs in place of those before.
@pytest.mark.e2e
@pytest.mark.parametrize("site", [AMD_GPUS], ids=["AMD"], indirect=True)
async def test_no_performance_container_starts_under_the_limit_of_another_pod_on_gpus_of_amd(site: GpuNode) -> None:
    await _no_performance_container_starts_limited(site, 9)
