"""The client against OpenStack's sushy-emulator, a Redfish service of another project, over TLS.

It has no sessions, no power reading and no limit; its power states change some seconds after a request.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import bcrypt
import pytest

from joulie_core.kinds.node_bmc import PowerState
from joulie_devcluster.control_plane.pki import Authority
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_outofband.reasons import BmcError, BmcReason

UUID = "4e2fdbb4-6a4c-4a0a-8b1e-3a9bd4d1c001"
CONFIG = """
SUSHY_EMULATOR_LISTEN_IP = "{host}"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_SSL_CERT = "{cert}"
SUSHY_EMULATOR_SSL_KEY = "{key}"
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_AUTH_FILE = "{passwords}"
SUSHY_EMULATOR_STATE_DIR = "{state}"
SUSHY_EMULATOR_FAKE_SYSTEMS = [{{"uuid": "{uuid}", "name": "n1", "power_state": "On", "nics": []}}]
"""


@pytest.fixture
async def emulator(tmp_path):
    authority, port = Authority.create("emulator"), free_port()
    cert, key = authority.issue_server("bmc", [LOOPBACK]).write(tmp_path, "bmc")
    ca, _ = authority.pair.write(tmp_path, "ca")
    passwords, state = tmp_path / "htpasswd", tmp_path / "state"
    passwords.write_text(f"root:{bcrypt.hashpw(b'calvin', bcrypt.gensalt(4)).decode()}\n")
    state.mkdir()
    values = {"host": LOOPBACK, "port": port, "cert": cert, "key": key, "passwords": passwords, "state": state}
    config = tmp_path / "emulator.conf"
    config.write_text(CONFIG.format(uuid=UUID, **values))
    log = (tmp_path / "emulator.log").open("wb")
    program = Path(sys.executable).with_name("sushy-emulator")
    process = await asyncio.create_subprocess_exec(program, "--config", config, stdout=log, stderr=log)
    yield SimpleNamespace(address=f"https://{LOOPBACK}:{port}", ca=ca, pid=process.pid)
    os.kill(process.pid, signal.SIGCONT)
    process.kill()
    await process.wait()
    log.close()


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
