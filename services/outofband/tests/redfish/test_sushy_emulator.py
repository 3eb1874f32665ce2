"""The client against OpenStack's sushy-emulator over TLS."""

import asyncio
import os
import signal
from contextlib import suppress

import pytest
from services.outofband.tests.redfish.emulator import sushy_emulator

from joulie_core.kinds.node_bmc import PowerState
from joulie_outofband.reasons import BmcError, BmcReason


@pytest.fixture
async def emulator(tmp_path):
    async with sushy_emulator(tmp_path) as found:
        yield found


async def until(read, expected, timeout_s=60):
    """Read until the value is there; a refused connection is a service that is starting."""
    async with asyncio.timeout(timeout_s):
        while True:
            with suppress(BmcError):
                if await read() == expected:
                    return
            await asyncio.sleep(0.05)


async def test_a_server_is_powered_off_and_on_with_the_credentials_in_each_request(emulator, open_bmc):
    bmc = open_bmc(emulator)

    async def state():
        return (await bmc.report()).power_state

    await until(state, PowerState.ON)
    report = await bmc.report()
    assert (report.watts, report.limit, report.capability.cappable) == (None, None, False)
    assert {"On", "ForceOff", "GracefulShutdown"} <= set(report.capability.reset_types)
    await bmc.reset("ForceOff")
    await until(state, PowerState.OFF)
    await bmc.reset("On")
    await until(state, PowerState.ON)
    await bmc.close()


async def test_a_process_that_is_stopped_is_a_deadline_and_answers_when_it_continues(emulator, open_bmc):
    bmc = open_bmc(emulator, timeout_s=2)

    async def state():
        return (await bmc.report()).power_state

    await until(state, PowerState.ON)
    os.kill(emulator.pid, signal.SIGSTOP)
    with pytest.raises(BmcError) as caught:
        await bmc.report()
    assert caught.value.reason is BmcReason.TIMED_OUT
    os.kill(emulator.pid, signal.SIGCONT)
    await until(state, PowerState.ON)


async def test_wrong_credentials_are_refused(emulator, open_bmc):
    right, wrong = open_bmc(emulator), open_bmc(emulator, password="other")

    async def state():
        return (await right.report()).power_state

    await until(state, PowerState.ON)
    with pytest.raises(BmcError) as caught:
        await wrong.report()
    assert caught.value.reason is BmcReason.UNAUTHORIZED
