"""The lock on the whole machine: one holder, whatever its state directory."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from joulie_actuator.hardware.journal import JournalHeldError
from joulie_actuator.hardware.machine_lock import MachineHeldError, claim

STATE = Path("/var/lib/state")


@pytest.fixture
def sys_root(tmp_path):
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    return tmp_path / "sys"


def open_files():
    return set(Path("/proc/self/fd").iterdir())


def test_a_machine_has_one_holder_until_that_closes_its_lock(sys_root):
    lock = claim(sys_root, STATE)
    before = open_files()
    with pytest.raises(MachineHeldError) as raised:
        claim(sys_root, Path("/run/other"))
    assert open_files() == before
    cpus = sys_root / "devices/system/cpu"
    assert str(raised.value) == (
        f"another process, with a state directory other than /run/other, sets the limits of this machine ({cpus} is "
        "locked). Two agents overwrite each other's limits: remove one, or run this with the other's STATE_DIR"
    )
    assert isinstance(raised.value, JournalHeldError)
    os.close(lock)
    os.close(claim(sys_root, STATE))


def test_the_same_machine_by_another_path_has_the_same_holder(sys_root, tmp_path):
    lock = claim(sys_root, STATE)
    (tmp_path / "host-sys").symlink_to(sys_root)
    with pytest.raises(MachineHeldError):
        claim(tmp_path / "host-sys", STATE)
    os.close(lock)


def test_a_machine_without_the_directory_of_cpus_has_no_lock(tmp_path):
    assert claim(tmp_path, STATE) is None
    (tmp_path / "devices/system").mkdir(parents=True)
    (tmp_path / "devices/system/cpu").touch()
    assert claim(tmp_path, STATE) is None, "it is no directory"


def test_where_the_file_system_has_no_locks_there_is_none_and_no_descriptor_stays_open(sys_root, monkeypatch):
    def refuse(*_args):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    before = open_files()
    assert claim(sys_root, STATE) is None
    assert open_files() == before
