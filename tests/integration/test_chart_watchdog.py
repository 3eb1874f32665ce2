"""The host watchdog on a real systemd, installed as its init container does: it restores what a dead actuator left."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.chart import Helm, Values, env_of, find, pod_spec
from tests.e2e.waiting import eventually
from tests.host_systemd import HostSystemd, host_systemd, obstacle

from joulie_actuator import blocking_client
from joulie_actuator.protocol import SetCpuCap
from joulie_testing.agent.fake_sysfs import FakeMachine, build
from joulie_testing.agent.machine_spec import PLATFORMS

pytestmark = pytest.mark.skipif(obstacle() is not None, reason=obstacle() or "")

INTERVAL_S = 10
#: What values.yaml and docs/install.md promise.
BOUND_S = INTERVAL_S + 30
CAP_WATTS, ORIGINAL = 120, [150, 150]
NAME = "joulie-watchdog"


@dataclass(frozen=True, slots=True)
class Node:
    """A node with its systemd, a fake two-socket machine as its /sys, and the chart's watchdog rendered for it."""

    host: HostSystemd
    machine: FakeMachine
    state: Path
    #: The init container, and where its volumes are on the node.
    container: dict[str, Any]
    volumes: dict[str, str]

    def watchdog(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run the init container's program with its rights, where its volumes are on the node."""
        places = {each["mountPath"]: self.volumes.get(each["name"], "") for each in self.container["volumeMounts"]}
        env = env_of(self.container) | {
            "WATCHDOG_DIRECTORY": places["/host/watchdog"],
            "WATCHDOG_UNITS": places["/host/units"],
            "WATCHDOG_SYSTEMD": places["/host/systemd-private"],
        }
        security = self.container["securityContext"]
        assert security["capabilities"] == {"drop": ["ALL"]}
        program = [*self.container["command"][:-2], "/node/chart/watchdog.py", command]
        settings = {key: value or "" for key, value in env.items()}
        done = self.host.run(*program, env=settings, uid=security["runAsUser"], bare=True)
        print(done.stdout, done.stderr)
        return done

    @property
    def limits_watts(self) -> list[float]:
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]

    @property
    def programs(self) -> list[str]:
        """Versions of the program on the node."""
        return self.host.run("ls", self.volumes["watchdog-directory"]).stdout.split()

    def start_actuator(self) -> subprocess.Popen[str]:
        """The actuator of the node's pod, until it listens."""
        env = {
            "HOST_SYS_ROOT": str(self.machine.sys),
            "HOST_PROC_ROOT": str(self.machine.proc),
            "STATE_DIR": str(self.state),
            "ACTUATOR_SOCKET": str(self.state.parent / "actuator.sock"),
        }
        actuator = subprocess.Popen(
            [sys.executable, "-m", "joulie_agent", "actuator"], env=os.environ | env, stdout=subprocess.PIPE, text=True
        )
        assert actuator.stdout is not None
        assert any('"listening"' in line for line in iter(actuator.stdout.readline, ""))
        return actuator

    def cap(self) -> None:
        """Have the actuator set the cap, for longer than a test takes."""
        order = SetCpuCap(cap_watts_per_package=CAP_WATTS, lease_s=600.0)
        blocking_client.request(str(self.state.parent / "actuator.sock"), order, 30)
        assert self.limits_watts == [CAP_WATTS] * 2


@pytest.fixture
def actuators() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for each in started:
        each.kill()
        each.communicate()


@pytest_asyncio.fixture
async def node(helm: Helm, tmp_path: Path) -> AsyncIterator[Node]:
    with host_systemd(tmp_path) as host:
        machine = build(host.node / "machine", PLATFORMS["xeon-2s"])
        for directory in ("bus", "devices/virtual"):
            (machine.sys / directory).mkdir(parents=True, exist_ok=True)
        (host.node / "state").mkdir()
        values: Values = {
            "agent": {
                "watchdog": {"enabled": True, "interval": f"{INTERVAL_S}s"},
                "actuator": {
                    "hostSysPath": "/node/machine/sys",
                    "hostProcPath": "/node/machine/proc",
                    "hostStatePath": "/node/state",
                },
            }
        }
        manifests = helm.render(values)
        chart = host.node / "chart"
        chart.mkdir()
        for name, content in find(manifests, "ConfigMap", NAME)["data"].items():
            (chart / name).write_text(content)
        spec = pod_spec(find(manifests, "DaemonSet", "joulie-agent"))
        volumes = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
        host.run("mkdir", "-p", volumes["watchdog-directory"])
        yield Node(host, machine, host.node / "state", spec["initContainers"][0], volumes)


