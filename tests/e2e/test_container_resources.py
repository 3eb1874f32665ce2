"""Containers on a real kubelet and containerd, placed by the resource manager: cpusets inside, cgroups outside."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.conftest import FAILED
from tests.e2e.container_node import ResourceManager, Workload, run_pod
from tests.e2e.waiting import eventually, holds

from joulie_core.containers.idset import IdSet
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.fixtures import RealNodeStarter, Starter, create_namespace
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="CPUs can be divided only where there are two"),
]

ALL = IdSet(os.sched_getaffinity(0))
PERFORMANCE = IdSet([max(ALL)])
REST = ALL - PERFORMANCE
CLASS = "joulie.io/workload-class"

#: A balloon per class of work; the reserved CPUs are those of standard containers.
BALLOONS = {
    "reservedResources": {"cpu": f"cpuset:{REST}"},
    "balloonTypes": [
        {
            "name": "performance",
            "minCPUs": 1,
            "maxCPUs": 1,
            "minBalloons": 1,
            "preferNewBalloons": False,
            "matchExpressions": [{"key": f"pod/annotations/{CLASS}", "operator": "Equals", "values": ["performance"]}],
        },
        {"name": "reserved", "namespaces": ["*"]},
    ],
}
TOPOLOGY_AWARE = {"availableResources": {"cpu": f"cpuset:{ALL}"}}

RESOURCES_FILE = "/.nri-resource-policy/resources.sh"

Run = Callable[..., Awaitable[Workload]]
Manage = Callable[..., Awaitable[ResourceManager]]


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory: while it exists, containers do not start after the runtime has read what they start with.

    Each container that waits has a file there, named by its id.
    """
    directory = tmp_path_factory.mktemp("runc")
    hold, runc = directory / "hold", directory / "runc"
    runc.write_text(f"""#!/bin/sh
for last; do :; done
case " $* " in *" create "*) touch {hold}/$last 2>/dev/null; while [ -e {hold} ]; do sleep 0.05; done ;; esac
exec {shutil.which("runc")} "$@"
""")
    runc.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(directory), prepend=os.pathsep)
        yield hold


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(start_cluster: Starter, start_real_node: RealNodeStarter, hold: Path) -> AsyncIterator[RealNode]:
    del hold  # a directory that is not there delays nothing
    cluster = await start_cluster(ClusterConfig(nodes=scale(default_node_classes(), 1)))
    try:
        node = await start_real_node(cluster, RealNodeConfig())
        yield node
        await node.down()
    finally:
        await cluster.down()


@pytest_asyncio.fixture(loop_scope="module")
async def run(node: RealNode) -> AsyncIterator[Run]:
    """Run pods, which are deleted at the end."""
    pods: list[Workload] = []
    async with await node.cluster.client() as client:
        namespace = await create_namespace(client)

        async def start(name: str, *, cpu: str = "", annotations: dict[str, str] | None = None) -> Workload:
            pods.append(await run_pod(node, client, namespace, name, cpu=cpu, annotations=annotations))
            return pods[-1]

        yield start
        await asyncio.gather(*(pod.delete() for pod in pods), return_exceptions=True)


@pytest_asyncio.fixture(loop_scope="module")
async def manage(request: pytest.FixtureRequest, node: RealNode, tmp_path: Path) -> AsyncIterator[Manage]:
    """Start the resource manager, and stop it at the end."""
    managers: list[ResourceManager] = []

    async def start(policy: str, spec: dict[str, object]) -> ResourceManager:
        manager = await ResourceManager.start(node, tmp_path, policy, spec)
        managers.append(manager)
        await eventually(manager.ready, within_s=20)
        return manager

    yield start
    for manager in managers:
        if request.node.stash.get(FAILED, False):
            print(manager.process.log_tail())
        await manager.process.stop()


def on(pod: Workload, cpus: IdSet) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        assert await pod.cpus() == cpus

    return check


async def test_a_guaranteed_container_gets_a_cpu_of_its_own_and_the_others_get_it_back_when_it_ends(
    manage: Manage, run: Run
) -> None:
    await manage("topology-aware", TOPOLOGY_AWARE)
    shared = await run("shared")
    await eventually(on(shared, ALL), within_s=20)

    exclusive = await run("exclusive", cpu="1")
    await eventually(lambda: one_cpu(exclusive), within_s=20)
    own = await exclusive.cpus()
    await eventually(on(shared, ALL - own), within_s=10)

    await exclusive.delete()
    await eventually(on(shared, ALL), within_s=10)
    assert await shared.restarts() == 0


