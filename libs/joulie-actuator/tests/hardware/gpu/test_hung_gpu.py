"""The actuator as a process with the real pynvml, over eight GPUs of which one hangs."""

import json
import signal

import pytest

from joulie_actuator.protocol import ReadGpu, Restore, SetGpuCaps, Subsystem
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import RestoreReport
from joulie_testing.agent.stub_gpus import HANG_ALWAYS, HANG_NEVER

COUNT = 8
HUNG = 3
FOUND_MW, CAP_MW = 650_000, 400_000
GRACE_S = 20


@pytest.fixture
def node(make_gpu_node, hardware, nvml_folder):
    for index in range(COUNT):
        hardware.state.add(f"GPU-{index}", "NVIDIA H100 80GB HBM3", limit_mw=FOUND_MW)
    return make_gpu_node(nvml_folder)


def cap(node, lease_s):
    return node.request(SetGpuCaps(caps_mw={f"GPU-{index}": CAP_MW for index in range(COUNT)}, lease_s=lease_s))


def limits_mw(node):
    return [node.state.gpus[index].limit_mw for index in range(COUNT)]


SEVEN_RESTORED = [CAP_MW if index == HUNG else FOUND_MW for index in range(COUNT)]


def test_at_sigterm_seven_gpus_are_restored_while_the_eighth_hangs_and_the_exit_code_is_1(node):
    actuator = node.start(grace_s=GRACE_S / 2)
    assert cap(node, lease_s=60).reason is Reason.CAPPED
    node.state.gpus[HUNG].hang = HANG_ALWAYS
    actuator.send_signal(signal.SIGTERM)
    node.wait_until(lambda: limits_mw(node) == SEVEN_RESTORED)
    out, _ = actuator.communicate(timeout=GRACE_S + 5)
    assert (actuator.returncode, limits_mw(node)) == (1, SEVEN_RESTORED)
    (stopped,) = [event for event in map(json.loads, out.splitlines()) if event["event"] == "stopped"]
    assert stopped["not_restored"] == ["gpu"]


def test_at_the_end_of_the_lease_seven_gpus_are_restored_and_the_eighth_as_soon_as_it_answers(node):
    node.start()
    node.state.gpus[HUNG].hang = HANG_NEVER
    assert cap(node, lease_s=1).reason is Reason.CAPPED
    node.state.gpus[HUNG].hang = HANG_ALWAYS
    node.wait_until(lambda: limits_mw(node) == SEVEN_RESTORED)
    figures = {figure.uuid: figure for figure in node.request(ReadGpu()).gpus}
    assert figures[f"GPU-{HUNG}"].failure.reason is Reason.TIMEOUT
    assert figures["GPU-0"].limit_mw == FOUND_MW
    node.state.gpus[HUNG].hang = HANG_NEVER

    def all_restored():
        report = node.request(Restore(subsystem=Subsystem.GPU))
        assert isinstance(report, RestoreReport)
        return report.left == ()

    node.wait_until(all_restored)
    assert limits_mw(node) == [FOUND_MW] * COUNT


def test_after_a_kill_the_next_actuator_restores_seven_gpus_while_the_eighth_hangs_from_the_start(node):
    killed = node.start()
    assert cap(node, lease_s=60).reason is Reason.CAPPED
    killed.kill()
    killed.wait()
    node.state.gpus[HUNG].hang = HANG_ALWAYS
    actuator = node.start()
    assert limits_mw(node) == [CAP_MW] * COUNT
    actuator.send_signal(signal.SIGTERM)
    node.wait_until(lambda: limits_mw(node) == SEVEN_RESTORED)
    node.state.gpus[HUNG].hang = HANG_NEVER
    actuator.communicate(timeout=GRACE_S + 5)
    assert (actuator.returncode, limits_mw(node)) == (0, [FOUND_MW] * COUNT)
