"""The pod of a process, by its cgroup as the kernel shows it to a container and to the machine."""

import pytest

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.process_pods import NO_POD, pod_of, why_unseen
from joulie_actuator.reasons import Reason

UID = "11111111-2222-3333-4444-555555555555"
SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
HASH = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def proc(tmp_path):
    """The machine's /proc, of a process in its PID namespace."""
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026531836]")
    put(tmp_path, 1, "0::/init.scope\n")
    return tmp_path


def put(proc, pid, cgroup):
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_bytes(cgroup if isinstance(cgroup, bytes) else cgroup.encode())


@pytest.mark.parametrize(
    ("cgroup", "uid"),
    [
        (f"0::/kubepods.slice/kubepods-burstable.slice/{SLICE}/cri-containerd-{'a' * 64}.scope\n", UID),
        (f"0::/../../../kubepods-besteffort.slice/{SLICE}/crio-x.scope\n", UID),
        (f"0::/kubepods/burstable/pod{UID}/{'a' * 64}\n", UID),
        (f"0::/../../pod{UID}/x/nested/deeper\n", UID),
        (f"0::/kubepods/pod{HASH}/x\n", HASH),
        (f"12:cpu,cpuacct:/kubepods/pod{UID}/x\n11:memory:/kubepods/pod{UID}/x\n0::/\n", UID),
        ("0::/init.scope\n", NO_POD),
        ("0::/../../../../system.slice/slurmd.service\n", NO_POD),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", NO_POD),
        ("0::/podman-1234.scope\n", NO_POD),
        (f"0::/machine.slice/libpod-{'a' * 64}.scope\n", NO_POD),
        ("0::/\n", NO_POD),
        ("", NO_POD),
        (b"\xff\xfe\n", NO_POD),
    ],
)
def test_the_pod_is_the_one_in_the_path(proc, cgroup, uid):
    put(proc, 4000, cgroup)
    assert pod_of(proc, 4000) == uid


def test_a_process_that_has_ended_is_none(proc):
    assert pod_of(proc, 4000) is None


def test_what_cannot_be_read_is_a_failure_and_no_process_outside_of_pods(proc):
    put(proc, 4000, "x" * (1 << 17))
    assert pod_of(proc, 4000).reason is Reason.IO_ERROR
    (proc / "4001/cgroup").mkdir(parents=True)
    assert pod_of(proc, 4001).reason is Reason.IO_ERROR


def test_in_the_machines_own_namespace_all_processes_are_seen(proc):
    assert why_unseen(proc) is None


def test_in_another_namespace_they_are_not(proc):
    (proc / "self/ns/pid").unlink()
    (proc / "self/ns/pid").symlink_to("pid:[4026532700]")
    assert why_unseen(proc) == HardwareFailure(
        Reason.NO_INTERFACE, "this process is not in the PID namespace of the machine"
    )


@pytest.mark.parametrize("gone", ["1/cgroup", "self/ns/pid"])
def test_where_processes_of_others_are_hidden_they_are_not(proc, gone):
    (proc / gone).unlink()
    assert why_unseen(proc).reason is Reason.NO_INTERFACE
