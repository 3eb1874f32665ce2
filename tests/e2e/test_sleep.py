"""A node goes to sleep and wakes on a real control plane: by its BMC, the real out-of-band service and the operator.

The power of the simulated server decides whether its node is ready, as a kubelet would: KWOK stands for the kubelet
while the server is on, and for nothing while it is off.
"""

import asyncio
import contextlib
import json
import time
from base64 import b64encode
from dataclasses import replace

import pytest
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES, SECRETS, Resource
from joulie_core.kinds.base import API_VERSION
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.fixtures import Starter, create_namespace
from joulie_sim.bmc.kubelet import set_kubelet
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import ServedBmc, serve_bmc
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import NAMESPACE, JoulieStack, StackConfig

pytestmark = pytest.mark.e2e

_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
_NODE = "sleepy-0"
_OTHERS = ("sleepy-1", "sleepy-2")
_CORES = 192
_LEASE = {"LEASE_DURATION": "4s", "LEASE_RENEW_DEADLINE": "3s", "LEASE_RETRY_PERIOD": "500ms"}
_ENV = {
    Service.OPERATOR: {"SLEEP_ENABLED": "true", "SLEEP_INTERVAL": "500ms", **_LEASE},
    Service.OUTOFBAND: {"BMC_POLL_INTERVAL": "300ms", "BMC_TRANSITION_INTERVAL": "300ms", **_LEASE},
}
_POLICY = {
    "nodeSelector": {"kubernetes.io/hostname": _NODE},
    "mode": "Act",
    "minAwake": {"count": 0, "spare": 0},
    "idleSeconds": 1,
    "minAwakeSeconds": 0,
    "drainBelowPercent": 50,
    "drainTimeoutSeconds": 4,
    "offTimeoutSeconds": 60,
    "bootTimeoutSeconds": 60,
    "backOffSeconds": 1,
}
_APP = {"app": "guarded"}


class _Machine:
    """The machine behind a BMC: runs its kubelet while it is on."""

    def __init__(self, view: ClusterView, served: ServedBmc) -> None:
        self.server = served.bmc.server
        self._view = view
        self._runs = True

    async def run(self) -> None:
        """Follow the power until cancelled."""
        while True:
            on = self.server.power_state == "On"
            if on is not self._runs:
                self._runs = on
                boot_id = f"boot-{len(self.server.resets)}"
                await set_kubelet(self._view.client, _NODE, runs=on, boot_id=boot_id)
            await asyncio.sleep(0.1)


class _Site:
    """One cluster with its services and a machine."""

    def __init__(self, view: ClusterView, stack: JoulieStack, machine: _Machine) -> None:
        self.view = view
        self.stack = stack
        self.machine = machine

    async def node(self) -> dict:
        return json.loads(await self.view.client.get(NODES, _NODE))

    async def state(self) -> str:
        return (await self.node())["metadata"]["labels"].get("joulie.io/sleep-state", "awake")

    async def reaches(self, *states: str, within_s: float = 40) -> None:
        async def there() -> None:
            state = await self.state()
            assert state in states, f"{state}, {await self.status()}"

        await eventually(there, within_s=within_s)

    async def status(self) -> dict:
        return (await self.view.objects(NODE_SLEEP_POLICIES)).get("night", {}).get("status", {})

    async def desire(self, power: str | None) -> None:
        await self.view.client.merge_patch(NODE_BMCS, _NODE, {"spec": {"desiredPower": power}})

    async def prove(self) -> None:
        """Power the server off and on again by hand, which proves the wake path."""

        async def bmc(power: str, proven: str) -> None:
            status = (await self.view.objects(NODE_BMCS))[_NODE].get("status", {})
            known = {each["type"]: each["status"] for each in status.get("conditions", ())}
            assert (status.get("powerState"), known.get("WakeProven")) == (power, proven)

        await self.desire("Off")
        await eventually(lambda: bmc("Off", "Unknown"), within_s=20)
        await self.desire("On")
        await eventually(lambda: bmc("On", "True"), within_s=30)
        await self.desire(None)
        await eventually(self._without_taints, within_s=20)

    async def _without_taints(self) -> None:
        assert not (await self.node())["spec"].get("taints")

    async def guarded(self) -> dict:
        """Return the pod of the Deployment, which runs."""
        pods = [pod for pod in (await self.view.pods()).values() if _is_guarded(pod)]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        assert len(running) == 1, f"{len(running)} pods run"
        return running[0]


def _is_guarded(pod: dict) -> bool:
    return _APP.items() <= pod["metadata"].get("labels", {}).items()


def _deployment() -> dict:
    prefer = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [_NODE]}]}
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": prefer}]}
    }
    containers = [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]
    spec = {"containers": containers, "affinity": affinity, "terminationGracePeriodSeconds": 0}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "guarded"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _APP},
            "template": {"metadata": {"labels": _APP}, "spec": spec},
        },
    }


