"""The agent's one image as two containers: a controller without any right, an actuator without a network.

The machine is a fake two-socket one on the engine's host, mounted where a pod has the node's /sys.
"""

import asyncio
import subprocess
from pathlib import Path

import pytest

from joulie_devcluster.host.ports import LOOPBACK, free_port
from joulie_testing.agent.fake_sysfs import FakeMachine
from joulie_testing.agent.machine_spec import PLATFORMS
from joulie_testing.agent.stub_gpus import stub_hardware
from joulie_testing.api import make_node, make_node_power_profile

pytestmark = pytest.mark.docker

STUBS = Path(__file__).parents[2] / "libs/joulie-actuator/tests/stubs"
#: The actuator's lease, 60 s, and some more.
LEASE_S = 75.0
POLL_S = 0.1
CAPPED, ORIGINAL = [90, 90], [150, 150]
#: As the chart mounts them.
SYS_DIRECTORIES = {
    "class": "ro",
    "bus": "ro",
    "devices": "ro",
    "devices/system/cpu": "rw",
    "devices/virtual": "rw",
}
PROFILE = make_node_power_profile("n1", cpu={"packagePowerCapPctOfMax": 60})


class Node:
    """A node: its hardware, and the directories that its containers share."""

    def __init__(self, directory, start, fake_api):
        self.machine = FakeMachine(directory / "machine", PLATFORMS["xeon-2s"])
        (self.machine.sys / "bus").mkdir()
        self._api = fake_api
        self._start = start
        self._kubeconfig = fake_api.kubeconfig(directory)
        self._state, self._run = directory / "state", directory / "run"
        self._state.mkdir()
        self._run.mkdir()
        self._run.chmod(0o755)

    @property
    def limits_watts(self):
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    async def privileged(self, *arguments, volumes=(), **env):
        """Start a command with hardware access: root without capabilities.

        Root owns the files of /sys, and as a member of the socket's group it can give the socket to it.
        """
        return await self._start(
            "agent",
            *arguments,
            user="0:0",
            group_add=["65532"],
            network_mode="none",
            env={"HOST_PROC_ROOT": "/host-proc", **env},
            volumes=(
                *(f"{self.machine.sys}/{path}:/host-sys/{path}:{mode}" for path, mode in SYS_DIRECTORIES.items()),
                f"{self.machine.proc}:/host-proc:ro",
                f"{self._state}:/var/lib/joulie:rw",
                f"{self._run}:/run/joulie:rw",
                *volumes,
            ),
        )

    async def actuator(self):
        actuator = await self.privileged("actuator")
        await actuator.until_logged("listening")
        return actuator

    async def controller(self):
        env = {
            "NODE_NAME": "n1",
            "KUBECONFIG": "/etc/joulie/kubeconfig",
            "METRICS_ADDR": f"{LOOPBACK}:{free_port()}",
            "RECONCILE_INTERVAL": "1s",
        }
        volumes = (f"{self._kubeconfig}:/etc/joulie/kubeconfig:ro", f"{self._run}:/run/joulie:ro")
        return await self._start("agent", env=env, volumes=volumes, network_mode="host")

    async def until(self, watts, timeout_s=30.0):
        async with asyncio.timeout(timeout_s):
            while self.limits_watts != watts:  # noqa: ASYNC110 - files have no change notification
                await asyncio.sleep(POLL_S)

    def report(self):
        telemetry = self._api.get("TelemetryProfile", "n1") or {}
        return telemetry.get("status", {}).get("control", {}).get("cpu", {})


@pytest.fixture
def node(start, fake_api, tmp_path):
    fake_api.put_all([make_node("n1"), PROFILE])
    return Node(tmp_path, start, fake_api)


@pytest.fixture
async def capped(node):
    """A node under its target, its actuator and its controller."""
    actuator = await node.actuator()
    controller = await node.controller()
    await node.until(CAPPED)
    return node, actuator, controller


async def test_a_target_is_enforced_and_restored_when_both_containers_stop(capped, fake_api):
    node, actuator, controller = capped
    await fake_api.wait_for(lambda: node.report().get("result") == "applied")
    assert node.report()["enforcedWatts"] == 90
    await controller.signal("SIGTERM")
    assert await controller.end() == 0
    await actuator.signal("SIGTERM")
    assert await actuator.end() == 0
    assert node.limits_watts == ORIGINAL


