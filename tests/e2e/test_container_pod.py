"""The resource manager on a real node, as the chart installs it and as a process.

Configuration by custom resources, and CPU classes and limits by class down to the files of cpufreq.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
import pytest_asyncio
from tests.chart import Helm
from tests.e2e.agent_pod import ACTUATOR, CONTROLLER, NODE_AGENT, RESOURCE_MANAGER, AgentRelease
from tests.e2e.conftest import FAILED
from tests.e2e.container_node import Workload, run_pod
from tests.e2e.limited_cores import Follows, LimitedCores, ObservedCore
from tests.e2e.test_container_resources import ALL, BALLOONS, CLASS, PERFORMANCE, REST, on
from tests.e2e.waiting import eventually, holds

from joulie_api.resources import BALLOONS_POLICIES, NAMESPACES, NODES, PODS
from joulie_core.class_caps.enforced_limit import LEASE_S
from joulie_core.containers.idset import IdSet
from joulie_core.kinds import API_VERSION
from joulie_core.labels import MANAGED, MAX_SLOWDOWN
from joulie_core.quantity import parse_quantity
from joulie_devcluster.containers.images import save_image
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.fixtures import RealNodeStarter, Starter, create_namespace
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_sim.stack.stack import NAMESPACE, JoulieStack
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import MachineSpec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(len(ALL) < 2, reason="CPUs can be divided only where there are two"),
]

#: The machine of the actuator has the CPUs of this one, and frequencies of its own.
MACHINE = MachineSpec(cores=max(ALL) + 1, threads=1, lowest_khz=800_000, base_khz=2_000_000, highest_khz=3_000_000)
SLOW_KHZ = 1_200_000
#: Of pods that may run 25 % longer.
LIMIT_KHZ = 2_400_000
SPEC: dict[str, Any] = BALLOONS | {
    "cpuClasses": [{"name": "slow", "maxFreq": SLOW_KHZ, "publishExtendedResource": True}],
    "balloonTypes": [
        BALLOONS["balloonTypes"][0] | {"cpuClass": "performance"},
        BALLOONS["balloonTypes"][1] | {"cpuClass": "slow"},
    ],
}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with a real node, and the agent on it."""

    agent: AgentRelease
    namespace: str

    async def run(self, name: str, *, annotations: dict[str, str] | None = None) -> Workload:
        return await run_pod(self.agent.node, self.agent.client, self.namespace, name, annotations=annotations)

    async def allow(self, slowdown: str | None) -> None:
        """Let the Namespace allow a slowdown, or none."""
        patch = {"metadata": {"annotations": {MAX_SLOWDOWN: slowdown}}}
        await self.agent.client.merge_patch(NAMESPACES, self.namespace, patch)

    async def configure(self, spec: dict[str, Any]) -> None:
        """Create or replace the configuration of all nodes."""
        body = {"apiVersion": API_VERSION, "kind": "BalloonsPolicy", "metadata": {"name": "default"}, "spec": spec}
        await self.agent.client.apply(BALLOONS_POLICIES, "default", body, field_manager="tests")

    async def entry(self) -> dict[str, Any]:
        """What the configuration's status says about the node."""
        found = json.loads(await self.agent.client.get(BALLOONS_POLICIES, "default"))
        entry: dict[str, Any] = found.get("status", {}).get("nodes", {}).get(self.agent.node.name, {})
        return entry

    def highest_khz(self, cpus: IdSet) -> set[int]:
        """The frequency limits of CPUs, as the machine has them."""
        machine = self.agent.machine
        return {machine.read(f"devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq") for cpu in cpus}


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObservedCore]:
    directory = tmp_path_factory.mktemp("observed")
    core = ObservedCore.prepare(directory, MACHINE, max(ALL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(directory), prepend=os.pathsep)
        yield core


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(start_cluster: Starter, start_real_node: RealNodeStarter, core: ObservedCore) -> AsyncIterator[RealNode]:
    del core  # its runc is that of the node
    images = [await asyncio.to_thread(save_image, each) for each in ("agent", "containers")]
    cluster = await start_cluster(ClusterConfig(nodes=scale(default_node_classes(), 1)))
    try:
        await JoulieStack(cluster).install()
        node = await start_real_node(cluster, RealNodeConfig(labels={MANAGED: "true"}))
        for image in images:
            await node.import_image(image)
        yield node
        await node.down()
    finally:
        await cluster.down()


@pytest_asyncio.fixture(loop_scope="module")
async def site(request: pytest.FixtureRequest, node: RealNode, helm: Helm, tmp_path: Path) -> AsyncIterator[Site]:
    """The chart's agent; the parameter is the mode of the limits by class."""
    machine = build(tmp_path / "machine", MACHINE)
    for directory in ("bus", "dev", "fs/cgroup"):
        (machine.sys / directory).mkdir(parents=True, exist_ok=True)
    cluster = node.cluster
    async with await cluster.client() as client:
        namespace = await create_namespace(client)
        release = AgentRelease(
            Helm(helm.path, helm.home, cluster.kubeconfig),
            node,
            machine,
            client,
            container_policy="balloons",
            class_limits=getattr(request, "param", ""),
        )
        try:
            site = Site(release, namespace)
            await site.configure(SPEC)
            await release.install()
            await eventually(release.pod, within_s=60)
            yield site
        finally:
            if request.node.stash.get(FAILED, False):
                for pod in await release.pods():
                    for container in (CONTROLLER, ACTUATOR, NODE_AGENT, RESOURCE_MANAGER):
                        print(f"--- {container}\n{node.logs(NAMESPACE, pod['metadata']['name'], container)[-5_000:]}")
            for pod in await client.list(PODS, namespace):
                await Workload(node, client, namespace, pod["metadata"]["name"]).delete()
            await release.uninstall("--no-hooks", "--ignore-not-found", "--wait")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cores(node: RealNode, core: ObservedCore) -> AsyncIterator[LimitedCores]:
    async with await node.cluster.client() as client:
        cores = LimitedCores(node, client, await create_namespace(client), core)
        async with cores.running():
            yield cores


def offers(site: Site, milli: int) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        node = json.loads(await site.agent.client.get(NODES, site.agent.node.name))
        allocatable = node["status"]["allocatable"].get("cpuclass.joulie.io/slow-milli")
        assert allocatable is not None
        assert parse_quantity(allocatable) == milli

    return check


def slowed(site: Site, cpus: IdSet, khz: int) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        assert site.highest_khz(cpus) == {khz}

    return check


async def test_containers_of_each_class_run_on_cpus_of_its_frequency_until_the_agent_is_uninstalled(
    site: Site,
) -> None:
    fast, slow = await site.run("fast", annotations={CLASS: "performance"}), await site.run("slow")
    await eventually(on(fast, PERFORMANCE), within_s=30)
    await eventually(on(slow, REST), within_s=10)
    await eventually(slowed(site, REST, SLOW_KHZ), within_s=15)
    await slowed(site, PERFORMANCE, MACHINE.highest_khz)()

    assert (await site.entry())["status"] == "Success"
    await eventually(offers(site, 1000 * len(REST)), within_s=60)
    # The runtime's socket is root's; nothing else is needed.
    manager = await site.agent.process(RESOURCE_MANAGER)
    assert {int(manager.fields()[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert not manager.can_see("/run/secrets/kubernetes.io/serviceaccount/token")
    node_agent = await site.agent.process(NODE_AGENT)
    assert node_agent.fields()["Uid"].split() == ["65532"] * 4
    assert not node_agent.can_see("/var/run/nri")

    await site.agent.uninstall("--no-hooks", "--wait")
    await eventually(slowed(site, ALL, MACHINE.highest_khz), within_s=30)
    await on(fast, PERFORMANCE)()


async def test_a_changed_object_moves_containers_and_an_invalid_one_changes_nothing(site: Site) -> None:
    pod = await site.run("pod")
    await eventually(on(pod, REST), within_s=30)

    await site.configure(SPEC | {"reservedResources": {"cpu": "cpuset:99"}})

    async def refused() -> None:
        entry = await site.entry()
        assert entry["status"] == "Failure"
        assert "reservedResources" in json.dumps(entry["errors"])

    await eventually(refused, within_s=15)
    await holds(on(pod, REST), for_s=1)

    swapped = {"reservedResources": {"cpu": f"cpuset:{PERFORMANCE}"}}
    await site.configure(SPEC | swapped)
    await eventually(on(pod, PERFORMANCE), within_s=15)
    assert (await site.entry())["status"] == "Success"
    assert await pod.restarts() == 0


@pytest.mark.parametrize("site", ["Enforce"], indirect=True)
async def test_a_killed_resource_manager_comes_back_moves_nothing_and_limits_cores_again(site: Site) -> None:
    own, reserved = SPEC["balloonTypes"]
    matched = {"matchExpressions": [{"key": "pod/name", "operator": "Equals", "values": ["alone"]}]}
    await site.configure(SPEC | {"balloonTypes": [own | matched, reserved]})
    await site.allow("25%")
    alone, slow = await site.run("alone"), await site.run("slow")
    await eventually(on(alone, PERFORMANCE), within_s=30)
    await eventually(on(slow, REST), within_s=10)
    await eventually(slowed(site, PERFORMANCE, LIMIT_KHZ), within_s=30)
    (await site.agent.process(RESOURCE_MANAGER)).signal(SIGKILL)

    async def back() -> None:
        assert (await site.agent.status(RESOURCE_MANAGER))["restartCount"] == 1

    async def unmoved() -> None:
        await on(alone, PERFORMANCE)()
        await on(slow, REST)()

    # The next one lifts what the one before has set.
    await asyncio.gather(
        eventually(back, within_s=30),
        holds(unmoved, for_s=3),
        eventually(slowed(site, PERFORMANCE, MACHINE.highest_khz), within_s=LEASE_S + 5),
    )
    late = await site.run("late")
    await eventually(on(late, REST), within_s=20)
    await unmoved()
    await eventually(slowed(site, PERFORMANCE, LIMIT_KHZ), within_s=30)
    await site.allow(None)
    await eventually(slowed(site, PERFORMANCE, MACHINE.highest_khz), within_s=10)
    assert await alone.restarts() == 0


async def test_cores_are_limited_while_their_namespace_consents_and_the_resource_manager_lives(
    cores: LimitedCores,
) -> None:
    await cores.allow("25%")
    pod = await cores.hold("standard")
    async with cores.managed("Shadow", REST) as manager:
        await eventually(lambda: cores.is_shown(manager), within_s=30)
        await holds(cores.unlimited, for_s=3)
    async with cores.managed("Enforce", REST) as manager:
        limited_s = await eventually(cores.limited, within_s=30)
        assert await cores.inside_khz(pod) == cores.highest_khz
        await cores.allow(None)
        withdrawn_s = await eventually(cores.unlimited, within_s=10)
        assert await cores.inside_khz(pod) == MACHINE.highest_khz
        await holds(cores.unlimited, for_s=4)
        await cores.allow("25%")
        await eventually(cores.limited, within_s=30)
        manager.process.kill()
        killed_s = await eventually(cores.unlimited, within_s=LEASE_S + 5)
    print(
        f"limited after {limited_s:.1f} s, lifted {withdrawn_s:.1f} s after consent and {killed_s:.1f} s after a kill"
    )
    assert await pod.restarts() == 0
    await pod.delete()


async def test_no_performance_container_starts_on_a_core_that_is_limited_for_the_pod_before_it(
    cores: LimitedCores,
) -> None:
    await cores.allow("25%")
    found = []
    async with cores.managed("Enforce", REST):
        for number, follows in enumerate([Follows.BESIDE, Follows.BESIDE, Follows.AFTER] * 2):
            if not found or found[-1].follows is Follows.AFTER:
                standard = await cores.hold(f"standard-{number}")
            await eventually(cores.limited, within_s=30)
            found.append(await cores.hand_over(standard, f"performance-{number}", follows))
    print(*found, sep="\n")
    whole_khz = MACHINE.highest_khz
    assert {(each.created_khz, each.first_khz) for each in found} == {(whole_khz, whole_khz)}
    # Of a pod that joins another one the core is limited until the container is created.
    assert {each.sandbox_khz for each in found if each.follows is Follows.BESIDE} == {cores.limit_khz}


async def test_a_container_that_starts_limited_since_the_actuator_hangs_is_seen_and_its_pod_has_an_event(
    cores: LimitedCores,
) -> None:
    await cores.allow("25%")
    async with cores.managed("Enforce", REST):
        standard = await cores.hold("slow")
        await eventually(cores.limited, within_s=30)
        cores.actuator.pause()
        try:
            started = await cores.hand_over(standard, "performance", Follows.BESIDE)
        finally:
            cores.actuator.resume()
        assert (started.created_khz, started.first_khz) == (cores.limit_khz, cores.limit_khz)

        async def warned() -> None:
            assert await cores.warned() == {"performance"}

        await eventually(warned, within_s=15)
