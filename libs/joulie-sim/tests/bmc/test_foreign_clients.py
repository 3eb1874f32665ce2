"""Clients of other projects judge the simulated BMC: DMTF's `redfish` and OpenStack's `sushy`."""

import asyncio
import ssl

import aiohttp
import pytest
import sushy
from redfish.aio import AsyncRedfishClient

from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import POWER, SYSTEM


@pytest.mark.parametrize("profile", PROFILES)
async def test_dmtfs_client_logs_in_reads_and_deletes_its_session(serve, profile):
    served = await serve(profile)
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(served.ca)))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        AsyncRedfishClient(served.address, "root", "calvin", session=session) as client,
    ):
        root = await client.get_service_root()
        system = await client.get(SYSTEM)
        assert len(served.bmc.sessions) == 1
    assert (root["RedfishVersion"], system.dict["PowerState"]) == ("1.17.0", "On")
    assert served.bmc.sessions == {}


async def test_dmtfs_client_sets_a_limit(serve):
    served = await serve("plain")
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(served.ca)))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        AsyncRedfishClient(served.address, "root", "calvin", session=session) as client,
    ):
        tag = (await client.get(POWER)).getheader("ETag")
        body = {"PowerControl": [{"PowerLimit": {"LimitInWatts": 250}}]}
        assert (await client.patch(POWER, body=body, headers={"If-Match": tag})).status == 204
    assert served.bmc.server.limit_watts == 250


def _power_off(served):
    auth = sushy.auth.SessionOrBasicAuth("root", "calvin")
    root = sushy.Sushy(f"{served.address}/redfish/v1", auth=auth, verify=str(served.ca))
    (system,) = root.get_system_collection().get_members()
    (chassis,) = system.chassis
    before = system.power_state
    system.reset_system(sushy.RESET_FORCE_OFF)
    system.refresh(force=True)
    auth.close()
    return before, system.power_state, chassis.chassis_type


@pytest.mark.parametrize("profile", PROFILES)
async def test_sushy_finds_the_system_by_links_and_powers_it_off(serve, profile):
    served = await serve(profile)
    before, after, kind = await asyncio.to_thread(_power_off, served)
    assert (before, after) == (sushy.POWER_STATE_ON, sushy.POWER_STATE_OFF)
    assert kind == sushy.CHASSIS_TYPE_RACK_MOUNT
    assert served.bmc.server.resets == ["ForceOff"]
    assert served.bmc.sessions == {}
