"""Debian's ipmi_sim with DCMI, and the foreign programs that judge what it holds."""

import asyncio
import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from joulie_outofband.ipmi.bmc import IpmiBmc
from joulie_outofband.reasons import BmcError

USER, PASSWORD = "root", "calvin"
_HERE = Path(__file__).parent
_NEEDED = ("ipmi_sim", "gcc", "ipmitool", "ipmi-dcmi", "ipmipower")
_LAN = """
name "bmc1"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{chassis} 0x20"
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
  loadlib "{module}" "{state}"
"""
_COMMANDS = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""
#: Called as `PROGRAM 0x20 get power` and `PROGRAM 0x20 set power|shutdown VALUE`.
_CHASSIS = """#!/bin/sh
become() { [ "$(cat {state}/stuck)" = 1 ] || echo "$1" > {state}/power; }
shift; verb=$1; shift
while [ $# -gt 0 ]; do
  case "$verb $1" in
    "get power") echo "power:$(cat {state}/power)" ;;
    "set power") become "$2"; echo "power $2" >> {state}/requests; shift ;;
    "set shutdown") become 0; echo shutdown >> {state}/requests; shift ;;
    *) echo "$1:0" ;;
  esac
  shift
done
"""


class Simulated:
    """An ipmi_sim that runs."""

    def __init__(self, state, port, process):
        self.state = state
        self.port = port
        self.process = process
        self.opened = []
        self.address = f"ipmi://127.0.0.1:{port}"

    def set(self, **values):
        for name, value in values.items():
            (self.state / name).write_text(f"{value}\n")

    def get(self, name):
        path = self.state / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def bmc(self, *, password=PASSWORD, timeout_s=2.0):
        self.opened.append(IpmiBmc(self.address, USER, password, request_timeout_s=timeout_s))
        return self.opened[-1]

    async def ipmitool(self, *words):
        return await _run("ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", str(self.port),
                          "-U", USER, "-P", PASSWORD, *words)  # fmt: skip

    async def freeipmi(self, program, *words):
        return await _run(program, "-D", "LAN_2_0", "-I", "3", "-l", "ADMIN", "-W", "opensesspriv", "-u", USER,
                          "-p", PASSWORD, "-h", f"127.0.0.1:{self.port}", *words)  # fmt: skip


async def _run(*command):
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return out.decode()


@pytest.fixture(scope="session")
def module(tmp_path_factory):
    """The DCMI module, compiled."""
    missing = [each for each in _NEEDED if shutil.which(each) is None]
    if not Path("/usr/include/OpenIPMI/mcserv.h").exists():
        missing.append("OpenIPMI/mcserv.h")
    if missing:
        pytest.skip(f"no {', '.join(missing)} (Debian: openipmi, libopenipmi-dev, ipmitool, freeipmi-tools, gcc)")
    built = tmp_path_factory.mktemp("dcmi") / "dcmi.so"
    command = ["gcc", "-shared", "-fPIC", "-o", str(built), str(_HERE / "dcmi.c")]
    assert os.spawnvp(os.P_WAIT, "gcc", command) == 0
    return built


@pytest.fixture
async def simulated(module, tmp_path):
    """One ipmi_sim."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    state = tmp_path / "state"
    state.mkdir()
    chassis = tmp_path / "chassis.sh"
    chassis.write_text(_CHASSIS.replace("{state}", str(state)))
    chassis.chmod(0o755)
    values = {"port": port, "chassis": chassis, "user": USER, "password": PASSWORD, "module": module, "state": state}
    (tmp_path / "lan.conf").write_text(_LAN.format(**values))
    (tmp_path / "cmds.emu").write_text(_COMMANDS)
    with (tmp_path / "ipmi_sim.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "ipmi_sim", "-c", tmp_path / "lan.conf", "-f", tmp_path / "cmds.emu", "-s", state, "-n",
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    found = Simulated(state, port, process)
    found.set(power=1, stuck=0, watts=344)
    async with asyncio.timeout(20):
        while "Chassis Power is on" not in await found.ipmitool("-N", "1", "-R", "1", "power", "status"):
            assert process.returncode is None, (tmp_path / "ipmi_sim.log").read_text()
    yield found
    os.kill(process.pid, signal.SIGCONT)
    for each in found.opened:
        with suppress(BmcError):
            await each.close()
    process.kill()
    await process.wait()