async def test_a_container_reads_its_own_cpus_and_cannot_write_them(manage: Manage, run: Run) -> None:
    manager = await manage("topology-aware", TOPOLOGY_AWARE)
    shared = await run("shared")
    await eventually(on(shared, ALL), within_s=20)
    assert await shared_cpus(shared) == ALL

    exclusive = await run("exclusive", cpu="1")
    await eventually(lambda: one_cpu(exclusive), within_s=20)
    own = await exclusive.cpus()
    assert f'EXCLUSIVE_CPUS="{own}"' in await exclusive.file(RESOURCES_FILE)
    assert await shared_cpus(exclusive) == IdSet()

    async def follows() -> None:
        assert await shared_cpus(shared) == ALL - own

    await eventually(follows, within_s=20)
    assert "ro" in await shared.mount_options(str(Path(RESOURCES_FILE).parent))
    await exclusive.delete()
    await shared.delete()

    async def gone() -> None:
        assert list((manager.directory / "state" / "exported").iterdir()) == []

    await eventually(gone, within_s=10)


async def shared_cpus(pod: Workload) -> IdSet:
    (line,) = (line for line in (await pod.file(RESOURCES_FILE)).splitlines() if line.startswith("SHARED_CPUS="))
    return IdSet.parse(line.removeprefix("SHARED_CPUS=").strip('"'))


async def one_cpu(pod: Workload) -> None:
    assert len(await pod.cpus()) == 1


async def test_the_control_groups_have_cpus_memory_nodes_limits_and_weights_of_the_containers(
    manage: Manage, run: Run
) -> None:
    await manage("topology-aware", TOPOLOGY_AWARE)
    shared, exclusive = await run("shared"), await run("exclusive", cpu="1")
    await eventually(lambda: one_cpu(exclusive), within_s=20)
    own = await exclusive.cpus()
    await eventually(on(shared, ALL - own), within_s=20)

    group = await exclusive.group()
    assert (group.cpus, group.limit_milli) == (own, 1000)
    assert group.has_shares(1024), group
    assert group.memory_nodes == nodes_of(own)

    group = await shared.group()
    assert (group.cpus, group.limit_milli) == (ALL - own, None)
    assert group.has_shares(2), group
    assert group.memory_nodes >= nodes_of(ALL - own)


def nodes_of(cpus: IdSet) -> IdSet:
    """Return the memory nodes of CPUs; 0 where the kernel has none."""
    nodes = Path("/sys/devices/system/node").glob("node[0-9]*")
    found = IdSet(
        int(node.name.removeprefix("node"))
        for node in nodes
        if not cpus.isdisjoint(IdSet.parse((node / "cpulist").read_text().strip()))
    )
    return found or IdSet([0])


async def test_a_resize_in_place_moves_the_container_and_changes_its_limit_and_weight(manage: Manage, run: Run) -> None:
    await manage("topology-aware", TOPOLOGY_AWARE)
    shared, resized = await run("shared"), await run("resized", cpu="1")
    await eventually(lambda: one_cpu(resized), within_s=20)
    own = await resized.cpus()
    await eventually(on(shared, ALL - own), within_s=20)

    await resized.resize("500m")
    await eventually(grouped(resized, ALL, 500, 512), within_s=60)
    await eventually(on(shared, ALL), within_s=20)

    await resized.resize("1")
    await eventually(lambda: one_cpu(resized), within_s=60)
    own = await resized.cpus()
    await eventually(grouped(resized, own, 1000, 1024), within_s=20)
    await eventually(on(shared, ALL - own), within_s=20)
    assert await resized.restarts() == await shared.restarts() == 0


def grouped(pod: Workload, cpus: IdSet, limit_milli: int, shares: int) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        group = await pod.group()
        assert (group.cpus, group.limit_milli) == (cpus, limit_milli), group
        assert group.has_shares(shares), group

    return check


async def test_two_exclusive_containers_have_different_cpus_and_one_that_ends_moves_nothing(
    manage: Manage, run: Run
) -> None:
    """Two CPUs suffice where none is reserved and no container shares one; of more, a third container has the rest."""
    await manage("topology-aware", TOPOLOGY_AWARE)
    first, second = await run("first", cpu="1"), await run("second", cpu="1")
    for pod in (first, second):
        await eventually(lambda pod=pod: one_cpu(pod), within_s=30)
    own, other = (await first.group()).cpus, (await second.group()).cpus
    assert len(own) == len(other) == 1
    assert own.isdisjoint(other)
    if len(ALL) > 2:
        shared = await run("shared")
        await eventually(on(shared, ALL - own - other), within_s=20)

    await first.delete()
    await holds(on(second, other), for_s=1)
    assert await second.restarts() == 0


