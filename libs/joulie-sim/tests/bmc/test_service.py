"""The simulated BMC as its clients see it."""

import asyncio
from dataclasses import replace

import pytest

from joulie_sim.bmc.profiles import PROFILES, TagRule
from joulie_sim.bmc.resources import CONTROL, ENVIRONMENT, POWER, RESET, SESSIONS, SYSTEM

CAP_300 = {"PowerControl": [{"PowerLimit": {"LimitInWatts": 300}}]}


async def test_without_credentials_nothing_but_the_root_is_served(serve, requests_to):
    served = await serve("plain")
    ask = requests_to(served)
    assert (await ask("GET", "/redfish/v1/", Authorization="none"))[0] == 200
    assert (await ask("GET", SYSTEM, Authorization="none"))[0] == 401


async def test_the_ninth_session_is_refused_until_one_is_deleted(serve, requests_to):
    served = await serve("plain")
    ask = requests_to(served)
    login = {"UserName": "root", "Password": "calvin"}
    created = [await ask("POST", SESSIONS, login) for _ in range(9)]
    assert [status for status, _, _ in created] == [201] * 8 + [503]
    assert (await ask("DELETE", created[0][1]["Location"]))[0] == 204
    assert (await ask("POST", SESSIONS, login))[0] == 201


async def test_a_wrong_password_makes_no_session(serve, requests_to):
    served = await serve("plain")
    status, headers, _ = await requests_to(served)("POST", SESSIONS, {"UserName": "root", "Password": "x"})
    assert (status, "X-Auth-Token" in headers, served.bmc.sessions) == (401, False, {})


async def test_a_reading_is_as_old_as_the_profile_has_it(serve, requests_to, clock):
    served = await serve("plain")
    ask = requests_to(served)

    async def watts():
        return (await ask("GET", POWER))[2]["PowerControl"][0]["PowerConsumedWatts"]

    assert await watts() == 344
    served.bmc.server.demand_watts = 500
    clock.now = 59
    assert await watts() == 344
    clock.now = 60
    assert await watts() == 500


SET_POINT, NO_SET_POINT = {"SetPoint": 300, "ControlMode": "Automatic"}, {"ControlMode": "Disabled"}
#: Profile, path of the limit, and the changes that set it and switch it off.
LIMITS = [
    ("plain", POWER, CAP_300, {"PowerControl": [{"PowerLimit": {"LimitInWatts": None}}]}),
    ("openbmc", ENVIRONMENT, {"PowerLimitWatts": SET_POINT}, {"PowerLimitWatts": NO_SET_POINT}),
    (replace(PROFILES["xcc2"], tags=TagRule.OPTIONAL), CONTROL, SET_POINT, NO_SET_POINT),
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit[1])
async def test_a_limit_holds_the_power_until_it_is_switched_off(serve, requests_to, limit):
    profile, path, cap, off = limit
    served = await serve(profile)
    ask, server = requests_to(served), served.bmc.server
    assert (await ask("PATCH", path, cap))[0] == 204
    assert (server.limit_watts, server.watts) == (300, 300)
    assert (await ask("PATCH", path, off))[0] == 204
    assert (server.limit_watts, server.watts) == (None, 344)


@pytest.mark.parametrize("watts", [199, 801])
async def test_a_limit_out_of_range_is_refused(serve, requests_to, watts):
    served = await serve("plain")
    body = {"PowerControl": [{"PowerLimit": {"LimitInWatts": watts}}]}
    assert (await requests_to(served)("PATCH", POWER, body))[0] == 400
    assert served.bmc.server.limit_watts is None


async def test_without_a_licence_a_limit_is_refused(serve, requests_to):
    served = await serve("unlicensed")
    status, _, body = await requests_to(served)("PATCH", POWER, CAP_300)
    assert (status, body["error"]["code"]) == (403, "iLO.2.14.LicenseKeyRequired")


async def test_a_tag_can_be_required(serve, requests_to):
    served = await serve("xcc2")
    ask = requests_to(served)
    change = {"SetPoint": 300, "ControlMode": "Automatic"}
    assert (await ask("PATCH", CONTROL, change))[0] == 428
    assert (await ask("PATCH", CONTROL, change, If_Match='"wrong"'))[0] == 412
    tag = (await ask("GET", CONTROL))[1]["ETag"]
    assert (await ask("PATCH", CONTROL, change, If_Match=tag))[0] == 204


async def test_of_changes_under_way_with_one_tag_the_first_is_made(serve, requests_to):
    served = await serve("plain")
    ask, proceed = requests_to(served), asyncio.Event()
    tag = (await ask("GET", POWER))[1]["ETag"]
    async with asyncio.timeout(10):
        answers = [await ask.patch(POWER, CAP_300, proceed, If_Match=tag) for _ in range(3)]
        proceed.set()
        assert sorted(await asyncio.gather(*answers)) == [204, 412, 412]


async def test_a_weak_tag_can_be_compared_in_its_strong_form(serve, requests_to):
    served = await serve("ami")
    ask = requests_to(served)
    tag = (await ask("GET", POWER))[1]["ETag"]
    assert tag.startswith("W/")
    assert (await ask("PATCH", POWER, CAP_300))[0] == 428
    assert (await ask("PATCH", POWER, CAP_300, If_Match=tag))[0] == 412
    assert (await ask("PATCH", POWER, CAP_300, If_Match=tag.removeprefix("W/")))[0] == 204


async def test_a_tag_can_move_with_each_reading(serve, requests_to):
    served = await serve("idrac9")
    ask = requests_to(served)
    old = (await ask("GET", POWER))[1]["ETag"]
    await ask("GET", POWER)
    assert (await ask("PATCH", POWER, CAP_300, If_Match=old))[0] == 412


async def test_an_action_with_a_tag_is_refused(serve, requests_to):
    served = await serve("plain")
    ask = requests_to(served)
    assert (await ask("POST", RESET, {"ResetType": "ForceOff"}, If_Match="*"))[0] == 412
    assert served.bmc.server.power_state == "On"


async def test_power_changes_after_the_time_of_the_profile(serve, requests_to, clock):
    served = await serve(replace(PROFILES["plain"], graceful_off_s=10, power_on_s=5))
    ask, server = requests_to(served), served.bmc.server
    assert (await ask("POST", RESET, {"ResetType": "GracefulShutdown"}))[0] == 204
    assert server.power_state == "PoweringOff"
    clock.now = 10
    assert (server.power_state, server.watts) == ("Off", 9.0)
    await ask("POST", RESET, {"ResetType": "On"})
    assert server.power_state == "PoweringOn"
    clock.now = 15
    assert (server.power_state, server.watts) == ("On", 344)


async def test_a_graceful_shutdown_can_be_ignored(serve, requests_to, clock):
    served = await serve(replace(PROFILES["plain"], graceful_off_s=None))
    assert (await requests_to(served)("POST", RESET, {"ResetType": "GracefulShutdown"}))[0] == 204
    clock.now = 1e6
    assert served.bmc.server.power_state == "On"


async def test_an_unknown_reset_type_is_refused(serve, requests_to):
    served = await serve("plain")
    assert (await requests_to(served)("POST", RESET, {"ResetType": "Nmi"}))[0] == 400
    assert served.bmc.server.resets == []


async def test_a_slow_answer_delays_no_other_client(serve, requests_to):
    served = await serve(replace(PROFILES["plain"], latency_s=0.05))
    ask = requests_to(served)
    answers = await asyncio.gather(*(ask("GET", SYSTEM) for _ in range(3)))
    assert [status for status, _, _ in answers] == [200, 200, 200]