async def _put_bmc(view: ClusterView, served: ServedBmc) -> None:
    entries = {"bmc": {"username": "root", "password": "calvin"}, "bmc-ca": {"ca.crt": served.ca.read_text()}}
    for name, data in entries.items():
        encoded = {key: b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
        await view.client.create(SECRETS, body, NAMESPACE)
    spec = {
        "nodeName": _NODE,
        "protocol": "redfish",
        "address": served.address,
        "credentialsSecretRef": {"name": "bmc"},
        "caSecretRef": {"name": "bmc-ca"},
        "powerOff": "Allowed",
    }
    body = {"apiVersion": API_VERSION, "kind": "NodeBMC", "metadata": {"name": _NODE}, "spec": spec}
    await view.client.create(NODE_BMCS, body)


@pytest.fixture
async def site(start_cluster: Starter, tmp_path):
    profile = replace(PROFILES["openbmc"], graceful_off_s=2.0, power_on_s=1.0)
    nodes = (NodeClass(name="sleepy", count=3, cpu=CpuClass(model="AMD-EPYC-9654", cores=_CORES, threads_per_core=1)),)
    cluster = await start_cluster(ClusterConfig(nodes=nodes))
    stack = JoulieStack(cluster, StackConfig(services=(Service.OPERATOR, Service.EXTENDER), env=_ENV))
    server = SimulatedServer(profile, clock=time.monotonic)
    try:
        async with (
            serve_bmc(SimulatedBmc(profile, server, user="root", password="calvin"), tmp_path) as served,
            await cluster.client(user_agent="joulie-tests") as client,
        ):
            view = ClusterView(client, sim_url="", namespace=await create_namespace(client))
            await stack.up()
            await stack.start(Service.OUTOFBAND)
            await _put_bmc(view, served)
            machine = _Machine(view, served)
            power = asyncio.create_task(machine.run())
            try:
                yield _Site(view, stack, machine)
                assert not power.done() or power.exception() is None
            finally:
                power.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await power
    finally:
        await stack.down()
        await cluster.down()


async def _restart_operator(site: _Site) -> None:
    operator = site.stack.operator
    operator.kill()
    await operator.wait(5)
    await operator.start()


async def test_a_node_sleeps_and_wakes_for_a_pending_pod_and_a_guarded_pod_is_not_lost(site: _Site) -> None:
    view, server = site.view, site.machine.server
    await site.prove()
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _APP}},
    }
    await view.client.create(_BUDGETS, budget, view.namespace)
    await view.client.create(_DEPLOYMENTS, _deployment(), view.namespace)
    await eventually(site.guarded, within_s=20)
    before = await site.guarded()
    assert before["spec"]["nodeName"] == _NODE

    body = {"apiVersion": API_VERSION, "kind": "NodeSleepPolicy", "metadata": {"name": "night"}, "spec": _POLICY}
    await view.client.create(NODE_SLEEP_POLICIES, body)
    await site.reaches("draining")
    await site.reaches("awake")
    assert (await site.guarded())["metadata"]["uid"] == before["metadata"]["uid"], "the budget holds"

    await view.client.delete(_BUDGETS, "guarded", view.namespace)
    await site.reaches("powering-off")
    await _restart_operator(site)
    await site.reaches("asleep", within_s=60)
    node = await site.node()
    conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    assert (conditions["joulie.io/Asleep"], server.power_state) == ("True", "Off")
    assert "joulie.io/asleep" in {taint["key"] for taint in node["spec"]["taints"]}
    moved = await site.guarded()
    assert moved["spec"]["nodeName"] in _OTHERS

    async def counted() -> None:
        status = await site.status()
        assert (status["nodes"]["asleep"], status["savedWatts"] > 0) == (1, True)

    await eventually(counted, within_s=10)

    pods = await view.create_pods(3, "big", cpu=str(_CORES - 10))
    began = time.monotonic()
    placed = await _all_placed(view, pods)
    assert set(placed.values()) == {_NODE, *_OTHERS}
    assert time.monotonic() - began < 60
    await site.reaches("awake")
    assert server.resets == ["GracefulShutdown", "On", "GracefulShutdown", "On"]
    bmc = (await view.objects(NODE_BMCS))[_NODE]
    assert "desiredPower" not in bmc["spec"]


async def _all_placed(view: ClusterView, pods: list[str]) -> dict[str, str]:
    await eventually(lambda: view.placed(pods), within_s=60)
    return dict(await view.placed(pods))


async def test_a_policy_that_is_deleted_wakes_its_nodes(site: _Site) -> None:
    await site.prove()
    body = {"apiVersion": API_VERSION, "kind": "NodeSleepPolicy", "metadata": {"name": "night"}, "spec": _POLICY}
    await site.view.client.create(NODE_SLEEP_POLICIES, body)
    await site.reaches("asleep")
    await site.view.client.delete(NODE_SLEEP_POLICIES, "night")
    await site.reaches("awake")
    assert site.machine.server.power_state == "On"