async def test_each_class_of_work_runs_in_the_balloon_of_its_class(manage: Manage, run: Run) -> None:
    await manage("balloons", BALLOONS)
    fast = await run("fast", annotations={CLASS: "performance"})
    slow = await run("slow")
    await eventually(on(fast, PERFORMANCE), within_s=20)
    await eventually(on(slow, REST), within_s=20)


async def test_a_changed_configuration_moves_running_containers(manage: Manage, run: Run) -> None:
    manager = await manage("topology-aware", TOPOLOGY_AWARE)
    pod = await run("pod")
    await eventually(on(pod, ALL), within_s=20)
    manager.configure({"availableResources": {"cpu": f"cpuset:{REST}"}})
    await eventually(on(pod, REST), within_s=10)
    assert await pod.restarts() == 0


async def test_a_container_whose_start_has_begun_gets_a_changed_configuration_when_it_runs(
    manage: Manage, run: Run, hold: Path
) -> None:
    manager = await manage("topology-aware", TOPOLOGY_AWARE)
    pod = await run("pod")
    await eventually(pod.cpus, within_s=20)
    await asyncio.to_thread(hold.mkdir)
    try:
        os.kill(min(await pod.pids()), signal.SIGKILL)  # the kubelet starts the container again, in the same sandbox
        await eventually(lambda: waiting(hold), within_s=20)
        manager.configure({"availableResources": {"cpu": f"cpuset:{REST}"}})
        await manager.process.wait_for_log(r"configuration in force[\s\S]*configuration in force", 10)
    finally:
        await asyncio.to_thread(shutil.rmtree, hold)
    await eventually(on(pod, REST), within_s=10)


async def waiting(hold: Path) -> bool:
    return bool(await asyncio.to_thread(os.listdir, hold))


async def test_an_invalid_configuration_leaves_the_one_in_force(manage: Manage, run: Run) -> None:
    manager = await manage("topology-aware", {"availableResources": {"cpu": f"cpuset:{REST}"}})
    pod = await run("pod")
    await eventually(on(pod, REST), within_s=20)
    manager.configure({"availableResources": {"cpu": "cpuset:fast"}})
    await manager.process.wait_for_log("configuration refused", 10)
    await holds(on(pod, REST), for_s=1)


async def test_a_restart_of_the_resource_manager_moves_nothing(manage: Manage, run: Run) -> None:
    manager = await manage("topology-aware", TOPOLOGY_AWARE)
    exclusive = await run("exclusive", cpu="1")
    await eventually(lambda: one_cpu(exclusive), within_s=20)
    own = await exclusive.cpus()

    manager.process.kill()
    await manager.process.wait()
    late = await run("late")
    await eventually(late.cpus, within_s=20)

    await manager.process.restart()
    await eventually(manager.ready, within_s=20)
    await eventually(on(late, ALL - own), within_s=20)
    await holds(on(exclusive, own), for_s=1)


async def test_a_restart_of_containerd_moves_nothing(manage: Manage, run: Run, node: RealNode) -> None:
    manager = await manage("topology-aware", TOPOLOGY_AWARE)
    exclusive, shared = await run("exclusive", cpu="1"), await run("shared")
    await eventually(lambda: one_cpu(exclusive), within_s=20)
    own = await exclusive.cpus()
    await eventually(on(shared, ALL - own), within_s=20)

    await node.restart_containerd()
    await eventually(manager.ready, within_s=30)
    await holds(on(exclusive, own), for_s=1)
    await holds(on(shared, ALL - own), for_s=1)
    late = await run("late")
    await eventually(on(late, ALL - own), within_s=30)


async def test_a_stopped_resource_manager_does_not_keep_pods_from_starting(manage: Manage, run: Run) -> None:
    manager = await manage("topology-aware", TOPOLOGY_AWARE)
    os.kill(manager.process.pid, signal.SIGSTOP)
    pod = await run("pod", cpu="1")
    await eventually(on(pod, ALL), within_s=30)
    os.kill(manager.process.pid, signal.SIGCONT)
    await eventually(manager.ready, within_s=30)
    await eventually(lambda: one_cpu(pod), within_s=10)
