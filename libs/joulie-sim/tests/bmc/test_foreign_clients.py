"""Clients of other projects judge the simulated BMC: DMTF's `redfish` and OpenStack's `sushy`."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
import sushy
from redfish.aio import AsyncRedfishClient

from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import POWER

#: Those whose power is in the resource Power, the only one that sushy knows.
POWER_PROFILES = [name for name, profile in PROFILES.items() if profile.limit_place in {"Power", "none"}]


@asynccontextmanager
async def dmtf_client(served):
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(served.ca)))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        AsyncRedfishClient(served.address, "root", "calvin", session=session) as client,
    ):
        yield client


async def follow(client, body, *names):
    """Return the resource that links lead to, always to the first member of a collection."""
    for name in names:
        body = (await client.get(body[name]["@odata.id"])).dict
        if "Members" in body:
            body = (await client.get(body["Members"][0]["@odata.id"])).dict
    return body


@pytest.mark.parametrize("profile", PROFILES)
async def test_dmtfs_client_logs_in_and_deletes_its_session(serve, profile):
    served = await serve(profile)
    async with dmtf_client(served) as client:
        root = await client.get_service_root()
        system = await follow(client, root, "Systems")
        assert len(served.bmc.sessions) == 1
    assert (root["RedfishVersion"], system["PowerState"]) == ("1.17.0", "On")
    assert served.bmc.sessions == {}


async def reset_types(client, action):
    """Return the reset types that an action names, or its ActionInfo."""
    if "ResetType@Redfish.AllowableValues" in action:
        return action["ResetType@Redfish.AllowableValues"]
    info = await follow(client, {"info": {"@odata.id": action["@Redfish.ActionInfo"]}}, "info")
    return info["Parameters"][0]["AllowableValues"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_dmtfs_client_reads_the_power_by_links_and_powers_off_and_on(serve, profile):
    served = await serve(profile)
    async with dmtf_client(served) as client:
        root = await client.get_service_root()
        chassis = await follow(client, root, "Chassis")
        if "Power" in chassis:
            watts = (await follow(client, chassis, "Power"))["PowerControl"][0]["PowerConsumedWatts"]
        else:
            watts = (await follow(client, chassis, "EnvironmentMetrics"))["PowerWatts"]["Reading"]
        assert watts == 344
        for kind, state in (("ForceOff", "Off"), ("On", "On")):
            action = (await follow(client, root, "Systems"))["Actions"]["#ComputerSystem.Reset"]
            assert kind in await reset_types(client, action)
            assert (await client.post(action["target"], body={"ResetType": kind})).status == 204
            assert (await follow(client, root, "Systems"))["PowerState"] == state
    assert served.bmc.server.resets == ["ForceOff", "On"]


async def test_dmtfs_client_sets_a_limit(serve):
    served = await serve("plain")
    async with dmtf_client(served) as client:
        tag = (await client.get(POWER)).getheader("ETag")
        body = {"PowerControl": [{"PowerLimit": {"LimitInWatts": 250}}]}
        assert (await client.patch(POWER, body=body, headers={"If-Match": tag})).status == 204
    assert served.bmc.server.limit_watts == 250


async def with_sushy(served, use):
    """Return what a function makes of the only system, which it is called with in a thread."""

    def work():
        auth = sushy.auth.SessionOrBasicAuth("root", "calvin")
        root = sushy.Sushy(f"{served.address}/redfish/v1", auth=auth, verify=str(served.ca))
        (system,) = root.get_system_collection().get_members()
        try:
            return use(system)
        finally:
            auth.close()

    return await asyncio.to_thread(work)


def _power_cycle(system):
    states = [system.power_state]
    for kind in (sushy.RESET_FORCE_OFF, sushy.RESET_ON):
        system.reset_system(kind)
        system.refresh(force=True)
        states.append(system.power_state)
    (chassis,) = system.chassis
    return states, chassis.chassis_type


@pytest.mark.parametrize("profile", PROFILES)
async def test_sushy_finds_the_system_by_links_and_powers_it_off_and_on(serve, profile):
    served = await serve(profile)
    states, kind = await with_sushy(served, _power_cycle)
    assert states == [sushy.POWER_STATE_ON, sushy.POWER_STATE_OFF, sushy.POWER_STATE_ON]
    assert kind == sushy.CHASSIS_TYPE_RACK_MOUNT
    assert served.bmc.server.resets == ["ForceOff", "On"]
    assert served.bmc.sessions == {}


@pytest.mark.parametrize("profile", POWER_PROFILES)
async def test_sushy_reads_the_power(serve, profile):
    served = await serve(profile)
    power = await with_sushy(served, lambda system: system.chassis[0].power.json)
    assert power["PowerControl"][0]["PowerConsumedWatts"] == 344
