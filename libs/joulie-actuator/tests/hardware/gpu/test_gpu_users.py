"""Users of a GPU: its processes by the driver, and their pods by the machine's /proc, through the actuator."""

import pytest

from joulie_actuator.gpu_users import MOST_PROCESSES, read_users
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.protocol import ReadGpuProcesses, decode_reply, decode_request, encode
from joulie_actuator.reasons import Reason
from joulie_actuator.replies import GpuProcesses, GpuUsers

UID, OTHER = "11111111-2222-3333-4444-555555555555", "21111111-2222-3333-4444-555555555555"


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    for pid, path in {
        1: "init.scope",
        10: f"kubepods/pod{UID}/x",
        11: f"kubepods/pod{OTHER}/x",
        20: "a",
        21: "b",
    }.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cgroup").write_text(f"0::/{path}\n")
    return tmp_path


class Driver:
    """A driver with one GPU and its processes."""

    def __init__(self, *pids, failure=None):
        self._answer = failure or pids

    def process_ids(self, _uuid):
        return self._answer


def users(proc, *pids, **driver):
    return read_users({"GPU-a": Driver(*pids, **driver)}, proc)


@pytest.mark.parametrize(
    ("pids", "found"),
    [
        ((), GpuUsers()),
        ((10,), GpuUsers(pods=(UID,))),
        ((10, 10, 11), GpuUsers(pods=(UID, OTHER))),
        ((10, 20, 21), GpuUsers(pods=(UID,), outside_pid=20)),
        # One that has ended since it was listed.
        ((10, 77), GpuUsers(pods=(UID,))),
    ],
)
def test_pods_and_the_first_process_outside_of_them_are_told(proc, pids, found):
    assert users(proc, *pids) == GpuProcesses(users={"GPU-a": found}, failures={})


def test_a_driver_that_does_not_list_is_a_failure_of_its_gpus_alone(proc):
    failure = HardwareFailure(Reason.NO_INTERFACE, "not supported")
    found = read_users({"GPU-a": Driver(failure=failure), "GPU-b": Driver(20)}, proc)
    assert found == GpuProcesses(users={"GPU-b": GpuUsers(outside_pid=20)}, failures={"GPU-a": failure})


def test_a_process_that_cannot_be_judged_makes_its_gpu_unknown(proc):
    (proc / "20/cgroup").unlink()
    (proc / "20/cgroup").mkdir()
    assert users(proc, 10, 20).failures["GPU-a"].reason is Reason.IO_ERROR


def test_the_number_of_processes_is_bounded(proc):
    assert users(proc, *range(10**6, 10**6 + MOST_PROCESSES)).failures == {}
    assert users(proc, *range(10**6, 10**6 + MOST_PROCESSES + 1)).failures["GPU-a"].reason is Reason.OUT_OF_RANGE


def test_outside_of_the_machines_pid_namespace_no_gpu_is_known_to_be_unused(proc):
    (proc / "self/ns/pid").unlink()
    (proc / "self/ns/pid").symlink_to("pid:[4026532700]")
    assert users(proc).users == {}
    assert "PID namespace" in users(proc).failures["GPU-a"].message


def test_request_and_reply_are_one_line_each():
    assert decode_request(encode(ReadGpuProcesses())) == ReadGpuProcesses()
    reply = GpuProcesses(users={"GPU-a": GpuUsers(pods=(UID,), outside_pid=7)}, failures={})
    assert decode_reply(encode(reply)) == reply


def test_the_actuator_answers_from_driver_and_proc(make_gpu_node, nvml_folder, hardware, proc):
    hardware.state.add("GPU-8f6d2c11", "NVIDIA H100 80GB HBM3").use(compute=[10], draw=[21])
    node = make_gpu_node(nvml_folder)
    node.environment["HOST_PROC_ROOT"] = str(proc)
    node.start()
    found = node.request(ReadGpuProcesses())
    assert found == GpuProcesses(users={"GPU-8f6d2c11": GpuUsers(pods=(UID,), outside_pid=21)}, failures={})
