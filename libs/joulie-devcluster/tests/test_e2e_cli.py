"""The command line with a real cluster: foreground, background, and after a kill."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from joulie_devcluster.control_plane.state import STATE_FILE, ClusterState, start_ticks

pytestmark = pytest.mark.e2e

CLI = [sys.executable, "-m", "joulie_devcluster"]


def all_exited(pids):
    return all(start_ticks(pid) is None for pid in pids)


def run(*arguments, check=True):
    return subprocess.run([*CLI, *arguments], check=check, capture_output=True, text=True, timeout=60)


def start(directory):
    """Start `up` in the foreground; return it and the pids of its five processes when it is ready."""
    up = subprocess.Popen([*CLI, "up", "--dir", str(directory)], stdout=subprocess.PIPE, text=True)
    assert up.stdout.readline() == f"export KUBECONFIG={directory}/kubeconfig\n"
    pids = [record.pid for record in ClusterState.read(directory).processes]
    assert len(pids) == 5
    assert not any(all_exited([pid]) for pid in pids)
    return up, pids


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_to_up_stops_everything_and_removes_its_files(stop, tmp_path):
    directory = tmp_path / "c"
    up, pids = start(directory)
    with up:
        up.send_signal(stop)
        assert up.wait(30) == 0
    assert all_exited(pids)
    assert not directory.exists()


def test_the_processes_of_a_killed_up_are_killed_and_down_removes_its_files(tmp_path):
    directory = tmp_path / "c"
    up, pids = start(directory)
    with up:
        up.kill()
    deadline = time.monotonic() + 10
    while not all_exited(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert all_exited(pids)
    assert (directory / STATE_FILE).exists()
    assert run("status", "--dir", str(directory), check=False).returncode == 1
    run("down", "--dir", str(directory))
    assert not directory.exists()


def test_up_exits_when_a_process_exits(tmp_path):
    directory = tmp_path / "c"
    up, pids = start(directory)
    with up:
        scheduler = next(each for each in ClusterState.read(directory).processes if each.name == "kube-scheduler")
        scheduler.signal(signal.SIGKILL)
        assert up.wait(30) == 1
    assert all_exited(pids)
    assert not directory.exists()


def test_other_commands_show_and_stop_a_detached_cluster(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    home = tmp_path / "joulie" / "devcluster"
    run("up", "--name", "apart", "--detach", "--nodes", "5")
    try:
        state = ClusterState.read(home / "apart")
        status = run("status", "--name", "apart").stdout
        assert "kube-apiserver" in status
        assert "5 nodes ready" in status
        kubeconfig = Path(run("kubeconfig", "--name", "apart").stdout.strip())
        assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == state.server
        assert "==> etcd" in run("logs", "--name", "apart").stdout
        again = run("up", "--name", "apart", check=False)
        assert again.returncode == 1
        assert "joulie-devcluster down" in again.stderr
        assert "running here: apart" in run("status", "--name", "other", check=False).stderr
    finally:
        run("down", "--name", "apart")
    assert all_exited([state.supervisor.pid, *(record.pid for record in state.processes)])
    assert list(home.iterdir()) == []


def test_a_failed_detached_start_prints_the_reason_and_leaves_nothing_behind(tmp_path):
    directory = tmp_path / "c"
    kwok = tmp_path / "kwok"
    kwok.write_text("#!/bin/sh\necho kwok version v0.7.0, out of order\nexit 1\n")
    kwok.chmod(0o755)
    failed = run("up", "--dir", str(directory), "--detach", "--binaries", str(tmp_path), check=False)
    assert failed.returncode == 1
    assert "out of order" in failed.stderr
    assert not directory.exists()
