"""An address in front of the API servers, through which the services of a system reach them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from tests.e2e.service_address import ServiceAddress
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.host.ports import free_port
from joulie_devcluster.host.readiness import fetch, tls_context
from joulie_sim.stack.service import JoulieService

_POLL_S = 0.25


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
        await self._get("/readyz")

    async def api_lists(self) -> None:
        """The API server answers a consistent list.

        After a long pause of etcd it is ready seconds before: its watch caches are connected again later.
        """
        await self._get("/apis/joulie.io/v1alpha1/nodetwins?limit=1")

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
        lists_s = await eventually(self.api_lists, within_s=60)
        print(f"the API server answers lists {lists_s:.1f} s after it is ready")

        async def ready_in(service: JoulieService) -> float:
            return await eventually(lambda: self.ready(service), within_s=60)

        times = await asyncio.gather(*(ready_in(service) for service in self.services))
        return {service.name: round(time_s, 1) for service, time_s in zip(self.services, times, strict=True)}

    async def longest_unready_s(self, duration_s: float) -> dict[str, float]:
        """Poll every service for a time; return the longest time that each was not ready, in seconds."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + duration_s

        async def follow(service: JoulieService) -> float:
            longest_s, since = 0.0, None
            while (now := loop.time()) < ends_at:
                if await service.reason_not_ready() is None:
                    since = None
                else:
                    since = now if since is None else since
                    longest_s = max(longest_s, now + _POLL_S - since)
                await asyncio.sleep(_POLL_S)
            return longest_s

        times = await asyncio.gather(*map(follow, self.services))
        return {service.name: time_s for service, time_s in zip(self.services, times, strict=True)}

    async def _get(self, path: str) -> None:
        pki = self.cluster.layout.pki
        context = tls_context(pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
        try:
            status, body = await asyncio.to_thread(fetch, f"{self.cluster.server}{path}", context)
        except OSError as error:
            raise AssertionError(str(error)) from error
        assert status == 200, body


@asynccontextmanager
async def behind_an_address(system: System, backends: Sequence[int] = ()) -> AsyncIterator[Outages]:
    """Restart the services with an address in front of the API server, or of several by their ports."""
    port = free_port()
    own = system.stack.cluster.port_of(Binary.APISERVER)
    async with ServiceAddress(port, backends or [own]) as address:
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
