"""Three API servers behind one address: what the services notice of one that hangs, and of a short pause of etcd."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.e2e.api_address import behind_an_address
from tests.e2e.system import System

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.host.readiness import tls_context, wait_until_ready

#: Longer than etcd needs to elect a leader: one to two seconds with its own settings.
_ELECTION_S = 3.0
_AFTER_ELECTION_S = 12.0
#: Longer than the silence after which a watch is opened again, with every attempt that may follow.
_HANG_S = 100.0
#: A connection to the server that hangs fails after 1 s; a few may follow each other before one to another server.
_UNREADY_S = 5.0


@asynccontextmanager
async def _replicas(cluster: DevCluster, count: int) -> AsyncIterator[list[ServiceProcess]]:
    """Start further API servers on the cluster's etcd; its own is the first of the list."""
    first, port = cluster.processes[Binary.APISERVER], cluster.port_of(Binary.APISERVER)
    pki = cluster.layout.pki
    context = tls_context(pki / "ca.crt", pki / "admin.crt", pki / "admin.key")
    more = []
    try:
        for number in range(1, count):
            own_port = free_port()
            argv = [each.replace(f"--secure-port={port}", f"--secure-port={own_port}") for each in first.argv]
            name = f"{first.name}-{number}"
            server = ServiceProcess(name, argv, log_path=cluster.layout.log(name), cwd=first.cwd)
            await server.start()
            more.append(server)
            await wait_until_ready(server, f"https://{LOOPBACK}:{own_port}/readyz", timeout_s=60, context=context)
        yield [first, *more]
    finally:
        for server in more:
            await server.stop()


async def _pause_etcd(cluster: DevCluster) -> None:
    """Let etcd answer nothing for as long as an election takes; its connections stay, as those to a follower do."""
    etcd = cluster.processes[Binary.ETCD]
    etcd.pause()
    try:
        await asyncio.sleep(_ELECTION_S)
    finally:
        etcd.resume()


def _ports(servers: Sequence[ServiceProcess]) -> list[int]:
    return [
        int(option.partition("=")[2])
        for server in servers
        for option in server.argv
        if option.startswith("--secure-port=")
    ]


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.system(
    operator={"LEASE_DURATION": "60s", "LEASE_RENEW_DEADLINE": "50s"},
    extender={"CACHE_TTL": "1s"},
)
async def test_services_stay_ready_in_an_election_of_etcd_and_but_for_seconds_while_one_of_three_api_servers_hangs(
    system: System,
) -> None:
    async with (
        _replicas(system.stack.cluster, 3) as servers,
        behind_an_address(system, _ports(servers)) as outages,
    ):
        served = outages.address.served
        assert min(served.values()) >= len(outages.services), served
        unready_s, _ = await asyncio.gather(
            outages.longest_unready_s(_ELECTION_S + _AFTER_ELECTION_S), _pause_etcd(system.stack.cluster)
        )
        print(f"etcd pauses for {_ELECTION_S:g} s, longest time not ready: {unready_s}")
        assert max(unready_s.values()) == 0, unready_s
        servers[1].pause()
        try:
            longest_s = await outages.longest_unready_s(_HANG_S)
        finally:
            servers[1].resume()
        print(f"one of three hangs for {_HANG_S:g} s, longest time not ready: {longest_s}")
        assert max(longest_s.values()) <= _UNREADY_S, longest_s
        for service in outages.services:
            await outages.ready(service)
