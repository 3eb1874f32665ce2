"""The actuator as a process with the real pynvml, over eight GPUs of which one hangs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from joulie_agent.actuator import call
from joulie_agent.actuator.protocol import GivenBackReport, Part, ReadGpu, Restore, SetGpuCaps
from joulie_agent.reasons import Reason
from joulie_agent.testing.fake_sysfs import FakeMachine
from joulie_agent.testing.machine_spec import PLATFORMS

COUNT = 8
HUNG = 3
HANG_NEVER, HANG_ALWAYS = 0, 1
FOUND_MW, CAP_MW = 650_000, 400_000
GRACE_S = 20


class Node:
    def __init__(self, env, state):
        self.env = env
        self.state = state
        self.processes = []

    def start(self, grace_s=GRACE_S):
        env = self.env | {"ACTUATOR_STOP_GRACE": str(grace_s)}
        process = subprocess.Popen(
            [sys.executable, "-m", "joulie_agent", "actuator"], env=env, stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        while json.loads(process.stdout.readline())["event"] != "listening":
            pass
        return process

    def ask(self, request):
        return call.ask(self.env["ACTUATOR_SOCKET"], request, 30)

    def cap(self, lease_s):
        caps = {f"GPU-{index}": CAP_MW for index in range(COUNT)}
        return self.ask(SetGpuCaps(caps_mw=caps, lease_s=lease_s))

    @property
    def limits_mw(self):
        return [self.state.gpus[index].limit_mw for index in range(COUNT)]


@pytest.fixture
def node(tmp_path, hardware, nvml_folder):
    for index in range(COUNT):
        hardware.state.add(f"GPU-{index}", "NVIDIA H100 80GB HBM3", limit_mw=FOUND_MW)
    machine = FakeMachine(tmp_path / "machine", PLATFORMS["xeon-2s"])
    env = os.environ | {
        "HOST_SYS_ROOT": str(machine.sys),
        "HOST_PROC_ROOT": str(machine.proc),
        "STATE_DIR": str(tmp_path / "journals"),
        "ACTUATOR_SOCKET": str(Path(tmp_path / "socket")),
        "JOULIE_STUB_GPU_STATE": str(hardware.path),
        "LD_LIBRARY_PATH": str(nvml_folder),
    }
    made = Node(env, hardware.state)
    yield made
    for process in made.processes:
        process.kill()
        process.communicate()


def wait_until(condition, within_s):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


SEVEN_RESTORED = [CAP_MW if index == HUNG else FOUND_MW for index in range(COUNT)]


def test_at_sigterm_seven_gpus_are_restored_while_the_eighth_hangs_and_the_exit_code_says_that_one_is_left(node):
    actuator = node.start(grace_s=GRACE_S / 2)
    assert node.cap(lease_s=60).reason is Reason.CAPPED
    node.state.gpus[HUNG].hang = HANG_ALWAYS
    actuator.send_signal(signal.SIGTERM)
    wait_until(lambda: node.limits_mw == SEVEN_RESTORED, GRACE_S)
    out, _ = actuator.communicate(timeout=GRACE_S + 5)
    assert (actuator.returncode, node.limits_mw) == (1, SEVEN_RESTORED)
    (stopped,) = [event for event in map(json.loads, out.splitlines()) if event["event"] == "stopped"]
    assert stopped["not_given_back"] == ["gpu"]


def test_at_the_end_of_the_lease_seven_gpus_are_restored_and_the_eighth_as_soon_as_it_answers(node):
    node.start()
    node.state.gpus[HUNG].hang = HANG_NEVER
    assert node.cap(lease_s=1).reason is Reason.CAPPED
    node.state.gpus[HUNG].hang = HANG_ALWAYS
    wait_until(lambda: node.limits_mw == SEVEN_RESTORED, GRACE_S)
    figures = {figure.uuid: figure for figure in node.ask(ReadGpu()).gpus}
    assert figures[f"GPU-{HUNG}"].refusal.reason is Reason.TIMEOUT
    assert figures["GPU-0"].limit_mw == FOUND_MW
    node.state.gpus[HUNG].hang = HANG_NEVER

    def all_restored():
        report = node.ask(Restore(part=Part.GPU))
        assert isinstance(report, GivenBackReport)
        return report.left == ()

    wait_until(all_restored, GRACE_S)
    assert node.limits_mw == [FOUND_MW] * COUNT


def test_after_a_kill_the_next_actuator_restores_seven_gpus_while_the_eighth_hangs_from_the_start(node):
    killed = node.start()
    assert node.cap(lease_s=60).reason is Reason.CAPPED
    killed.kill()
    killed.wait()
    node.state.gpus[HUNG].hang = HANG_ALWAYS
    actuator = node.start()
    assert node.limits_mw == [CAP_MW] * COUNT
    actuator.send_signal(signal.SIGTERM)
    wait_until(lambda: node.limits_mw == SEVEN_RESTORED, GRACE_S)
    node.state.gpus[HUNG].hang = HANG_NEVER
    actuator.communicate(timeout=GRACE_S + 5)
    assert (actuator.returncode, node.limits_mw) == (0, [FOUND_MW] * COUNT)
