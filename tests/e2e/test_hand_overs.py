"""Hand-overs of limited GPUs on a real kubelet and containerd: no performance container starts under a limit."""

import asyncio
import os
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from services.agent.tests.class_limits.agent_processes import START_HOOK
from tests.e2e.conftest import FAILED
from tests.e2e.gpu_claims import ClaimedGpus, Follows
from tests.e2e.gpu_node import GpuNode, prepare
from tests.e2e.gpu_pods import (
    AMD_GPUS,
    NVIDIA_GPUS,
    PERFORMANCE,
    SHARED,
    STANDARD,
    STAYS,
    WHOLE,
    GpuLayout,
    Started,
    container,
    pod_on_gpu,
)
from tests.e2e.waiting import eventually

from joulie_core.labels import MANAGED
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.fixtures import RealNodeStarter, Starter, create_namespace
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_sim.stack.stack import JoulieStack

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("sites")
    prepare(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(directory), prepend=os.pathsep)
        yield directory


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(start_cluster: Starter, start_real_node: RealNodeStarter, files: Path) -> AsyncIterator[RealNode]:
    cluster = await start_cluster(ClusterConfig())
    try:
        await JoulieStack(cluster).install()
        node = await start_real_node(cluster, RealNodeConfig(labels={MANAGED: "true"}))
        yield node
        await node.down()
    finally:
        await cluster.down()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(request: pytest.FixtureRequest, node: RealNode, files: Path) -> AsyncIterator[GpuNode]:
    """The node with the GPUs of the layout that is the parameter, NVIDIA's without one."""
    layout: GpuLayout = getattr(request, "param", NVIDIA_GPUS)
    async with await node.cluster.client() as client:
        namespace = await create_namespace(client)
        site = GpuNode.over(node, client, namespace, layout, files)
        async with site.running():
            await site.processes.start()
            try:
                yield site
            finally:
                await site.processes.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def claims(site: GpuNode) -> AsyncIterator[ClaimedGpus]:
    claims = ClaimedGpus(site)
    async with claims.running():
        yield claims


@pytest.fixture(autouse=True)
def show_logs(request: pytest.FixtureRequest, site: GpuNode) -> Iterator[None]:
    """Print the ends of the logs after a test that fails."""
    yield
    if request.node.stash.get(FAILED, False):
        for process in (*site.processes.running.values(), *site.node.processes.values()):
            print(f"--- {process.name}\n{process.log_tail()}")


