"""Debian's ipmi_sim with DCMI, and the foreign programs that judge what it holds."""

import asyncio
import os
import shlex
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from joulie_outofband.endpoint import parse_endpoint
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
become() { [ "$(cat {state}/stuck)" = 1 ] || { {follow} "$1" && echo "$1" > {state}/power; }; }
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
    """An ipmi_sim that runs.

    Its directory has the files `power` (0 or 1), `stuck` (1: the power never changes), `requests` (those to change the
    power, in their sequence), and the ones of dcmi.c.
    """

    def __init__(self, state: Path, port: int, process: asyncio.subprocess.Process) -> None:
        self.state = state
        self.port = port
        self.process = process
        self.opened: list[IpmiBmc] = []
        self.address = f"ipmi://127.0.0.1:{port}"

    def set(self, **values: object) -> None:
        """Write files of the directory."""
        for name, value in values.items():
            (self.state / name).write_text(f"{value}\n")

    def get(self, name: str) -> list[str]:
        """Return the lines of a file of the directory, none if there is no such file."""
        path = self.state / name
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def bmc(self, *, password: str = PASSWORD, timeout_s: float = 2.0) -> IpmiBmc:
        """Return a client of the service."""
        self.opened.append(IpmiBmc(parse_endpoint(self.address), USER, password, request_timeout_s=timeout_s))
        return self.opened[-1]

    async def ipmitool(self, *words: str) -> str:
        """Return what ipmitool prints."""
        return await _run("ipmitool", "-I", "lanplus", "-C", "3", "-H", "127.0.0.1", "-p", str(self.port),
                          "-U", USER, "-P", PASSWORD, *words)  # fmt: skip

    async def freeipmi(self, program: str, *words: str) -> str:
        """Return what a program of freeipmi prints."""
        return await _run(program, "-D", "LAN_2_0", "-I", "3", "-l", "ADMIN", "-W", "opensesspriv", "-u", USER,
                          "-p", PASSWORD, "-h", f"127.0.0.1:{self.port}", *words)  # fmt: skip


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    return out.decode()


def compile_dcmi(directory: Path) -> Path:
    """Return the DCMI module, compiled; skip the test where what it needs is not installed."""
    missing = [each for each in _NEEDED if shutil.which(each) is None]
    if not Path("/usr/include/OpenIPMI/mcserv.h").exists():
        missing.append("OpenIPMI/mcserv.h")
    if missing:
        pytest.skip(f"no {', '.join(missing)} (Debian: openipmi, libopenipmi-dev, ipmitool, freeipmi-tools, gcc)")
    built = directory / "dcmi.so"
    command = ["gcc", "-shared", "-fPIC", "-o", str(built), str(_HERE / "dcmi.c")]
    assert os.spawnvp(os.P_WAIT, "gcc", command) == 0
    return built


@asynccontextmanager
async def ipmi_sim(module: Path, directory: Path, *, follow: Sequence[str] = ("true",)) -> AsyncIterator[Simulated]:
    """Run an ipmi_sim of a server that is on; its files are written to `directory`.

    Args:
        module: the DCMI module.
        directory: an existing directory.
        follow: command that makes the server's power so, called with 0 or 1 before the BMC tells it to anyone.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    state = directory / "state"
    state.mkdir()
    chassis = directory / "chassis.sh"
    chassis.write_text(_CHASSIS.replace("{state}", str(state)).replace("{follow}", shlex.join(follow)))
    chassis.chmod(0o755)
    values = {"port": port, "chassis": chassis, "user": USER, "password": PASSWORD, "module": module, "state": state}
    (directory / "lan.conf").write_text(_LAN.format(**values))
    (directory / "cmds.emu").write_text(_COMMANDS)
    with (directory / "ipmi_sim.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "ipmi_sim", "-c", directory / "lan.conf", "-f", directory / "cmds.emu", "-s", state, "-n",
            stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    found = Simulated(state, port, process)
    found.set(power=1, stuck=0, watts=344)
    try:
        async with asyncio.timeout(20):
            while "Chassis Power is on" not in await found.ipmitool("-N", "1", "-R", "1", "power", "status"):
                assert process.returncode is None, (directory / "ipmi_sim.log").read_text()
        yield found
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGCONT)
        for each in found.opened:
            with suppress(BmcError):
                await each.close()
        if process.returncode is None:
            process.kill()
        await process.wait()
