"""What the actuator may write of the node's /sys: the chart's mounts, made for real, and the real program on them."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chart import Helm, Manifest, find
from tests.mounts import below, environment

from joulie_actuator import blocking_client
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import Request, SetCpuCap, SetThrottle
from joulie_actuator.replies import ErrorReply, Reply
from joulie_core.control_result import ControlResult
from joulie_devcluster.real_node.requirements import missing_privileges
from joulie_testing.agent.fake_sysfs import FakeMachine, build
from joulie_testing.agent.machine_spec import PLATFORMS

pytestmark = pytest.mark.skipif(missing_privileges() is not None, reason="mounting takes root with CAP_SYS_ADMIN")

ORIGINAL, CAP_WATTS = [150, 150], 90
WRITABLE = ("devices/system/cpu/", "devices/virtual/")
#: Tells every file below the working directory that opening for writing would not be refused by its mount or mode.
LIST_WRITABLE = """
import os
for directory, _, names in os.walk("."):
    for name in names:
        path = os.path.join(directory, name)
        if not os.path.islink(path) and os.access(path, os.W_OK):
            print(path[2:])
"""


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    made = build(tmp_path / "machine", PLATFORMS["xeon-2s"])
    for directory in ("bus", "devices/virtual", "devices/platform/amd_hsmp"):
        (made.sys / directory).mkdir(parents=True, exist_ok=True)
    for other in ("kernel/uevent_helper", "devices/pci0000:00/remove", "devices/platform/amd_hsmp/power1_cap"):
        (made.sys / other).parent.mkdir(parents=True, exist_ok=True)
        (made.sys / other).write_text("0\n")
    return made


def agent(helm: Helm, sys: Path, tmp_path: Path, **actuator: object) -> Manifest:
    paths = {"hostSysPath": str(sys), "hostStatePath": str(tmp_path / "state")}
    (tmp_path / "state").mkdir(exist_ok=True)
    return find(helm.render({"agent": {"actuator": paths | actuator}}), "DaemonSet", "joulie-agent")


def listing(manifest: Manifest, root: Path) -> list[str]:
    """Files of the node's /sys that the actuator may write."""
    command = [
        *below(root, manifest),
        sys.executable,
        "-c",
        f"import os; os.chdir({f'{root}/host-sys'!r}){LIST_WRITABLE}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("hsmp", [False, True])
def test_only_the_directories_of_power_and_frequency_limits_are_writable(helm, machine, tmp_path, hsmp):
    found = listing(agent(helm, machine.sys, tmp_path, hsmp={"enabled": hsmp}), tmp_path / "root")
    for limit in (*machine.limits(), *machine.policy_limits()):
        assert limit in found
    platform = [file for file in found if not file.startswith(WRITABLE)]
    assert platform == (["devices/platform/amd_hsmp/power1_cap"] if hsmp else [])


def test_the_mounts_can_be_made_on_this_machines_own_sys_and_leave_the_rest_read_only(helm, tmp_path):
    found = listing(agent(helm, Path("/sys"), tmp_path), tmp_path / "root")
    assert found
    assert [file for file in found if not file.startswith(WRITABLE)] == []


def test_a_node_without_powercap_and_cpufreq_has_every_directory_that_is_mounted(helm, machine, tmp_path):
    machine.unload_rapl()
    (machine.sys / "class").mkdir(exist_ok=True)
    shutil.rmtree(machine.sys / "devices/system/cpu/cpufreq")
    assert machine.policy_limits() == machine.limits() == ()
    assert "devices/system/cpu/online" in listing(agent(helm, machine.sys, tmp_path), tmp_path / "root")


@pytest.fixture
def actuator(helm: Helm, machine: FakeMachine, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    manifest, root = agent(helm, machine.sys, tmp_path), tmp_path / "root"
    (root / "run/joulie").mkdir(parents=True)
    process = subprocess.Popen(
        [*below(root, manifest), sys.executable, "-m", "joulie_agent", "actuator"],
        env=os.environ | environment(root, manifest),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if '"listening"' in line:
            break
    yield process
    process.kill()
    process.communicate()


def asked(tmp_path: Path, request: Request) -> Reply | HardwareFailure:
    reply = blocking_client.request(f"{tmp_path}/root/run/joulie/actuator.sock", request, 30)
    assert not isinstance(reply, ErrorReply | HardwareFailure), reply
    return reply


def test_an_actuator_caps_throttles_and_restores_through_mounts_inside_a_read_only_tree(actuator, machine, tmp_path):
    original_khz = {path: machine.read(path) for path in machine.policy_limits()}
    cap = SetCpuCap(cap_watts_per_package=CAP_WATTS, lease_s=60.0)
    assert asked(tmp_path, cap).result is ControlResult.APPLIED
    assert [machine.read(path) / 1e6 for path in machine.limits()] == [CAP_WATTS, CAP_WATTS]
    assert asked(tmp_path, SetThrottle(throttle_pct=100, lease_s=60.0)).result is ControlResult.APPLIED
    assert all(machine.read(path) < original_khz[path] for path in original_khz)
    actuator.send_signal(signal.SIGTERM)
    assert actuator.wait(timeout=30) == 0
    assert [machine.read(path) / 1e6 for path in machine.limits()] == ORIGINAL
    assert {path: machine.read(path) for path in machine.policy_limits()} == original_khz
