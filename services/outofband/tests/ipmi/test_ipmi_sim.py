"""IPMI and DCMI against Debian's ipmi_sim, judged by ipmitool and freeipmi."""

import os
import re
import signal

import pytest
from services.outofband.tests.objects import cap, capped
from tests.doc_commands import documented_commands

from joulie_core.kinds.node_bmc import LimitException, PowerState
from joulie_outofband.reasons import BmcError, BmcReason


async def failure(call):
    with pytest.raises(BmcError) as caught:
        await call
    assert "calvin" not in str(caught.value)
    return caught.value.reason


async def test_power_state_and_watts_are_those_that_ipmitool_and_freeipmi_read(simulated):
    bmc = simulated.bmc()
    report = await bmc.report()
    assert (report.power_state, report.watts, report.interval_s) == (PowerState.ON, 344, None)
    assert (report.capability.readable, report.capability.cappable, report.limit.watts) == (True, True, None)
    seen = await simulated.ipmitool("dcmi", "power", "reading")
    assert re.search(r"Instantaneous power reading: +344 Watts", seen)
    assert "344 Watts" in await simulated.freeipmi("ipmi-dcmi", "--get-system-power-statistics")


async def test_a_limit_is_set_and_switched_off_as_ipmitool_and_freeipmi_see_it(simulated):
    bmc = simulated.bmc()
    await bmc.set_limit(250.9)
    assert ((await bmc.limit()).watts, (await bmc.report()).watts) == (250, 250)
    seen = await simulated.ipmitool("dcmi", "power", "get_limit")
    assert "Current Limit State: Power Limit Active" in seen
    assert re.search(r"Power Limit: +250 +Watts", seen)
    seen = await simulated.freeipmi("ipmi-dcmi", "--get-power-limit")
    assert re.search(r"Power Limit Requested +: 250", seen)
    await bmc.set_limit(None)
    assert (await bmc.limit()).watts is None
    assert "No Active Power Limit" in await simulated.ipmitool("dcmi", "power", "get_limit")


async def test_a_limit_that_another_program_has_set_is_read_with_its_action(simulated):
    bmc = simulated.bmc()
    await simulated.ipmitool("dcmi", "power", "set_limit", "limit", "300")
    await simulated.ipmitool("dcmi", "power", "set_limit", "action", "power_off")
    await simulated.ipmitool("dcmi", "power", "activate")
    report = await bmc.report()
    assert (report.limit.watts, report.capability.limit_exception) == (300, LimitException.HARD_POWER_OFF)


async def test_a_server_is_powered_on_by_the_commands_of_the_page_about_sleep(simulated):
    simulated.set(power=0)
    prefix = "ipmitool -I lanplus -C 3 -H HOST -U USER -a "
    printed = ""
    for command in documented_commands():
        if command.page == "docs/sleep.md" and command.text.startswith("ipmitool"):
            assert command.text.startswith(prefix), "what the test adds by itself"
            printed += await simulated.ipmitool(*command.text.removeprefix(prefix).split())
    assert "Chassis Power Control: Up/On" in printed
    assert "Chassis Power is on" in printed
    assert simulated.get("requests") == ["power 1"]


async def test_power_is_switched_as_ipmitool_and_freeipmi_see_it(simulated):
    bmc = simulated.bmc()
    await bmc.reset("GracefulShutdown")
    assert (await bmc.report()).power_state is PowerState.OFF
    assert "Chassis Power is off" in await simulated.ipmitool("power", "status")
    await bmc.reset("On")
    assert "on" in await simulated.freeipmi("ipmipower", "--stat")
    await bmc.reset("ForceOff")
    assert (await bmc.report()).power_state is PowerState.OFF
    assert simulated.get("requests") == ["shutdown", "power 1", "power 0"]


async def test_a_limit_out_of_range_is_refused(simulated):
    simulated.set(limit_min=200)
    bmc = simulated.bmc()
    assert await failure(bmc.set_limit(150)) is BmcReason.OUT_OF_RANGE
    assert (await bmc.limit()).watts is None


async def test_a_bmc_without_dcmi_has_its_power_state_only(simulated):
    simulated.set(fault=0xC1)
    bmc = simulated.bmc()
    report = await bmc.report()
    assert (report.power_state, report.watts, report.limit) == (PowerState.ON, None, None)
    assert (report.capability.readable, report.capability.cappable) == (False, False)


async def test_a_busy_bmc_is_named_as_that(simulated):
    simulated.set(fault=0xC0)
    bmc = simulated.bmc()
    assert await failure(bmc.report()) is BmcReason.BUSY


async def test_a_reading_of_a_bmc_that_does_not_measure_is_unknown_and_not_zero(simulated):
    simulated.set(watts=0)
    bmc = simulated.bmc()
    report = await bmc.report()
    assert (report.watts, report.capability.readable) == (None, True)


async def test_a_wrong_password_is_refused(simulated):
    bmc = simulated.bmc(password="other")
    assert await failure(bmc.report()) is BmcReason.UNAUTHORIZED


async def test_a_bmc_that_hangs_is_a_deadline_and_answers_when_it_continues(simulated):
    bmc = simulated.bmc(timeout_s=0.5)
    await bmc.report()
    os.kill(simulated.process.pid, signal.SIGSTOP)
    assert await failure(bmc.report()) is BmcReason.TIMED_OUT
    os.kill(simulated.process.pid, signal.SIGCONT)
    again = simulated.bmc()
    assert (await again.report()).watts == 344


# --- the service ------------------------------------------------------------------------------------------------------


async def test_a_server_is_capped_restored_and_powered_off_by_its_object(cluster, simulated):
    cluster.put_ipmi(simulated, powerOff="Allowed", cap=cap(250))
    cluster.start()
    await cluster.until(capped(cluster, 250))
    assert (cluster.status()["powerState"], "originalWatts" in cluster.status()["cap"]) == ("On", False)
    cluster.change(cap=None)
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "NoCap"))
    assert "No Active Power Limit" in await simulated.ipmitool("dcmi", "power", "get_limit")
    cluster.change(desiredPower="Off")
    await cluster.until(lambda: cluster.status()["powerState"] == "Off")
    assert simulated.get("requests") == ["shutdown"]


async def test_a_cap_whose_exception_powers_off_is_refused(cluster, simulated):
    simulated.set(action=1)
    cluster.put_ipmi(simulated, cap=cap(250))
    cluster.start()
    await cluster.until(lambda: cluster.condition("Capped") == ("False", "LimitExceptionPowersOff"))
    assert "No Active Power Limit" in await simulated.ipmitool("dcmi", "power", "get_limit")


async def test_an_off_that_is_ignored_is_forced_and_reported(cluster, simulated):
    simulated.set(stuck=1)
    cluster.put_ipmi(simulated, powerOff="Allowed", desiredPower="Off")
    cluster.start()
    await cluster.until(lambda: cluster.condition("PowerAsDesired") == ("False", "NotFollowed"))
    assert simulated.get("requests")[:2] == ["shutdown", "power 0"]
    assert cluster.status()["powerState"] == "On"
