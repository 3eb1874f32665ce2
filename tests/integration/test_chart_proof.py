"""The uninstall's proof on a node whose state is damaged: the pod and the probe of the chart, run for real."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.chart import Helm, Manifest, containers, find
from tests.mounts import below, environment

from joulie_actuator import blocking_client
from joulie_actuator.protocol import SetCpuCap
from joulie_devcluster.real_node.requirements import missing_privileges
from joulie_testing.agent.fake_sysfs import FakeMachine, build
from joulie_testing.agent.machine_spec import PLATFORMS

pytestmark = pytest.mark.skipif(missing_privileges() is not None, reason="mounting takes root with CAP_SYS_ADMIN")

CAP_WATTS, ORIGINAL = 90, [150, 150]
#: As in the pod: root without a capability, who may not read what its mode forbids.
BARE = ["setpriv", "--groups=65532", "--bounding-set=-all", "--inh-caps=-all"]


@dataclass(frozen=True, slots=True)
class Node:
    """A node under a cap whose agent was killed, and the uninstall's pod on it."""

    machine: FakeMachine
    state: Path
    root: Path
    pod: Manifest

    def run(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command of the agent's image with the pod's mounts, rights and settings."""
        return subprocess.Popen(
            [*below(self.root, self.pod), *BARE, sys.executable, "-m", "joulie_agent", *arguments],
            env=os.environ | environment(self.root, self.pod),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def is_ready(self) -> tuple[bool, str]:
        """Whether the pod is ready, as its kubelet would find, and the output of its actuator, then of its probe."""
        container = containers(self.pod)["actuator"]
        actuator = self.run(*container["args"])
        assert actuator.stdout is not None
        output = ""
        for line in iter(actuator.stdout.readline, ""):
            output += line
            if '"listening"' in line:
                break
        probe = self.run(*container["readinessProbe"]["exec"]["command"][1:])
        output += probe.communicate(timeout=60)[0]
        runs = actuator.poll() is None
        actuator.kill()
        actuator.communicate()
        return runs and probe.returncode == 0, output

    @property
    def limits_watts(self) -> list[float]:
        return [self.machine.read(path) / 1e6 for path in self.machine.limits()]


@pytest.fixture
def node(helm: Helm, tmp_path: Path) -> Iterator[Node]:
    machine = build(tmp_path / "machine", PLATFORMS["xeon-2s"])
    for directory in ("bus", "devices/virtual"):
        (machine.sys / directory).mkdir(parents=True, exist_ok=True)
    state, root = tmp_path / "state", tmp_path / "root"
    for directory in (state, root / "run/joulie"):
        directory.mkdir(parents=True)
    paths = {"hostSysPath": str(machine.sys), "hostStatePath": str(state)}
    pod = find(helm.render({"agent": {"actuator": paths}}), "DaemonSet", "joulie-restore")
    made = Node(machine, state, root, pod)
    killed = made.run("actuator")
    assert killed.stdout is not None
    assert any('"listening"' in line for line in iter(killed.stdout.readline, ""))
    order = SetCpuCap(cap_watts_per_package=CAP_WATTS, lease_s=600.0)
    blocking_client.request(f"{root}/run/joulie/actuator.sock", order, 30)
    killed.kill()
    killed.communicate()
    assert made.limits_watts == [CAP_WATTS] * 2
    yield made
    for path in (state, *state.rglob("*")):
        path.chmod(0o755)


def damage(node: Node) -> None:
    next((node.state / "cpu").glob("*.json")).write_text('{"version": 1, "entr')


def forbid_reading(node: Node) -> None:
    next((node.state / "cpu").glob("*.json")).chmod(0)


def forbid_entering(node: Node) -> None:
    (node.state / "cpu").chmod(0)


def test_a_node_with_a_sound_journal_is_restored_and_ready(node):
    ready, output = node.is_ready()
    assert ready, output
    assert node.limits_watts == ORIGINAL


@pytest.mark.parametrize("harm", [damage, forbid_reading, forbid_entering])
def test_a_journal_that_cannot_be_read_keeps_the_node_from_being_ready(node: Node, harm: Callable[[Node], None]):
    harm(node)
    ready, output = node.is_ready()
    assert not ready, output
    assert "journal" in output or "state" in output
    # The originals are lost, and nothing is guessed.
    assert node.limits_watts == [CAP_WATTS] * 2


def test_a_node_with_a_read_only_state_directory_is_restored_and_ready(node):
    mounts = containers(node.pod)["actuator"]["volumeMounts"]
    next(each for each in mounts if each["name"] == "state")["readOnly"] = True
    ready, output = node.is_ready()
    assert node.limits_watts == ORIGINAL, output
    # Readiness is about the hardware; that the directory cannot be written keeps no limit in force.
    assert ready, output
    assert "cannot be written" in output
