"""The model as files: in process below a tree, and mounted for other processes."""

import errno
import fcntl
import os
import threading
import time
from contextlib import contextmanager

import pytest

from joulie_actuator.hardware import cpuinfo
from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_actuator.reasons import Reason
from joulie_testing.agent.kernel import KernelFault, KernelTree
from joulie_testing.agent.kernel.mount import mounted, why_not
from joulie_testing.agent.machine_spec import PLATFORMS

CPUS = "devices/system/cpu"
MAX = f"{CPUS}/cpufreq/policy1/scaling_max_freq"
needs_fuse = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))


@contextmanager
def mount(tmp_path, platform="xeon-small"):
    with mounted(PLATFORMS[platform], tmp_path / "mount") as made:
        yield made


def until_somebody_hangs(machine):
    deadline = time.monotonic() + 30
    while not machine.hung_accesses():
        assert time.monotonic() < deadline, "no access hangs"


@pytest.mark.parametrize("platform", sorted(PLATFORMS))
def test_every_platform_is_found_in_process(platform, machine, tmp_path):
    kernel = machine(platform)
    kernel.write_proc(tmp_path)
    facts = cpuinfo.discover(KernelTree(kernel), tmp_path).facts
    assert facts.threads == len(kernel.cpus.online)
    assert facts.policies == len([policy for policy in kernel.cpufreq.policies.values() if policy.online])


@needs_fuse
@pytest.mark.parametrize("platform", ["xeon-small", "client-hybrid", "epyc-hsmp"])
def test_a_mounted_machine_is_the_one_in_process(platform, machine, tmp_path):
    machine(platform).write_proc(tmp_path)
    with mount(tmp_path, platform) as there:
        found = cpuinfo.discover(SysfsTree(there.sys), there.proc).facts
    assert found == cpuinfo.discover(KernelTree(machine(platform)), tmp_path).facts


@needs_fuse
def test_every_read_of_a_mounted_machine_reaches_the_model(tmp_path):
    with mount(tmp_path) as there:
        file = os.open(there.sys / MAX, os.O_RDONLY)
        for khz in range(2_000_000, 2_100_000, 1000):
            there.machine.external_write(MAX, khz)
            assert int(os.pread(file, 4096, 0)) == int((there.sys / MAX).read_text()) == khz
        os.close(file)


@needs_fuse
def test_errors_of_a_mounted_machine_are_those_of_the_model(tmp_path):
    with mount(tmp_path) as there:
        tree = SysfsTree(there.sys)
        (there.sys / MAX).write_text("2000000\n")  # truncates as a shell does
        assert there.machine.user_request_khz("policy1") == 2_000_000
        with pytest.raises(OSError, match="Invalid argument"):
            (there.sys / MAX).write_text("fast")
        with pytest.raises(PermissionError):
            os.open(there.sys / CPUS / "online", os.O_WRONLY)
        there.machine.set_online(1, online=False)
        with pytest.raises(OSError, match="busy"):
            (there.sys / MAX).read_text()
        there.machine.set_fault(f"{CPUS}/present", KernelFault(read_errno=errno.EIO))
        answer = tree.read_text(f"{CPUS}/present")
        assert isinstance(answer, HardwareFailure)
        assert answer.reason is Reason.IO_ERROR
        with pytest.raises(OSError, match="No such device"):
            there.machine.set_online(99)


@needs_fuse
def test_a_hung_file_delays_only_its_readers_and_is_released(tmp_path):
    with mount(tmp_path) as there:
        there.machine.set_fault(MAX, KernelFault(hangs=True))
        texts = []
        reader = threading.Thread(target=lambda: texts.append((there.sys / MAX).read_text()))
        reader.start()
        until_somebody_hangs(there.machine)
        assert (there.sys / CPUS / "online").read_text() == "0-7\n"
        assert not texts
        there.machine.set_fault(MAX, None)
        reader.join(10)
        assert texts == ["3900000\n"]


@needs_fuse
def test_a_mount_ends_while_a_reader_hangs_in_it(tmp_path):
    ended = []

    def read(path):
        try:
            ended.append(path.read_text())
        except OSError as error:
            ended.append(error)

    with mount(tmp_path) as there:
        there.machine.set_fault(MAX, KernelFault(hangs=True))
        reader = threading.Thread(target=read, args=(there.sys / MAX,))
        reader.start()
        until_somebody_hangs(there.machine)
        assert not ended
    reader.join(10)
    assert len(ended) == 1
    assert not os.path.ismount(tmp_path / "mount")


@needs_fuse
def test_a_mount_ends_after_an_error_in_the_test(tmp_path):
    with pytest.raises(ZeroDivisionError), mount(tmp_path):
        _ = 1 / 0
    assert not os.path.ismount(tmp_path / "mount")


@needs_fuse
def test_a_directory_of_a_mounted_machine_can_be_locked(tmp_path):
    with mount(tmp_path) as there:
        first, second = (os.open(there.sys / CPUS, os.O_RDONLY | os.O_DIRECTORY) for _ in range(2))
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(first)
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(second)
