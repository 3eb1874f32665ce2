"""Outages of the API server and of etcd: how soon operator, agents and extender are ready after the return."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from tests.e2e.service_address import ServiceAddress
from tests.e2e.system import System
from tests.e2e.waiting import eventually, holds

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.host.ports import free_port
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.host.readiness import fetch, tls_context
from joulie_sim.stack.service import JoulieService

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


class Outages:
    """The services of a system behind an address of the API server that can be cut."""

    def __init__(self, system: System, address: ServiceAddress) -> None:
        self.system = system
        self.address = address
        self.cluster = system.stack.cluster
        self.api = self.cluster.processes[Binary.APISERVER]
        self.services: list[JoulieService] = [system.operator, *system.agents, system.extender]

    async def api_answers(self) -> None:
        """The API server is ready, read past the address."""
        pki = self.cluster.layout.pki
        context = tls_context(pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        try:
            status, body = await asyncio.to_thread(fetch, f"{self.cluster.server}/readyz", context)
        except OSError as error:
            raise AssertionError(str(error)) from error
        assert status == 200, body

    async def ready(self, service: JoulieService) -> None:
        """The service is ready."""
        reason = await service.reason_not_ready()
        assert reason is None, f"{service.name}: {reason}"

    async def extender_lost(self) -> None:
        """The extender has noticed."""
        assert await self.system.extender.reason_not_ready() is not None

    async def measure_return(self) -> dict[str, float]:
        """Wait for the API server, then for each service, and return the seconds in between by service."""
        await eventually(self.api_answers, within_s=60)

        async def ready_in(service: JoulieService) -> float:
            return await eventually(lambda: self.ready(service), within_s=60)

        times = await asyncio.gather(*(ready_in(service) for service in self.services))
        return {service.name: round(time_s, 1) for service, time_s in zip(self.services, times, strict=True)}


@asynccontextmanager
async def _behind_an_address(system: System) -> AsyncIterator[Outages]:
    """Restart the services with an address in front of the API server."""
    port = free_port()
    backend = int(system.stack.cluster.server.rpartition(":")[2])
    async with ServiceAddress(port, [backend]) as address:
        outages = Outages(system, address)
        for service in outages.services:
            content = yaml.safe_load(await asyncio.to_thread(Path(service.env["KUBECONFIG"]).read_text))
            content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
            path = system.stack.cluster.layout.root / f"{service.name}-behind.kubeconfig"
            await asyncio.to_thread(path.write_text, yaml.safe_dump(content))
            await service.restart({"KUBECONFIG": str(path)})
        for service in outages.services:
            await service.wait_ready()
        yield outages


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
    async with _behind_an_address(system) as outages:
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
