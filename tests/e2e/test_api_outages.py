"""Outages of the API server and of etcd: how soon operator, agents and extender are ready after the return."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.e2e.api_address import Outages, behind_an_address
from tests.e2e.system import System
from tests.e2e.waiting import eventually, holds

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.host.process import ServiceProcess

#: From the server's first answer until a service is ready.
_READY_S = 5.0
#: Longer than the failures after which everything is listed again.
_SHORT_S = 12.0
_LONG_S = 150.0

_PATIENT = {
    # A leader that cannot renew its lease ends, by design; here its watches are under test.
    "operator": {"LEASE_DURATION": "600s", "LEASE_RENEW_DEADLINE": "500s"},
    "extender": {"CACHE_TTL": "1s"},
}


Fault = Callable[[Outages, float], Awaitable[None]]


async def _restart(outages: Outages, outage_s: float) -> None:
    outages.api.kill()
    await outages.api.wait(5)
    await eventually(outages.extender_lost, within_s=90)
    await holds(outages.extender_lost, for_s=outage_s)
    await outages.api.start()


async def _hang(outages: Outages, outage_s: float) -> None:
    await _pause(outages, outages.api, outage_s)


async def _pause_etcd(outages: Outages, outage_s: float) -> None:
    """Connections are cut, as a load balancer would do that checks /readyz."""
    await _pause(outages, outages.cluster.processes[Binary.ETCD], outage_s)


async def _pause(outages: Outages, process: ServiceProcess, outage_s: float) -> None:
    process.pause()
    try:
        outages.address.cut()
        await asyncio.sleep(outage_s)
    finally:
        process.resume()


async def _measure(system: System, outage_s: float) -> None:
    async with behind_an_address(system) as outages:
        for name, fault in {"pause of etcd": _pause_etcd, "hang": _hang, "restart": _restart}.items():
            await fault(outages, outage_s)
            times = await outages.measure_return()
            print(f"{name} for {outage_s:g} s, seconds from the return to ready: {times}")
            assert max(times.values()) <= _READY_S, (name, times)


@pytest.mark.e2e
@pytest.mark.timeout(400)
@pytest.mark.system(**_PATIENT)
async def test_services_are_ready_within_seconds_of_the_return_of_the_api_server(system: System) -> None:
    await _measure(system, _SHORT_S)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.system(**_PATIENT)
async def test_services_are_ready_within_seconds_after_a_long_outage(system: System) -> None:
    await _measure(system, _LONG_S)