async def _no_performance_container_starts_limited(site: GpuNode, number: int) -> None:
    offered = site.layout.offered.items()
    whole, parts = ([name for name, each in offered if each.is_whole is whole] for whole in (True, False))
    # Apart: a pod with a GPU that the kubelet does not list yet may have any part of one, but no whole one of another.
    found = [*await site.hand_over(number * 2 // 3, whole), *await site.hand_over(number // 3, parts)]
    limited = [each for each in found if each.lock_mhz]
    waits = site.processes.waits_ms("performance")
    numbers = dict(Counter(site.layout.resource_of(each.gpu) for each in found))
    print(
        f"{len(found)} hand-overs of limited GPUs {numbers}, "
        f"{len(limited)} containers started under the limit of another pod; "
        f"a container waited for the start hook {_percentiles(waits)}"
    )
    assert limited == []
    assert not {each.pod for each in found} & await site.warned()


@pytest.mark.e2e
async def test_no_performance_container_starts_under_the_limit_of_another_pod(site: GpuNode) -> None:
    await _no_performance_container_starts_limited(site, 30)


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


@pytest.mark.e2e
async def test_a_container_that_starts_limited_since_the_driver_hangs_is_seen_and_its_pod_has_an_event(
    site: GpuNode,
) -> None:
    await eventually(site.all_limited, within_s=60)
    for index in NVIDIA_GPUS.offered[SHARED].gpus:
        site.gpus.hang(index, on_set=True)
    try:
        started = await site.start(SHARED, PERFORMANCE, then=STAYS)
        assert started.lock_mhz > 0

        async def warned() -> None:
            assert started.pod in await site.warned()

        await eventually(warned, within_s=30)
    finally:
        for index in NVIDIA_GPUS.offered[SHARED].gpus:
            site.gpus.hang(index, on_set=False)

    async def freed() -> None:
        assert site.gpus.locks_mhz[started.gpu] == 0

    await eventually(freed, within_s=30)
    await site.pod(started.pod).delete()


@pytest.mark.e2e
async def test_a_restarted_kubelet_whose_device_plugin_is_late_changes_no_holder(site: GpuNode) -> None:
    await eventually(site.all_limited, within_s=60)
    before = await site.start(SHARED, PERFORMANCE, then=STAYS)
    try:
        async with site.sampled(before.gpu) as held_to:
            await site.restart_kubelet()
            # By the kubelet's checkpoint: the plugin has not come back.
            await eventually(lambda: site.all_limited(but=before.gpu), within_s=60)
            await site.register()

            async def start() -> list[Started]:
                return [await site.start(SHARED, PERFORMANCE)]

            found = await site.until_limited(start, but=before.gpu)
    finally:
        await site.pod(before.pod).delete()
    assert before.lock_mhz == 0
    assert before.gpu not in {each.gpu for each in found}
    assert set(held_to) == {0}


@pytest.mark.e2e
async def test_an_init_container_starts_without_the_limit_of_another_pod(site: GpuNode) -> None:
    init = container("with-init", {"limits": {SHARED: "1"}}) | {"name": "init"}
    main = container("", {}) | {"command": ["true"]}

    async def start() -> list[Started]:
        await site.create("with-init", PERFORMANCE, {"initContainers": [init], "containers": [main]})
        started = await site.started("with-init")
        await site.pod("with-init").delete()
        return [started]

    await site.until_limited(start)


@pytest.mark.e2e
async def test_a_performance_pod_with_the_name_of_a_standard_pod_starts_without_its_limit(site: GpuNode) -> None:
    names = [f"reused-{index}" for index in NVIDIA_GPUS.offered[SHARED].gpus]

    async def hold(name: str) -> None:
        await site.create(name, STANDARD, pod_on_gpu(name, SHARED, STAYS))
        await site.started(name)

    async def replace(name: str) -> Started:
        await site.pod(name).delete()
        await site.create(name, PERFORMANCE, pod_on_gpu(name, SHARED))
        started = await site.started(name)
        await site.pod(name).delete()
        return started

    async def start() -> list[Started]:
        await asyncio.gather(*map(hold, names))
        await eventually(site.all_limited, within_s=60)
        return await asyncio.gather(*map(replace, names))

    await site.until_limited(start)


@pytest.mark.e2e
async def test_a_gpu_of_a_claim_that_pods_share_loses_the_limit_before_a_performance_pod_starts(
    site: GpuNode, claims: ClaimedGpus
) -> None:
    started = await claims.share()
    assert started.lock_mhz == 0
    assert started.pod not in await site.warned()


@pytest.mark.e2e
@pytest.mark.parametrize("follows", Follows)
async def test_a_claim_that_goes_to_the_next_pod_takes_no_limit_to_it(
    site: GpuNode, claims: ClaimedGpus, follows: Follows
) -> None:
    names = [f"{follows.name.lower().replace('_', '-')}-{number}" for number in range(len(NVIDIA_GPUS.claimed))]
    found = await asyncio.gather(*(claims.hand_over(name, follows) for name in names))
    for name, each in zip(names, found, strict=True):
        assert each.limit_mhz > 0
        assert each.then.lock_mhz == 0
        assert each.holders == ([f"{name}-first"], [f"{name}-then"])
        assert each.allocations[0] == each.allocations[1]
    assert not {each.then.pod for each in found} & await site.warned()


# At the end: the node then has these GPUs in place of those before.
@pytest.mark.e2e
@pytest.mark.parametrize("site", [AMD_GPUS], ids=["AMD"], indirect=True)
async def test_no_performance_container_starts_under_the_limit_of_another_pod_on_gpus_of_amd(site: GpuNode) -> None:
    await _no_performance_container_starts_limited(site, 9)
