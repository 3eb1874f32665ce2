import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from joulie_devcluster.containers import engine as engines
from joulie_devcluster.containers.engine import (
    Engine,
    docker_client,
    private_engine,
    private_engine_obstacle,
    user_engine,
)
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import SilentReporter


def program(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_without_root_the_error_suggests_docker_host(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "DOCKER_HOST" in private_engine_obstacle()


def test_without_root_no_engine_is_started(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="requires root"), private_engine(tmp_path, SilentReporter()):
        pass


def test_a_client_without_buildkit_is_skipped(monkeypatch, tmp_path):
    program(tmp_path / "a/docker", 'case "$1" in --version) echo "Docker version 28.2.2, build x";; *) exit 1;; esac')
    older = program(tmp_path / "b/docker", 'echo "Docker version 20.10.24, build x"')
    monkeypatch.setenv("PATH", f"{tmp_path}/a:{tmp_path}/b")
    assert docker_client() == older


def test_a_newer_client_with_the_buildx_plugin_is_used(monkeypatch, tmp_path):
    newer = program(tmp_path / "docker", 'echo "Docker version 28.2.2, build x"')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert docker_client() == newer


def test_the_error_of_a_failed_command_contains_its_last_lines(tmp_path):
    client = program(tmp_path / "docker", "echo first; echo last >&2; exit 3")
    with pytest.raises(EngineError, match="docker build failed with status 3:\nfirst\nlast"):
        Engine("unix:///nowhere", client).run("build")


def test_the_error_of_an_unreachable_engine_contains_its_address(monkeypatch, tmp_path):
    client = program(tmp_path / "docker", "exit 1")
    monkeypatch.setattr(engines, "docker_client", lambda: client)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(EngineError, match="no container engine responds at unix:///nowhere/"):
        user_engine()


OWNER = """
import os, signal, sys
from pathlib import Path
from joulie_devcluster.containers.engine import private_engine
from joulie_devcluster.host.progress import SilentReporter
with private_engine(Path(sys.argv[1]), SilentReporter()) as engine:
    engine.run("import", sys.argv[2], "busy")
    print(engine.run("run", "--detach", "--network", "host", "busy", "/busybox", "sleep", "900").strip())
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.docker
def test_an_engine_stops_the_containers_of_a_killed_owner_and_leaves_nothing_behind(tmp_path):
    obstacle = private_engine_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    with tarfile.open(tmp_path / "image.tar", "w") as image:
        image.add("/bin/busybox", "busybox")
    data = tmp_path / "engine"
    command = [sys.executable, "-c", OWNER, data, tmp_path / "image.tar"]
    owner = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    container = owner.stdout.strip()
    assert container in processes()
    with private_engine(data, SilentReporter()) as engine:
        runtime = Path(engine.host.removeprefix("unix://")).parent
        assert engine.run("ps", "--all", "--quiet") == ""
        assert engine.run("network", "ls", "--filter", "driver=bridge", "--quiet") == ""
    assert container not in processes()
    assert str(data) not in Path("/proc/self/mounts").read_text()
    assert not runtime.exists()


def processes():
    """The command lines of all processes."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return "\n".join(lines)
