"""The out-of-band service on a real API server, with its own roles, and a simulated BMC over TLS."""

import time

import pytest
from tests.e2e.bmc import PASSWORD, USER, put_bmc
from tests.e2e.view import ClusterView
from tests.e2e.waiting import eventually

from joulie_api.resources import NODE_BMCS, NODES, PODS
from joulie_core.timestamps import rfc3339
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_sim.bmc.machine import SimulatedServer
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.service import SimulatedBmc
from joulie_sim.bmc.serving import ServedBmc, serve_bmc
from joulie_sim.stack.service import Service
from joulie_sim.stack.stack import JoulieStack
from joulie_testing.api import make_pod

pytestmark = pytest.mark.e2e

_NODE, _OTHER = "server-17", "server-18"
_FAST = {"BMC_POLL_INTERVAL": "200ms", "BMC_TRANSITION_INTERVAL": "200ms", "LEASE_RETRY_PERIOD": "500ms"}


@pytest.fixture
async def served(tmp_path):
    profile = PROFILES["xcc2"]
    server = SimulatedServer(profile, clock=time.monotonic)
    async with serve_bmc(SimulatedBmc(profile, server, user=USER, password=PASSWORD), tmp_path) as found:
        yield found


@pytest.fixture
async def service(devcluster: DevCluster, bare: ClusterView):
    stack = JoulieStack(devcluster)
    try:
        yield await stack.start(Service.OUTOFBAND, env=_FAST)
    finally:
        await stack.down()


async def _boot(view: ClusterView, boot_id: str, node: str = _NODE) -> None:
    """Report the node ready, as its kubelet does after a boot."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    status = {"conditions": [ready], "nodeInfo": {"bootID": boot_id}}
    await view.client.merge_patch(NODES, node, {"status": status}, subresource="status")


async def test_a_server_is_capped_and_powered_off_and_on_by_its_object(
    bare: ClusterView, service: object, served: ServedBmc
) -> None:
    server = served.bmc.server

    async def status() -> dict:
        return (await bare.objects(NODE_BMCS))[_NODE].get("status", {})

    async def condition(kind: str) -> tuple[str, str] | None:
        found = {each["type"]: (each["status"], each["reason"]) for each in (await status()).get("conditions", ())}
        return found.get(kind)

    async def change(**spec: object) -> None:
        await bare.client.merge_patch(NODE_BMCS, _NODE, {"spec": spec})

    async def capped(expected: tuple[str, str]) -> None:
        assert await condition("Capped") == expected

    async def power(state: str, wake: tuple[str, str]) -> None:
        assert ((await status()).get("powerState"), await condition("WakeProven")) == (state, wake)

    await bare.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE}})
    await put_bmc(bare, served, _NODE, powerOff="Allowed")
    await eventually(lambda: capped(("False", "NoCap")), within_s=20)
    assert (await status())["powerWatts"] == 344

    await change(cap={"watts": 300, "expiresAt": rfc3339(time.time() + 600, "seconds")})
    await eventually(lambda: capped(("True", "InForce")), within_s=20)
    assert (server.limit_watts, (await status())["cap"]["owner"]) == (300, "Joulie")
    await change(cap=None)
    await eventually(lambda: capped(("False", "NoCap")), within_s=20)
    assert server.limit_watts is None

    await _boot(bare, "before")
    await change(desiredPower="Off")
    await eventually(lambda: power("Off", ("Unknown", "NotTried")), within_s=20)
    await change(desiredPower="On")
    await eventually(lambda: power("On", ("Unknown", "NotTried")), within_s=20)
    await _boot(bare, "after")
    await eventually(lambda: power("On", ("True", "Woken")), within_s=20)
    assert server.resets == ["GracefulShutdown", "On"]


async def test_a_pod_that_tolerates_everything_keeps_the_power_of_its_node_on_until_it_is_gone(
    bare: ClusterView, service: object, served: ServedBmc
) -> None:
    server = served.bmc.server

    async def power(expected: tuple[str, str]) -> None:
        status = (await bare.objects(NODE_BMCS))[_OTHER].get("status", {})
        found = {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", ())}
        assert found.get("PowerAsDesired") == expected

    asleep = {"taints": [{"key": "joulie.io/asleep", "effect": "NoSchedule"}]}
    await bare.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _OTHER}, "spec": asleep})
    await _boot(bare, "before", _OTHER)
    pod = make_pod("debug", bare.namespace, node=_OTHER)
    # Without a kubelet, a time of grace would not end.
    pod["spec"] |= {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}
    await bare.client.create(PODS, pod, bare.namespace)
    await put_bmc(bare, served, _OTHER, powerOff="Allowed")
    asked = {"metadata": {"annotations": {"joulie.io/requested-power": "Off"}}, "spec": {"desiredPower": "Off"}}
    await bare.client.merge_patch(NODE_BMCS, _OTHER, asked)
    await eventually(lambda: power(("False", "PodsOnNode")), within_s=20)
    assert server.resets == []
    await bare.delete_pods(["debug"])
    await eventually(lambda: power(("True", "AsDesired")), within_s=20)
    assert server.resets == ["GracefulShutdown"]
