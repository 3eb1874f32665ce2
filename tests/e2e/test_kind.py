"""The chart on a real three-node cluster of kind, made from the directory `kind`: from its installation to its end."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.chart import CHART, NAMESPACE, ROOT, Helm
from tests.e2e.kind_demo import DEMO_NODES, DEMO_PODS, start_demo
from tests.e2e.kind_site import ECO, KIND_DIRECTORY, ORIGINALS, KindSite
from tests.e2e.waiting import eventually, holds

from joulie_api.client import KubeClient
from joulie_api.resources import NODE_HARDWARES, NODE_TWINS, NODES, PODS
from joulie_core.labels import POWER_PROFILE
from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.kind import CLUSTER, CONTROL_PLANE, WORKERS
from joulie_devcluster.fixtures import KindStarter
from joulie_devcluster.host.progress import SilentReporter
from joulie_sim.demo.kind_nodes import NODE_SELECTOR, SIMULATED
from joulie_sim.demo.kind_release import SERVICES
from joulie_testing.api.builders import make_node

# The first run builds a node image and the images of the services.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(1500),
    pytest.mark.asyncio(loop_scope="module"),
]


def _chart_before(directory: Path) -> Path | None:
    """Return the chart of the commit before; None in a checkout without history."""
    archive = subprocess.run(["git", "archive", "HEAD~1", "helm/joulie"], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        return None
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
    return directory / "helm" / "joulie"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(
    start_kind_cluster: KindStarter, helm: Helm, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[KindSite]:
    """A cluster with the chart of the commit before, and the images of this checkout."""
    directory = tmp_path_factory.mktemp("kind")
    kubectl = lookup.ensure((Binary.KUBECTL,))[Binary.KUBECTL]
    with start_kind_cluster(directory / KIND_DIRECTORY) as cluster:
        await asyncio.to_thread(cluster.load_images, SERVICES, SilentReporter())
        machine = KindSite.prepare_machine(cluster, directory)
        client = await KubeClient.connect(kubeconfig=str(cluster.kubeconfig), user_agent="joulie-tests")
        async with client:
            helm = replace(helm, kubeconfig=cluster.kubeconfig)
            found = KindSite(cluster, client, helm, kubectl, machine, state_home=directory)
            await eventually(lambda: _nodes_ready(found), within_s=60)
            await found.release("install", chart=_chart_before(directory) or CHART)
            yield found


async def _nodes_ready(site: KindSite) -> None:
    assert await site.ready_nodes() == sorted([CONTROL_PLANE, *WORKERS])


async def _works(site: KindSite) -> None:
    """AssertionError unless all pods are ready and both machines are capped."""
    await site.ready("operator", 2)
    await site.ready("extender", 2)
    await site.ready("agent", 2)
    for worker in WORKERS:
        assert await site.limits_watts(worker) == ECO, worker


async def test_the_agents_of_the_workers_cap_their_machines_as_the_operator_plans(site: KindSite) -> None:
    await eventually(lambda: _works(site), within_s=60)
    assert {pod["spec"]["nodeName"] for pod in await site.pods("agent")} == set(WORKERS)


async def test_an_upgrade_from_the_chart_of_the_commit_before_keeps_the_caps(site: KindSite, tmp_path: Path) -> None:
    if _chart_before(tmp_path) is None:
        pytest.skip("this checkout has no commit before its own")
    await site.release("upgrade")
    assert '"revision":2' in await site.run_helm("history", CLUSTER, "--output", "json")
    await eventually(lambda: _works(site), within_s=60)


async def test_helm_test_passes(site: KindSite) -> None:
    output = await site.run_helm("test", CLUSTER, "--timeout", "120s")
    assert re.search(r"^TEST SUITE:\s+joulie-test\n(.*\n)*Phase:\s+Succeeded$", output, re.MULTILINE), output


async def test_kube_scheduler_refuses_performance_pods_eco_nodes_with_the_extenders_reason(site: KindSite) -> None:
    await eventually(lambda: _works(site), within_s=60)
    await site.create_pod("fast", "performance")
    await site.create_pod("any", "standard")

    async def refused() -> None:
        messages = await site.events("fast")
        assert any("eco" in message and "performance" in message for message in messages), messages

    await eventually(refused, within_s=30)
    await site.kubectl("wait", "--for=condition=Ready", "pod/any", "--timeout=60s")
    await site.kubectl("delete", "pod", "fast", "any", "--timeout=60s")


async def test_a_drained_worker_stays_capped_and_the_services_move(site: KindSite) -> None:
    worker, other = WORKERS
    try:
        await site.kubectl("drain", worker, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=200s")
        for component in ("operator", "extender"):
            assert worker not in {pod["spec"].get("nodeName") for pod in await site.pods(component)}
        assert await site.limits_watts(worker) == ECO
        assert await site.limits_watts(other) == ECO
    finally:
        await site.kubectl("uncordon", worker)
    await eventually(lambda: _works(site), within_s=90)


async def test_a_worker_that_restarts_is_capped_again(site: KindSite) -> None:
    worker = WORKERS[1]
    before = await _agent_containers(site, worker)
    await asyncio.to_thread(site.cluster.engine.run, "restart", worker)

    async def back() -> None:
        after = await _agent_containers(site, worker)
        assert after
        assert not before & after
        await _nodes_ready(site)
        await _works(site)

    await eventually(back, within_s=180)


async def _agent_containers(site: KindSite, node: str) -> set[str]:
    """Return the ids of the containers of a node's agent: those from before a restart are in its status for a while."""
    pods = [pod for pod in await site.pods("agent") if pod["spec"]["nodeName"] == node]
    return {each.get("containerID", "") for pod in pods for each in pod["status"].get("containerStatuses", ())}


