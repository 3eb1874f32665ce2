"""The agent as a pod of two containers, from its image and the chart: caps, and restores when one is killed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Any

import pytest
import pytest_asyncio
from tests.chart import Helm
from tests.e2e.agent_pod import ACTUATOR, CONTROLLER, GRACE_S, HOLDERS, AgentRelease
from tests.e2e.conftest import FAILED
from tests.e2e.waiting import eventually, holds

from joulie_api.resources import PODS
from joulie_core.labels import MANAGED
from joulie_devcluster.containers.images import save_image
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import default_node_classes, scale
from joulie_devcluster.fixtures import RealNodeStarter, Starter
from joulie_devcluster.real_node.node import RealNode, RealNodeConfig
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import NAMESPACE, JoulieStack, StackConfig
from joulie_testing.agent.fake_sysfs import build
from joulie_testing.agent.machine_spec import PLATFORMS

pytestmark = pytest.mark.e2e

# Not the default of 150 W: the value found is restored.
ORIGINALS = [140.0, 130.0]
# 60 % of what the packages are made for.
ECO = [90.0, 90.0]
LEASE_S = 60.0


@dataclass(frozen=True, slots=True)
class Site:
    """What the tests of this file share: a cluster with a real node, and an operator that wants all nodes eco."""

    stack: JoulieStack
    node: RealNode
    helm: Helm


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(start_cluster: Starter, start_real_node: RealNodeStarter, helm: Helm) -> AsyncIterator[Site]:
    image = await asyncio.to_thread(save_image, "agent")
    cluster = await start_cluster(ClusterConfig(nodes=scale(default_node_classes(), 3)))
    try:
        node = await start_real_node(cluster, RealNodeConfig(labels={MANAGED: "true"}))
        await node.import_image(image)
        config = StackConfig(services=(Service.OPERATOR,), env={Service.OPERATOR: {"STATIC_HP_FRAC": "0"}})
        async with JoulieStack(cluster, config) as stack:
            yield Site(stack, node, Helm(helm.path, helm.home, cluster.kubeconfig))
        await node.down()
    finally:
        await cluster.down()


@pytest_asyncio.fixture
async def agent(request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> AsyncIterator[AgentRelease]:
    """The agent, installed, with the machine capped."""
    machine = build(tmp_path / "machine", PLATFORMS["xeon-2s"])
    (machine.sys / "bus").mkdir(exist_ok=True)
    for path, watts in zip(machine.limits(), ORIGINALS, strict=True):
        machine.write(path, int(watts * 1e6))
    if not site.stack.operator.running:
        await site.stack.operator.restart()
    async with await site.node.cluster.client() as client:
        release = AgentRelease(site.helm, site.node, machine, client)
        try:
            await release.install()
            await eventually(lambda: capped(release), within_s=60)
            yield release
        finally:
            if request.node.stash.get(FAILED, False):
                await show(release)
            await remove(release)


async def capped(agent: AgentRelease) -> None:
    assert agent.limits_watts == ECO
    await agent.pod()


async def show(agent: AgentRelease) -> None:
    for pod in await agent.pods():
        for container in (CONTROLLER, ACTUATOR):
            print(f"--- {pod['metadata']['name']} {container}")
            print(agent.node.logs(NAMESPACE, pod["metadata"]["name"], container)[-6000:])


async def remove(agent: AgentRelease) -> None:
    """Leave the cluster as it was found, whatever a test has done."""
    await agent.uninstall("--no-hooks", "--ignore-not-found")

    async def gone() -> bool:
        return not await agent.pods()

    await eventually(gone, within_s=60, what="pods of the agent are still there")


def restored(agent: AgentRelease) -> bool:
    return agent.limits_watts == ORIGINALS


async def restarted(agent: AgentRelease, container: str, *, times: int = 1) -> None:
    status = await agent.status(container)
    assert status["restartCount"] == times
    assert "running" in status["state"]


async def test_the_machine_is_discovered_capped_and_reported(agent: AgentRelease) -> None:
    async def discovered() -> None:
        hardware = await agent.hardware()
        assert hardware["cpu"]["sockets"] == 2
        assert hardware["cpu"]["capRange"]["maxWattsPerSocket"] == 150
        assert hardware["capabilities"]["cpuControl"] is True
        assert hardware["capabilities"]["cpuTelemetry"] is True

    async def reported() -> None:
        report = await agent.report()
        assert (report["backend"], report["result"]) == ("rapl", "applied"), report
        assert (report["requestedWatts"], report["enforcedWatts"]) == (90, 90)

    await eventually(discovered, within_s=10)
    await eventually(reported, within_s=10)


async def test_the_controller_has_no_hardware_access_and_the_actuator_no_token_and_no_network(
    agent: AgentRelease,
) -> None:
    controller, actuator = await agent.process(CONTROLLER), await agent.process(ACTUATOR)
    token = "/run/secrets/kubernetes.io/serviceaccount/token"

    assert set(controller.fields()["Uid"].split()) == {"65532"}
    assert controller.can_see(token)
    assert not controller.can_see("/host-sys")
    assert not controller.can_see("/var/lib/joulie/journal")
    assert controller.sockets("tcp", "tcp6")

    assert set(actuator.fields()["Uid"].split()) == {"0"}
    assert not actuator.can_see(token)
    assert [point for point in actuator.mount_points() if "secrets" in point] == []
    assert actuator.can_see("/host-sys/class/powercap")
    options = actuator.mount_points()
    seen = {point: options[point].split(",")[0] for point in options if point.startswith("/host-sys")}
    read_only = {f"/host-sys/{each}": "ro" for each in ("class", "bus", "devices")}
    assert seen == read_only | {"/host-sys/devices/system/cpu": "rw", "/host-sys/devices/virtual": "rw"}
    assert actuator.sockets("unix")
    assert actuator.sockets("tcp", "tcp6", "udp", "udp6") == set()
    # Its own filter; the runtime's makes `Seccomp` 2 as well.
    assert '"network closed"' in await agent.logs(ACTUATOR)

    for process in (controller, actuator):
        fields, points = process.fields(), process.mount_points()
        assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
        assert points["/"].startswith("ro,")


async def test_the_holders_container_sees_the_kubelet_and_nothing_that_it_could_change(agent: AgentRelease) -> None:
    holders = await agent.process(HOLDERS)
    fields, points = holders.fields(), holders.mount_points()
    kubelet = "/var/lib/kubelet/pod-resources"
    assert set(fields["Uid"].split()) == {"0"}
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert points[kubelet].startswith("ro,")
    assert points["/"].startswith("ro,")
    assert holders.can_see(f"{kubelet}/kubelet.sock")
    assert [point for point in points if "secrets" in point or "host-sys" in point] == []


async def test_a_killed_controller_costs_no_cap_and_goes_on_when_it_is_back(agent: AgentRelease) -> None:
    (await agent.process(CONTROLLER)).signal(SIGKILL)

    async def held() -> None:
        assert agent.limits_watts == ECO

    await asyncio.gather(
        eventually(lambda: restarted(agent, CONTROLLER), within_s=30),
        holds(held, for_s=5),
    )
    assert (await agent.status(ACTUATOR))["restartCount"] == 0
    # An actuator that overwrites an external value runs and has a target.
    agent.machine.write(agent.machine.limits()[0], 145_000_000)
    await eventually(held, within_s=15)


async def test_a_controller_that_hangs_loses_its_caps_with_its_lease_and_sets_them_again(agent: AgentRelease) -> None:
    controller = await agent.process(CONTROLLER)
    controller.signal(SIGSTOP)
    took_s = await eventually(lambda: _is_restored(agent), within_s=LEASE_S + 10)
    # Renewed last at most a tick before it was stopped.
    assert took_s > LEASE_S - 10
    controller.signal(SIGCONT)
    await eventually(lambda: capped(agent), within_s=30)


async def test_a_killed_actuator_is_restarted_restores_and_caps_again(agent: AgentRelease) -> None:
    (await agent.process(ACTUATOR)).signal(SIGKILL)
    await eventually(lambda: restarted(agent, ACTUATOR), within_s=30)

    async def leftovers_were_restored() -> None:
        assert '"restored"' in await agent.logs(ACTUATOR)

    await eventually(leftovers_were_restored, within_s=15)
    await eventually(lambda: capped(agent), within_s=30)
    assert (await agent.status(CONTROLLER))["restartCount"] == 0
    # The originals have outlived both.
    await agent.uninstall("--no-hooks", "--wait")
    await eventually(lambda: _is_restored(agent), within_s=GRACE_S)


async def test_a_deleted_pod_gives_back_before_it_is_gone_and_its_successor_caps_again(agent: AgentRelease) -> None:
    name = (await agent.pod())["metadata"]["name"]
    seen: list[list[float]] = []

    async def replaced() -> None:
        if not seen or seen[-1] != agent.limits_watts:
            seen.append(agent.limits_watts)
        assert name not in [pod["metadata"]["name"] for pod in await agent.pods()]
        await capped(agent)

    await agent.client.delete(PODS, name, NAMESPACE)
    await eventually(replaced, within_s=GRACE_S + 30)
    assert ORIGINALS in seen, seen


async def test_an_uninstall_gives_back_what_a_hanging_actuator_has_left(agent: AgentRelease, site: Site) -> None:
    await site.stack.operator.stop()
    (await agent.process(ACTUATOR)).signal(SIGSTOP)
    output = await agent.uninstall()
    assert restored(agent), output
    assert await agent.pods() == []


async def _is_restored(agent: AgentRelease) -> Any:
    assert restored(agent), agent.limits_watts
