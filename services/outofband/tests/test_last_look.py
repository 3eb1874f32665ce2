"""Pods that come around a power-off that the operator requests. `cluster` and its helpers are in conftest."""

from dataclasses import replace

import pytest
from services.outofband.tests.objects import ready_node

from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import RESET
from joulie_testing.api import Respond, make_pod

RESET_REQUEST = ("POST", RESET)
OPERATORS = {"metadata": {"annotations": {"joulie.io/requested-power": "Off"}}, "spec": {"desiredPower": "Off"}}
#: A shutdown that the server ignores, so that it would be forced off.
IGNORES = replace(PROFILES["plain"], graceful_off_s=None)


class Arrivals(list):
    """The requests of a BMC; calls `arrive` once, before the request is answered that `due` says."""

    def __init__(self, due, arrive):
        super().__init__()
        self.due, self.arrive, self.at = due, arrive, None

    def append(self, request):
        if self.at is None and self.due(self, request):
            self.at = len(self)
            self.arrive()
        super().append(request)


async def start(cluster, serve):
    """Serve a BMC whose node sleeps soon: tainted, without pods, and read once."""
    served = await serve(IGNORES)
    cluster.api.put(ready_node("before", tainted=True))
    cluster.put_bmc(served, powerOff="Allowed")
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("True", "Unmanaged"))
    return served.bmc


def bind(cluster):
    cluster.api.put(make_pod("debug", node="n1"))


@pytest.mark.parametrize("request_of_the_pass", [0, 1, 2])
async def test_a_pod_that_is_bound_before_the_reset_is_requested_keeps_the_power_on(
    cluster, serve, request_of_the_pass
):
    bmc = await start(cluster, serve)
    bmc.requests = Arrivals(lambda before, _: len(before) == request_of_the_pass, lambda: bind(cluster))
    cluster.api.patch("NodeBMC", "n1", OPERATORS)
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "PodsOnNode"))
    assert bmc.server.resets == []
    assert RESET_REQUEST not in bmc.requests
    cluster.api.remove("Pod", "debug", "default")
    await cluster.until(lambda: cluster.status()["powerState"] == "Off")


async def test_a_pod_that_is_bound_while_the_bmc_takes_the_request_is_named_and_never_cut_by_force(cluster, serve):
    bmc = await start(cluster, serve)
    bmc.requests = Arrivals(lambda _, request: request == RESET_REQUEST, lambda: bind(cluster))
    cluster.api.patch("NodeBMC", "n1", OPERATORS)
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "PodsOnNode"))
    # Several deadlines of the shutdown pass.
    await cluster.until(lambda: len(bmc.requests) > bmc.requests.at + 40)
    assert bmc.server.resets == ["GracefulShutdown"]
    assert cluster.condition("PowerAsDesired") == ("False", "PodsOnNode")
    # What the operator does next.
    cluster.api.patch("NodeBMC", "n1", {"metadata": {"annotations": {"joulie.io/requested-power": "On"}}})
    cluster.change(desiredPower="On")
    bmc.server.reset("ForceOff")  # The server has shut down after all.
    await cluster.until(lambda: bmc.server.resets[-1] == "On")


async def test_a_power_off_waits_while_pods_cannot_be_listed(cluster, serve):
    bmc = await start(cluster, serve)
    cluster.api.faults.add(Respond(503), verb="list", path="/api/v1/pods", times=None)
    before = len(bmc.requests)
    cluster.api.patch("NodeBMC", "n1", OPERATORS)
    await cluster.until(lambda: len(bmc.requests) > before + 12)
    assert bmc.server.resets == []
