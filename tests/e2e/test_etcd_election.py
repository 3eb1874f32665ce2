"""Three members of etcd, of which the leader stops: the services follow the API server's own return."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from tests.e2e.api_address import Outages, behind_an_address
from tests.e2e.system import System
from tests.e2e.waiting import eventually

from joulie_devcluster.control_plane.cluster import DevCluster
from joulie_devcluster.control_plane.components import etcd_name
from joulie_devcluster.host.process import ServiceProcess
from joulie_devcluster.host.readiness import fetch, tls_context

_MEMBERS = 3
#: From the API server's first answer until a service is ready.
_READY_S = 5.0
#: Longer than the silence after which a watch is opened again.
_WITHOUT_LEADER_S = 90.0


def _members(cluster: DevCluster) -> list[ServiceProcess]:
    return [cluster.processes[etcd_name(number)] for number in range(_MEMBERS)]


async def _leads(cluster: DevCluster, member: ServiceProcess) -> bool:
    url = next(option.partition("=")[2] for option in member.argv if option.startswith("--listen-client-urls="))
    pki = cluster.layout.pki
    client = "apiserver-etcd-client"
    context = tls_context(pki / "etcd-ca.crt", pki / f"{client}.crt", pki / f"{client}.key")
    try:
        _, metrics = await asyncio.to_thread(fetch, f"{url}/metrics", context)
    except OSError:
        return False
    return "\netcd_server_is_leader 1\n" in metrics


async def _leaders(cluster: DevCluster, members: Sequence[ServiceProcess]) -> list[ServiceProcess]:
    """Return those of some members that lead: one, or none in an election."""
    return [each for each in members if await _leads(cluster, each)]


@asynccontextmanager
async def _stopped(member: ServiceProcess, *, kill: bool) -> AsyncIterator[None]:
    """Pause or kill a member for the body of the `async with` statement."""
    if kill:
        member.kill()
        await member.wait(5)
    else:
        member.pause()
    try:
        yield
    finally:
        if kill:
            await member.start()
        else:
            member.resume()


async def _follow(outages: Outages, *, kill: bool) -> None:
    """Stop the leader; compare how long services and API server are away."""
    (leader,) = await _leaders(outages.cluster, _members(outages.cluster))
    followers = [each for each in _members(outages.cluster) if each is not leader]

    async def elected() -> None:
        assert await _leaders(outages.cluster, followers)

    async with _stopped(leader, kill=kill):
        elected_s = await eventually(elected, within_s=60)
        times = await outages.measure_return()
        print(f"leader of etcd {'killed' if kill else 'paused'}: another after {elected_s:.1f} s, ready after {times}")
        assert max(times.values()) <= _READY_S, times
        longest_s = await outages.longest_unready_s(_WITHOUT_LEADER_S)
        print(f"longest time not ready in the {_WITHOUT_LEADER_S:g} s after that: {longest_s}")
        assert max(longest_s.values()) <= _READY_S, longest_s


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.system(
    etcd_members=_MEMBERS,
    operator={"LEASE_DURATION": "120s", "LEASE_RENEW_DEADLINE": "100s"},
    extender={"CACHE_TTL": "1s"},
)
async def test_services_are_ready_within_seconds_of_the_api_server_after_an_election_of_etcd(system: System) -> None:
    async with behind_an_address(system) as outages:
        await _follow(outages, kill=False)
        await _follow(outages, kill=True)
