"""A cluster with three nodes, of which one has a BMC and may sleep, for tests of sleeping nodes.

The power of the simulated server decides whether its node is ready, as a kubelet would: KWOK stands for the kubelet
while the server is on, and for nothing while it is off.
"""

import asyncio
import contextlib
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from tests.e2e.system import SHORT_LEASE
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.errors import NotFound
from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES, PODS, SECRETS
from joulie_core.kinds.base import API_VERSION
from joulie_core.timestamps import rfc3339
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import CpuClass, NodeClass
from joulie_devcluster.fixtures import Starter, create_namespace
from joulie_sim.bmc.kubelet import set_kubelet
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import ServedBmc, serve_bmc
from joulie_sim.stack.service import JoulieService, Service
from joulie_sim.stack.stack import NAMESPACE, JoulieStack, StackConfig

NODE = "sleepy-0"
OTHERS = ("sleepy-1", "sleepy-2")
CORES = 192
_ENV = {
    Service.OPERATOR: {"SLEEP_ENABLED": "true", "SLEEP_INTERVAL": "500ms", **SHORT_LEASE},
    Service.OUTOFBAND: {
        "BMC_POLL_INTERVAL": "300ms",
        "BMC_TRANSITION_INTERVAL": "300ms",
        # A reading from after the last pod is there when a node goes to sleep, seconds later.
        "STATUS_HEARTBEAT": "1s",
        **SHORT_LEASE,
    },
}
_POLICY = {
    "nodeSelector": {"kubernetes.io/hostname": NODE},
    "mode": "Act",
    "minAwake": {"count": 0, "spare": 0},
    "idleSeconds": 1,
    "minAwakeSeconds": 0,
    "consolidation": {"mode": "Act", "belowPercent": 50},
    "drainTimeoutSeconds": 4,
    "offTimeoutSeconds": 60,
    "bootTimeoutSeconds": 60,
    "backOffSeconds": 1,
}


class ServerClock:
    """Seconds by which a simulated server changes its power state; they stand still while it is held.

    A test that looks at a server between two states holds it there, however slow the machine is that runs the test.
    """

    def __init__(self) -> None:
        self._behind_s = 0.0
        self._held_at_s: float | None = None

    def __call__(self) -> float:
        return self._held_at_s if self._held_at_s is not None else time.monotonic() - self._behind_s

    def hold(self) -> None:
        self._held_at_s = self()

    def release(self) -> None:
        held_at_s, self._held_at_s = self(), None
        self._behind_s = time.monotonic() - held_at_s


class _Machine:
    """The machine behind a BMC: runs its kubelet while it is on."""

    def __init__(self, view: ClusterView, served: ServedBmc, clock: ServerClock) -> None:
        self.clock = clock
        self.bmc = served.bmc
        self.bmc_address, self.bmc_ca = served.address, served.ca
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
                await set_kubelet(self._view.client, NODE, runs=on, boot_id=boot_id)
            if on:
                await self._report_pods()
            await asyncio.sleep(0.1)

    async def _report_pods(self) -> None:
        """Report running pods ready again, as a kubelet does and KWOK does not.

        The controller manager says that the pods of a node that is not ready are not ready either, seconds later.
        """
        for name, pod in (await self._view.pods()).items():
            conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
            ready = conditions.get("Ready", {}).get("status") == "True"
            if pod["spec"].get("nodeName") == NODE and pod["status"].get("phase") == "Running" and not ready:
                conditions["Ready"] = {
                    "type": "Ready",
                    "status": "True",
                    "lastTransitionTime": rfc3339(time.time(), "seconds"),
                }
                status = {"status": {"conditions": [*conditions.values()]}}
                with contextlib.suppress(NotFound):
                    await self._view.client.merge_patch(PODS, name, status, self._view.namespace, subresource="status")