async def test_a_cap_that_a_killed_actuator_left_ends_within_the_bound_without_kubelet_or_image(node, actuators):
    installed = node.watchdog("install")
    assert installed.returncode == 0, installed
    # The image goes with the pod.
    assert node.host.run("umount", "/opt/joulie").returncode == 0
    actuators.append(node.start_actuator())
    node.cap()

    async def looked_at_and_left_alone() -> None:
        shown = node.host.show(f"{NAME}.timer", "LastTriggerUSecMonotonic")
        assert shown["LastTriggerUSecMonotonic"] not in ("", "0")
        service = node.host.show(f"{NAME}.service", "ActiveState", "Result")
        assert service == {"ActiveState": "inactive", "Result": "success"}

    # So that the whole interval is still to come.
    await eventually(looked_at_and_left_alone, within_s=BOUND_S)
    assert node.limits_watts == [CAP_WATTS] * 2
    actuators[0].kill()
    actuators[0].wait()

    async def restored() -> None:
        assert node.limits_watts == ORIGINAL, node.host.show(f"{NAME}.service", "Result", "ExecMainStatus")

    took_s = await eventually(restored, within_s=BOUND_S)
    print(f"restored {took_s:.1f} s after the actuator was killed")


async def test_limits_of_a_living_actuator_stay_while_the_watchdog_runs(node, actuators):
    actuators.append(node.start_actuator())
    node.cap()
    # Runs the service once, and fails where it could not.
    installed = node.watchdog("install")
    assert installed.returncode == 0, installed
    shown = node.host.show(f"{NAME}.service", "Result", "ExecMainStatus")
    assert shown == {"Result": "success", "ExecMainStatus": "0"}
    assert node.limits_watts == [CAP_WATTS] * 2
    assert actuators[0].poll() is None


async def test_what_cannot_be_restored_fails_the_unit_and_the_timer_goes_on(node, actuators):
    actuators.append(node.start_actuator())
    node.cap()
    actuators[0].kill()
    actuators[0].wait()
    (journal,) = (node.state / "cpu").glob("*.json")
    journal.write_text("damaged")
    installed = node.watchdog("install")
    assert installed.returncode == 0, installed
    assert "some limits are not restored" in installed.stdout
    assert node.host.show(f"{NAME}.service", "ActiveState", "ExecMainStatus") == {
        "ActiveState": "failed",
        "ExecMainStatus": "1",
    }
    assert node.host.show(f"{NAME}.timer", "ActiveState") == {"ActiveState": "active"}
    assert journal.read_text() == "damaged"


async def test_a_program_that_the_node_cannot_run_fails_the_installation(node):
    service = node.host.node / "chart" / f"{NAME}.service"
    service.write_text(service.read_text().replace("/opt/joulie/bin/joulie-agent ", "/opt/joulie/bin/missing "))
    installed = node.watchdog("install")
    assert installed.returncode == 1
    assert "cannot run joulie-watchdog.service: exit-code, status 203" in installed.stdout


async def test_the_installation_waits_for_the_run_that_it_has_started(node):
    """A start is a job in a queue: behind a slow unit the service looks for a while as if it had never run."""
    slow = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/usr/bin/sleep 2\n"
    (node.host.units / "slow.service").write_text(slow)
    service = node.host.node / "chart" / f"{NAME}.service"
    service.write_text(
        service.read_text()
        .replace("[Unit]", "[Unit]\nRequires=slow.service\nAfter=slow.service")
        .replace("/opt/joulie/bin/joulie-agent ", "/opt/joulie/bin/missing ")
    )
    installed = node.watchdog("install")
    assert (installed.returncode, "status 203" in installed.stdout) == (1, True), installed


async def test_an_upgrade_switches_to_the_new_program_and_keeps_one_before_it(node):
    assert node.watchdog("install").returncode == 0
    (first,) = node.programs
    assert node.watchdog("install").returncode == 0
    assert node.programs == [first]
    packages = next((node.host.node.parent / "joulie").glob("lib/python*/site-packages/joulie_actuator"))
    seen = [first]
    for number in range(3):
        (packages / "reasons.py").write_text((packages / "reasons.py").read_text() + f"# {number}\n")
        assert node.watchdog("install").returncode == 0
        root = node.host.show(f"{NAME}.service", "RootDirectory")["RootDirectory"]
        newest = Path(root).name
        assert newest not in seen
        assert sorted(node.programs) == sorted([seen[-1], newest])
        seen.append(newest)


async def test_a_removal_leaves_no_unit_and_no_file_and_may_be_repeated(node):
    before = sorted(path.name for path in node.host.units.iterdir())
    assert node.watchdog("install").returncode == 0
    assert node.host.show(f"{NAME}.timer", "ActiveState") == {"ActiveState": "active"}
    for _ in range(2):
        removed = node.watchdog("remove")
        assert removed.returncode == 0, removed
        assert node.programs == []
        assert node.host.show(f"{NAME}.timer", "LoadState") == {"LoadState": "not-found"}
        assert node.host.show(f"{NAME}.service", "LoadState") == {"LoadState": "not-found"}
    (node.host.units / "timers.target.wants").rmdir()
    assert sorted(path.name for path in node.host.units.iterdir()) == before


async def test_a_systemd_that_does_not_answer_fails_the_installation(node):
    node.volumes["watchdog-systemd"] = "/run/systemd/missing"
    installed = node.watchdog("install")
    assert installed.returncode == 1
    assert "cannot install the watchdog: /run/systemd/missing: " in installed.stdout
