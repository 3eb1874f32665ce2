"""Starts on limited GPUs of a real kubelet and containerd: other containers, claims, a kubelet that restarts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.gpu_claims import ClaimedGpus, Follows
from tests.e2e.gpu_node import GpuNode
from tests.e2e.gpu_pods import NVIDIA_GPUS, PERFORMANCE, SHARED, STANDARD, STAYS, Started, container, pod_on_gpus
from tests.e2e.gpu_site import gpu_machine, gpu_site, logs_of_failed
from tests.e2e.waiting import eventually

from joulie_devcluster.fixtures import RealNodeStarter, Starter

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    start_cluster: Starter, start_real_node: RealNodeStarter, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GpuNode]:
    directory: Path = tmp_path_factory.mktemp("sites")
    async with (
        gpu_machine(start_cluster, start_real_node, directory) as node,
        gpu_site(node, NVIDIA_GPUS, directory) as site,
    ):
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def claims(site: GpuNode) -> AsyncIterator[ClaimedGpus]:
    claims = ClaimedGpus(site)
    async with claims.running():
        yield claims


@pytest.fixture(autouse=True)
def show_logs(request: pytest.FixtureRequest, site: GpuNode) -> Iterator[None]:
    yield from logs_of_failed(request, site)


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
        await site.create(name, STANDARD, pod_on_gpus(name, SHARED, STAYS))
        await site.started(name)

    async def replace(name: str) -> Started:
        await site.pod(name).delete()
        await site.create(name, PERFORMANCE, pod_on_gpus(name, SHARED))
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
