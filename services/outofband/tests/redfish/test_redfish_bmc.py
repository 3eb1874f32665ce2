"""One BMC through its links, whatever its vendor."""

from dataclasses import replace

import pytest

from joulie_core.kinds.node_bmc import LimitException, PowerLimitUnit, PowerState
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_sim.bmc.profiles import PROFILES
from joulie_sim.bmc.resources import CONTROL, ENVIRONMENT, POWER, RESET, SYSTEM

CAPPABLE = ["plain", "idrac9", "xcc2", "ami", "openbmc", "tagless", "moving"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_power_state_and_watts_are_read_from_every_bmc(serve, open_bmc, profile):
    report = await open_bmc(await serve(profile)).report()
    assert (report.power_state, report.watts, report.capability.readable) == (PowerState.ON, 344, True)


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_reset_types_of_every_bmc_are_those_that_it_takes(serve, open_bmc, profile):
    bmc = open_bmc(await serve(profile))
    assert (await bmc.report()).capability.reset_types == PROFILES[profile].reset_types
    for kind in PROFILES[profile].reset_types:
        await bmc.reset(kind)


@pytest.mark.parametrize("profile", CAPPABLE)
async def test_a_limit_is_written_read_back_and_switched_off_whatever_the_tags_are(serve, open_bmc, profile):
    served = await serve(profile)
    bmc = open_bmc(served)
    assert (await bmc.report()).limit.watts is None
    await bmc.set_limit(300)
    assert (served.bmc.server.limit_watts, (await bmc.limit()).watts) == (300, 300)
    await bmc.set_limit(None)
    assert (served.bmc.server.limit_watts, (await bmc.limit()).watts) == (None, None)


async def test_a_tag_that_moved_between_reading_and_writing_is_read_again(serve, open_bmc, monkeypatch):
    served = await serve(replace(PROFILES["xcc2"], tags_move=True))
    bmc, require, refused = open_bmc(served), served.bmc._require_tag, []

    def moving(sent, body):
        # The weak and the strong form of the first tag come too late.
        if len(refused) < 2:
            refused.append(sent)
            served.bmc._generation += 1
        require(sent, body)

    monkeypatch.setattr(served.bmc, "_require_tag", moving)
    await bmc.report()
    await bmc.set_limit(300)
    assert (served.bmc.server.limit_watts, len(refused)) == (300, 2)


@pytest.mark.parametrize(("profile", "path"), [("plain", POWER), ("xcc2", CONTROL), ("openbmc", ENVIRONMENT)])
async def test_the_limit_is_found_by_links_in_each_of_its_places(serve, open_bmc, profile, path):
    capability = (await open_bmc(await serve(profile)).report()).capability
    assert (capability.cap_path, capability.cappable, capability.unit) == (path, True, PowerLimitUnit.WATTS)
    assert (capability.min_watts is not None) == (profile != "plain")


async def test_a_limit_in_percent_is_not_cappable(serve, open_bmc):
    report = await open_bmc(await serve("bluefield")).report()
    assert (report.capability.cappable, report.capability.unit) == (False, PowerLimitUnit.PERCENT)
    assert (report.limit.watts, report.limit.max_watts) == (None, None)


async def test_a_bmc_without_a_limit_has_readings_only(serve, open_bmc):
    report = await open_bmc(await serve("meter")).report()
    assert (report.limit, report.capability.cappable, report.capability.cap_path) == (None, False, "")


async def test_the_limit_exception_and_the_interval_are_read(serve, open_bmc):
    report = await open_bmc(await serve("idrac9")).report()
    assert report.capability.limit_exception is LimitException.HARD_POWER_OFF
    assert report.interval_s == 60


async def test_a_limit_exception_of_a_vendor_is_not_taken_for_a_harmless_one(serve, open_bmc):
    report = await open_bmc(await serve(replace(PROFILES["plain"], limit_exception="Oem"))).report()
    assert report.capability.limit_exception is LimitException.OTHER


async def test_a_missing_licence_is_named(serve, open_bmc):
    bmc = open_bmc(await serve("unlicensed"))
    await bmc.report()
    with pytest.raises(BmcError, match="LicenseKeyRequired") as caught:
        await bmc.set_limit(300)
    assert caught.value.reason is BmcReason.LICENCE_MISSING


async def test_a_limit_out_of_range_is_refused(serve, open_bmc):
    bmc = open_bmc(await serve("plain"))
    await bmc.report()
    with pytest.raises(BmcError) as caught:
        await bmc.set_limit(5000)
    assert caught.value.reason is BmcReason.REFUSED


async def test_a_reset_is_requested_without_a_tag(serve, open_bmc):
    served = await serve("plain")
    bmc = open_bmc(served)
    await bmc.report()
    await bmc.reset("ForceOff")
    assert ("POST", RESET) in served.bmc.requests
    assert (await bmc.report()).power_state is PowerState.OFF


async def test_the_layout_is_discovered_once(serve, open_bmc):
    served = await serve("xcc2")
    bmc = open_bmc(served)
    await bmc.report()
    served.bmc.requests.clear()
    await bmc.report()
    assert served.bmc.requests == [("GET", SYSTEM), ("GET", ENVIRONMENT), ("GET", CONTROL)]


async def test_a_system_can_be_named(serve, open_bmc):
    served = await serve("plain")
    assert (await open_bmc(served, system=SYSTEM).report()).power_state is PowerState.ON
    with pytest.raises(BmcError) as caught:
        await open_bmc(served, system="/redfish/v1/Systems/2").report()
    assert caught.value.reason is BmcReason.REFUSED