class SleepSite:
    """One cluster with its services and a machine."""

    def __init__(self, view: ClusterView, stack: JoulieStack, machine: _Machine) -> None:
        self.view = view
        self.stack = stack
        self.machine = machine

    async def node(self) -> dict:
        return json.loads(await self.view.client.get(NODES, NODE))

    async def state(self) -> str:
        return (await self.node())["metadata"]["labels"].get("joulie.io/sleep-state", "awake")

    async def reaches(self, *states: str, within_s: float = 40) -> None:
        async def there() -> None:
            state = await self.state()
            assert state in states, f"{state}, {await self.status()}"

        await eventually(there, within_s=within_s)

    async def put_policy(self, name: str = "night", **spec: object) -> None:
        body = {"apiVersion": API_VERSION, "kind": "NodeSleepPolicy", "metadata": {"name": name}}
        await self.view.client.create(NODE_SLEEP_POLICIES, {**body, "spec": _POLICY | spec})

    async def change_policy(self, **spec: object) -> None:
        await self.view.client.merge_patch(NODE_SLEEP_POLICIES, "night", {"spec": spec})

    async def status(self, name: str = "night") -> dict:
        return (await self.view.objects(NODE_SLEEP_POLICIES)).get(name, {}).get("status", {})

    async def condition(self, kind: str, name: str = "night") -> tuple[str, str] | None:
        found = {each["type"]: each for each in (await self.status(name)).get("conditions", ())}
        return (found[kind]["status"], found[kind].get("message", "")) if kind in found else None

    async def marks(self) -> tuple[bool, ...]:
        """Return whether the Node has the label, the taint and the record of a node that sleeps, and is ready."""
        node = await self.node()
        meta, taints = node["metadata"], {each["key"] for each in node["spec"].get("taints", ())}
        ready = next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready")
        return (
            "joulie.io/sleep-state" in meta["labels"],
            "joulie.io/asleep" in taints,
            "joulie.io/sleep-record" in meta.get("annotations", {}),
            ready == "True",
        )

    async def desire(self, power: str | None) -> None:
        await self.view.client.merge_patch(NODE_BMCS, NODE, {"spec": {"desiredPower": power}})

    async def prove(self) -> None:
        """Power the server off and on again by hand, which proves the wake path."""

        async def bmc(power: str, proven: str) -> None:
            status = (await self.view.objects(NODE_BMCS))[NODE].get("status", {})
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


async def _put_bmc(view: ClusterView, served: ServedBmc) -> None:
    entries = {"username": "root", "password": "calvin", "addresses": served.address, "ca.crt": served.ca.read_text()}
    encoded = {key: b64encode(value.encode()).decode() for key, value in entries.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"}, "data": encoded}
    await view.client.create(SECRETS, body, NAMESPACE)
    spec = {
        "nodeName": NODE,
        "protocol": "redfish",
        "address": served.address,
        "credentialsSecretRef": {"name": "bmc"},
        "powerOff": "Allowed",
    }
    body = {"apiVersion": API_VERSION, "kind": "NodeBMC", "metadata": {"name": NODE}, "spec": spec}
    await view.client.create(NODE_BMCS, body)


@contextlib.asynccontextmanager
async def sleep_site(start_cluster: Starter, tmp_path: Path) -> AsyncIterator[SleepSite]:
    """Start the cluster with its services and the machine."""
    profile = replace(PROFILES["openbmc"], graceful_off_s=2.0, power_on_s=1.0)
    nodes = (NodeClass(name="sleepy", count=3, cpu=CpuClass(model="AMD-EPYC-9654", cores=CORES, threads_per_core=1)),)
    cluster = await start_cluster(ClusterConfig(nodes=nodes))
    stack = JoulieStack(cluster, StackConfig(services=(Service.OPERATOR, Service.EXTENDER), env=_ENV))
    clock = ServerClock()
    server = SimulatedServer(profile, clock=clock)
    try:
        async with (
            serve_bmc(SimulatedBmc(profile, server, user="root", password="calvin"), tmp_path) as served,
            await cluster.client(user_agent="joulie-tests") as client,
        ):
            view = ClusterView(client, sim_url="", namespace=await create_namespace(client))
            await stack.up()
            await stack.start(Service.OUTOFBAND)
            await _put_bmc(view, served)
            machine = _Machine(view, served, clock)
            power = asyncio.create_task(machine.run())
            try:
                yield SleepSite(view, stack, machine)
                assert not power.done() or power.exception() is None
            finally:
                power.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await power
    finally:
        await stack.down()
        await cluster.down()


async def end(service: JoulieService) -> None:
    """Kill a service."""
    service.kill()
    await service.wait(5)
