"""BMCs of other projects power a real node off and on, by the real out-of-band service and the operator.

The node stands for the machine of the BMC: its kubelet, its runtime and its containers are killed with the power, and
started again with it. Nothing else tells the API server about it.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from services.outofband.tests.ipmi.simulated import Simulated, compile_dcmi, ipmi_sim
from services.outofband.tests.redfish.emulator import sushy_emulator
from tests.e2e.bmc import put_bmc, put_ipmi
from tests.e2e.conftest import FAILED
from tests.e2e.container_node import run_pod
from tests.e2e.powered_node import PoweredNode
from tests.e2e.system import SHORT_LEASE
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_BMCS, NODE_SLEEP_POLICIES, NODES
from joulie_core.labels import ASLEEP_TAINT, MANAGED, SLEEP_STATE
from joulie_devcluster.control_plane.config import ClusterConfig
from joulie_devcluster.control_plane.nodes import HOSTNAME_LABEL, CpuClass, NodeClass
from joulie_devcluster.fixtures import RealNodeStarter, Starter, create_namespace
from joulie_devcluster.real_node.node import RealNodeConfig
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack, StackConfig

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

_NODE = "real-0"
# At most half of a zone may sleep. These two are of KWOK.
_OTHERS = NodeClass(name="other", count=2, cpu=CpuClass(model="AMD-EPYC-9654", cores=8, threads_per_core=1))
# A node is not ready ten seconds after its kubelet was last heard of.
_LEASE_S = 8
_ENV = {
    Service.OPERATOR: {"SLEEP_ENABLED": "true", "SLEEP_INTERVAL": "500ms", **SHORT_LEASE},
    Service.OUTOFBAND: {
        "BMC_POLL_INTERVAL": "500ms",
        "BMC_TRANSITION_INTERVAL": "500ms",
        # The BMC of a test has ended when the next one's is worked on.
        "BMC_REQUEST_TIMEOUT": "4s",
        # Longer than sushy-emulator takes for a change of the power, which a repeated request puts off.
        "GRACEFUL_OFF_TIMEOUT": "12s",
        "POWER_REPEAT_INTERVAL": "12s",
        **SHORT_LEASE,
    },
}
_POLICY = {
    "nodeSelector": {HOSTNAME_LABEL: _NODE},
    "mode": "Act",
    "minAwake": {"count": 0, "spare": 0},
    "idleSeconds": 1,
    "minAwakeSeconds": 0,
}


@dataclass(frozen=True, slots=True)
class _Site:
    """One cluster with its services and the machine."""

    view: ClusterView
    machine: PoweredNode

    async def node(self) -> dict[str, Any]:
        return json.loads(await self.view.client.get(NODES, _NODE))

    async def bmc(self) -> dict[str, Any]:
        """Return the status of the NodeBMC."""
        return json.loads(await self.view.client.get(NODE_BMCS, _NODE)).get("status", {})

    async def desire(self, power: str | None) -> None:
        await self.view.client.merge_patch(NODE_BMCS, _NODE, {"spec": {"desiredPower": power}})

    async def power_is(self, power: str, *, within_s: float = 30) -> None:
        async def told() -> None:
            status = await self.bmc()
            assert status.get("powerState") == power, status

        await eventually(told, within_s=within_s)

    async def node_is(self, *, ready: bool) -> None:
        async def told() -> None:
            assert _is_ready(await self.node()) is ready

        await eventually(told, within_s=30)

    async def sleep_is(self, state: str) -> None:
        async def told() -> None:
            policies = await self.view.objects(NODE_SLEEP_POLICIES)
            assert _sleep_state(await self.node()) == state, policies

        await eventually(told, within_s=60)

    async def cycle(self) -> float:
        """Power the machine off and on again by its NodeBMC, and return the boot time in seconds."""
        await self.power_is("On")
        assert _is_ready(await self.node())
        await self.desire("Off")
        await self.power_is("Off")
        assert self.machine.node.processes == {}
        await self.node_is(ready=False)
        await self.power_is("Off")
        await self.desire("On")
        await self.power_is("On")
        await self.node_is(ready=True)
        self.machine.node.check()

        async def proven() -> None:
            status = await self.bmc()
            conditions = {each["type"]: each["status"] for each in status["conditions"]}
            assert conditions.get("WakeProven") == "True", status

        await eventually(proven, within_s=20)
        await self.desire(None)
        return (await self.bmc())["bootSeconds"]

    async def put_policy(self) -> None:
        """Let the node sleep while nothing needs it."""
        kind = {"apiVersion": NODE_SLEEP_POLICIES.api_version, "kind": "NodeSleepPolicy"}
        policy = {**kind, "metadata": {"name": "night"}, "spec": _POLICY}
        await self.view.client.create(NODE_SLEEP_POLICIES, policy)

    async def delete_policy(self) -> None:
        await self.view.client.delete(NODE_SLEEP_POLICIES, "night")

    async def forget(self) -> None:
        """Delete the NodeBMC."""
        await self.view.client.delete(NODE_BMCS, _NODE)


def _is_ready(node: dict[str, Any]) -> bool:
    return {"Ready": "True"}.items() <= {each["type"]: each["status"] for each in node["status"]["conditions"]}.items()


def _sleep_state(node: dict[str, Any]) -> str:
    return node["metadata"]["labels"].get(SLEEP_STATE, "awake")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(
    start_cluster: Starter, start_real_node: RealNodeStarter
) -> AsyncIterator[tuple[JoulieStack, PoweredNode]]:
    cluster = await start_cluster(ClusterConfig(nodes=(_OTHERS,), node_lease_s=_LEASE_S))
    stack = JoulieStack(cluster, StackConfig(services=(Service.OPERATOR,), env=_ENV))
    try:
        node = await start_real_node(cluster, RealNodeConfig(name=_NODE, labels={MANAGED: "true"}))
        await stack.up()
        await stack.start(Service.OUTOFBAND)
        machine = PoweredNode(node)
        async with machine.served():
            yield stack, machine
        cluster.check()
        await node.down()
    finally:
        await stack.down()
        await cluster.down()


@pytest_asyncio.fixture(loop_scope="module")
async def site(request: pytest.FixtureRequest, stack: tuple[JoulieStack, PoweredNode]) -> AsyncIterator[_Site]:
    services, machine = stack
    async with await services.cluster.client(user_agent="joulie-tests") as client:
        yield _Site(ClusterView(client, sim_url="", namespace=await create_namespace(client)), machine)
    if request.node.stash.get(FAILED, False):
        for name, process in services.services.items():
            print(f"--- {name}\n{process.log_tail()}")


async def test_sushy_emulator_powers_a_real_node_off_and_on_over_tls(site: _Site, tmp_path: Path) -> None:
    async with sushy_emulator(tmp_path, power_url=site.machine.url) as emulator:
        await put_bmc(site.view, emulator, _NODE, powerOff="Allowed")
        assert await site.cycle() > 0
        await site.forget()


@pytest_asyncio.fixture(loop_scope="module")
async def bmc(site: _Site, tmp_path: Path) -> AsyncIterator[Simulated]:
    """An ipmi_sim that has powered the machine off and on once, which proves the wake path."""
    async with ipmi_sim(compile_dcmi(tmp_path), tmp_path, follow=site.machine.follow) as found:
        await put_ipmi(site.view, found.address, _NODE, powerOff="Allowed")
        await site.cycle()
        yield found
        await site.forget()


async def test_a_real_node_sleeps_by_ipmi_and_wakes_for_a_pending_pod(site: _Site, bmc: Simulated) -> None:
    view, node = site.view, site.machine.node
    assert (await site.bmc())["powerWatts"] == 344
    await site.put_policy()
    await site.power_is("Off")
    seen = await site.node()
    assert (_sleep_state(seen), _is_ready(seen)) == ("powering-off", True), "the BMC alone is not believed"
    await site.sleep_is("asleep")
    seen = await site.node()
    assert not _is_ready(seen)
    assert ASLEEP_TAINT in {taint["key"] for taint in seen["spec"]["taints"]}
    assert node.processes == {}

    pod = await run_pod(node, view.client, view.namespace, "night-job", cpu="1")
    await eventually(pod.pids, within_s=60)
    node.check()
    await site.sleep_is("awake")
    assert bmc.get("requests") == ["shutdown", "power 1", "shutdown", "power 1"]
    assert "Chassis Power is on" in await bmc.ipmitool("power", "status")
    await site.delete_policy()
    await pod.delete()


async def test_a_machine_that_halts_with_its_power_on_is_not_asleep_until_the_power_is_forced_off(
    site: _Site, bmc: Simulated
) -> None:
    bmc.set(stuck=1)
    await site.put_policy()

    async def requested() -> None:
        assert bmc.get("requests")[2:] == ["shutdown"]

    await eventually(requested, within_s=30)
    await site.machine.node.power_off()
    await site.node_is(ready=False)
    assert (_sleep_state(await site.node()), (await site.bmc())["powerState"]) == ("powering-off", "On")
    bmc.set(stuck=0)
    await site.sleep_is("asleep")
    assert set(bmc.get("requests")[3:]) == {"power 0"}
    assert (await site.bmc())["powerState"] == "Off"

    await site.delete_policy()
    await site.sleep_is("awake")
    await site.node_is(ready=True)
    assert bmc.get("requests")[-1] == "power 1"