async def test_the_actuator_restores_after_the_lease_of_a_killed_controller(capped):
    node, actuator, controller = capped
    await controller.signal("SIGKILL")
    assert await controller.end() == 137
    assert node.limits_watts == CAPPED
    await node.until(ORIGINAL, LEASE_S)
    assert await actuator.state() == "running"


async def test_restore_in_its_own_container_restores_what_a_killed_actuator_left(capped):
    node, actuator, controller = capped
    await controller.signal("SIGKILL")
    await actuator.signal("SIGKILL")
    assert (await controller.end(), await actuator.end()) == (137, 137)
    assert node.limits_watts == CAPPED
    restore = await node.privileged("restore")
    assert await restore.end() == 0, await restore.log()
    assert node.limits_watts == ORIGINAL
    assert "2 restored, none left" in await restore.log()


async def test_a_restarted_actuator_takes_over_the_limits_of_a_killed_one(capped):
    node, actuator, controller = capped
    await actuator.signal("SIGKILL")
    await actuator.end()
    again = await node.actuator()
    await node.until(CAPPED)
    await controller.signal("SIGTERM")
    await controller.end()
    await again.signal("SIGTERM")
    assert await again.end() == 0
    assert node.limits_watts == ORIGINAL


async def test_the_doctor_shows_what_the_container_can_access(node, start):
    doctor = await node.privileged("doctor")
    assert await doctor.end() == 0
    output = await doctor.log()
    assert "hardware below /host-sys" in output
    assert "150 W per package" in output
    blind = await start("agent", "doctor")
    assert await blind.end() == 0
    assert "hardware below /sys, read by uid 65532" in await blind.log()


async def test_the_doctor_finds_driver_libraries_mounted_from_the_node(node, tmp_path):
    """Mounted where NVIDIA's container runtime puts its own, and with ROCm's folder."""
    nvml, amdsmi = compiled("nvml/nvml.c", tmp_path), compiled("amdsmi/amdsmi.c", tmp_path)
    hardware = stub_hardware(tmp_path / "gpus")
    hardware.state.add("GPU-1", "NVIDIA H100")
    gpus = hardware.path
    without = await node.privileged("doctor")
    assert await without.end() == 0
    assert "libnvidia-ml.so.1: cannot open" in await without.log()
    assert "libamd_smi.so is not found" in await without.log()
    lent = await node.privileged(
        "doctor",
        volumes=(
            f"{nvml}:/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1:ro",
            f"{amdsmi}:/opt/rocm/lib/libamd_smi.so:ro",
            f"{gpus}:/gpus:rw",
        ),
        JOULIE_STUB_GPU_STATE="/gpus",
    )
    assert await lent.end() == 0
    output = await lent.log()
    assert "NVIDIA H100 GPU-1: 200 to 700 W, now 700 W" in output
    assert "is not found" not in output


async def test_neither_has_a_capability_and_the_actuator_no_network(capped):
    _, actuator, controller = capped
    assert await python(controller, STATUS) == f"{0:016x} 65532"
    assert await python(actuator, STATUS) == f"{0:016x} 0"
    assert await python(actuator, INTERFACES) == "lo"
    assert await python(controller, "import os; print(os.path.exists('/host-sys'))") == "False"


STATUS = """
output = dict(line.split(":", 1) for line in open("/proc/1/status"))
print(output["CapEff"].strip(), output["Uid"].split()[1])
"""
INTERFACES = "import socket; print(*(name for _, name in socket.if_nameindex()))"


def compiled(source, directory):
    """Compile one of the agent's stub libraries."""
    library = directory / Path(source).with_suffix(".so").name
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, STUBS / source], check=True, timeout=60)
    return library


async def python(running, code):
    """Run Python beside a container's process, as the same user."""
    user = running.container.attrs["Config"]["User"]
    done = await asyncio.to_thread(running.container.exec_run, ["/opt/joulie/bin/python", "-c", code], user=user)
    assert done.exit_code == 0, done.output
    return done.output.decode().strip()
