"""OpenStack's sushy-emulator, a Redfish service of another project, as a process that serves over TLS.

It has no sessions, no power reading and no limit; its power states change one to eleven seconds after a request.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import bcrypt

from joulie_devcluster.control_plane.pki import Authority
from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_devcluster.host.process import base_environment

USER, PASSWORD = "root", "calvin"
_SYSTEM = {"uuid": "4e2fdbb4-6a4c-4a0a-8b1e-3a9bd4d1c001", "name": "n1", "power_state": "On", "nics": []}


@dataclass(frozen=True, slots=True)
class Emulator:
    """An emulator that runs: its URL, the file with the certificate that verifies it, and its process."""

    address: str
    ca: Path
    pid: int


@asynccontextmanager
async def sushy_emulator(directory: Path, *, power_url: str | None = None) -> AsyncIterator[Emulator]:
    """Run an emulator of one server that is on; its files are written to `directory`.

    Args:
        directory: an existing directory.
        power_url: where the emulator PUTs the server, as JSON with `power_state`, before it tells a change of its
            power to anyone; None for nowhere.
    """
    authority, port = Authority.create("emulator"), free_port()
    certificate, key = authority.issue_server("bmc", [LOOPBACK]).write(directory, "emulator")
    ca, _ = authority.pair.write(directory, "emulator-ca")
    passwords, state = directory / "htpasswd", directory / "emulator-state"
    passwords.write_text(f"{USER}:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n")
    state.mkdir()
    settings = {
        "SUSHY_EMULATOR_LISTEN_IP": LOOPBACK,
        "SUSHY_EMULATOR_LISTEN_PORT": port,
        "SUSHY_EMULATOR_SSL_CERT": str(certificate),
        "SUSHY_EMULATOR_SSL_KEY": str(key),
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_AUTH_FILE": str(passwords),
        "SUSHY_EMULATOR_STATE_DIR": str(state),
        "SUSHY_EMULATOR_FAKE_SYSTEMS": [_SYSTEM | {"external_notifier": power_url is not None}],
        "EXTERNAL_NOTIFICATION_URL": power_url,
    }
    config = directory / "emulator.conf"
    config.write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()))
    program = Path(sys.executable).with_name("sushy-emulator")
    with (directory / "emulator.log").open("wb") as log:
        # Without a proxy of the environment, through which it would send the server.
        process = await asyncio.create_subprocess_exec(
            program, "--config", config, stdout=log, stderr=log, env=base_environment()
        )
    try:
        yield Emulator(f"https://{LOOPBACK}:{port}", ca, process.pid)
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGCONT)
            process.kill()
        await process.wait()
