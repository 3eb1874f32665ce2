"""The state file of a cluster, and stopping processes with it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from joulie_devcluster.control_plane.state import STATE_FILE, ClusterState, ProcessRecord, start_ticks, stop_processes
from joulie_devcluster.errors import StateError


@pytest.fixture
def sleeper():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def dead_record(name="supervisor"):
    return ProcessRecord(name, 2**22 + 1, 1)


def test_a_state_is_read_as_it_was_written(tmp_path):
    record = ProcessRecord.of("etcd", os.getpid(), tmp_path / "etcd.log")
    state = ClusterState("a", record, (record,), server="https://x", extender_port=9, ready=True)
    state.write(tmp_path)
    assert ClusterState.read(tmp_path) == state


def test_a_missing_state_is_none_and_an_invalid_file_is_an_error(tmp_path):
    assert ClusterState.read(tmp_path) is None
    (tmp_path / STATE_FILE).write_text(json.dumps({"name": "other"}))
    with pytest.raises(StateError, match=STATE_FILE):
        ClusterState.read(tmp_path)


def test_a_process_is_alive_until_it_exits(sleeper):
    record = ProcessRecord.of("sleeper", sleeper.pid)
    assert record.alive
    record.signal(signal.SIGKILL)
    sleeper.wait()
    assert not record.alive
    assert start_ticks(sleeper.pid) is None


def test_a_reused_pid_is_not_signalled(sleeper):
    record = ProcessRecord.of("sleeper", sleeper.pid)
    stale = replace(record, started_ticks=record.started_ticks - 1)
    assert not stale.alive
    stale.signal(signal.SIGKILL)
    assert record.alive
    assert sleeper.poll() is None


def test_signalling_a_process_that_has_exited_does_nothing():
    dead_record().signal(signal.SIGKILL)


def test_processes_that_a_dead_supervisor_left_are_killed(tmp_path, sleeper):
    record = ProcessRecord.of("etcd", sleeper.pid)
    ClusterState("a", dead_record(), (record,)).write(tmp_path)
    assert stop_processes(tmp_path, grace_s=5)
    assert sleeper.wait(5) == -signal.SIGKILL