async def test_another_operator_takes_over_from_a_deleted_one(site: KindSite) -> None:
    leader = await site.leader()
    pod = next(each for each in await site.pods("operator") if each["metadata"]["name"] in leader)
    await site.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)

    async def replaced() -> None:
        assert await site.leader() not in {"", leader}
        await _works(site)

    async def capped() -> None:
        for worker in WORKERS:
            assert await site.limits_watts(worker) == ECO

    await asyncio.gather(eventually(replaced, within_s=60), holds(capped, for_s=5))


async def test_the_demo_steers_simulated_nodes_beside_the_real_ones_and_removes_them(
    site: KindSite, tmp_path: Path
) -> None:
    # As a demo that was killed leaves it.
    await site.client.create(NODES, make_node("left-over", labels={SIMULATED: "true"}))
    demo = await start_demo(site, tmp_path)
    try:
        output = await demo.until("Everything keeps running")
        nodes = await site.client.list(NODES, label_selector=NODE_SELECTOR)
        assert len(nodes) == DEMO_NODES
        assert "left-over" not in {node["metadata"]["name"] for node in nodes}
        classes = {node["metadata"]["labels"][POWER_PROFILE] for node in nodes}
        assert classes == {"performance", "eco"}
        await eventually(lambda: _twins(site, {node["metadata"]["name"] for node in nodes}), within_s=20)
        assert set(await site.ready_nodes()) == {CONTROL_PLANE, *WORKERS, *(node["metadata"]["name"] for node in nodes)}
        # Only the demo's pods, all done, were placed there.
        pods = [pod for pod in await site.client.list(PODS) if pod["spec"].get("nodeSelector", {}).get(SIMULATED)]
        assert len(pods) == DEMO_PODS
        placed = {pod["metadata"]["name"] for pod in await site.client.list(PODS) if demo.placed(pod, nodes)}
        assert placed == {pod["metadata"]["name"] for pod in pods}
        performance = demo.summary()["pods"]["performance"]
        assert performance["placedOn"] == {"performance": performance["created"]}
        assert "the same pods without Joulie" in output
        assert "Joulie" in await demo.page()
    finally:
        assert await demo.interrupt() == 130

    async def nothing_left() -> None:
        await _nodes_ready(site)
        await _twins(site, set())
        assert not await site.client.list(PODS, "default")

    await eventually(nothing_left, within_s=60)
    await site.run_helm("rollback", CLUSTER, "--wait", "--timeout", "200s")
    await eventually(lambda: _works(site), within_s=60)


async def _twins(site: KindSite, simulated: set[str]) -> None:
    """AssertionError unless twins and hardware are those of the workers and of some simulated nodes."""
    for resource in (NODE_TWINS, NODE_HARDWARES):
        found = {each["metadata"]["name"] for each in await site.client.list(resource)}
        assert found == {*WORKERS, *simulated}, resource.kind


async def test_an_uninstall_restores_the_originals(site: KindSite) -> None:
    await site.run_helm("uninstall", CLUSTER, "--wait", "--timeout", "200s")
    for worker in WORKERS:
        assert await site.limits_watts(worker) == ORIGINALS
    assert await site.pods("agent") == []
