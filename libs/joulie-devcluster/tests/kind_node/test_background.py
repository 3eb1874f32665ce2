"""Start and stop of a cluster in the background, with a program in its place; the real one is in tests/e2e."""

import os
import sys

import pytest

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.state import ClusterState, ProcessRecord, start_ticks
from joulie_devcluster.errors import EngineError, StateError
from joulie_devcluster.kind_node import background

#: Says that it is up, and ends at SIGTERM, as the cluster does.
UP = """
import os, pathlib, signal, sys
from joulie_devcluster.control_plane.state import ClusterState, ProcessRecord
directory = pathlib.Path(sys.argv[3])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("node image ...", flush=True)
record = ProcessRecord.of("kind cluster", os.getpid())
ClusterState("joulie", record, kubeconfig=str(directory / "kubeconfig"), ready=True).write(directory)
while True:
    signal.pause()
"""
DOWN = "print('kind create cluster failed: the reason')\nraise SystemExit(1)\n"


class Notes:
    """A reporter that keeps notes."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def begin(self, step):
        pass

    def advance(self, done, total, detail):
        pass

    def finish(self):
        pass


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that starts a cluster whose process runs a given program."""
    docker = tmp_path / "docker"
    monkeypatch.setattr(background, "docker_client", lambda: docker)
    monkeypatch.setattr(lookup, "ensure", lambda binaries, **_: dict.fromkeys(binaries, tmp_path))
    directory = tmp_path / "state" / "kind"

    def start(code):
        program = tmp_path / "python"
        program.write_text(f"#!{sys.executable}\n{code}")
        program.chmod(0o755)
        with monkeypatch.context() as changed:
            changed.setattr(sys, "executable", str(program))
            return background.start(directory, "1.37", start.notes)

    start.notes, start.directory = Notes(), directory
    yield start
    background.stop(directory)


def test_a_cluster_is_found_by_other_processes_until_it_is_stopped(run, tmp_path):
    assert background.running(run.directory) is None
    cluster = run(UP)
    assert run.notes.lines == ["node image ..."]
    assert (cluster.kubeconfig, cluster.private) == (run.directory / "kubeconfig", True)
    assert cluster.engine.host.startswith("unix:///run/joulie-engine-")
    assert background.running(run.directory) == cluster
    pid = ClusterState.read(run.directory).supervisor.pid
    assert background.stop(run.directory)
    assert start_ticks(pid) is None
    assert not run.directory.exists()
    assert not background.stop(run.directory)


def test_a_second_one_is_refused(run):
    run(UP)
    with pytest.raises(StateError, match="just kind-down"):
        run(UP)
    assert background.running(run.directory) is not None


def test_one_that_does_not_start_is_an_error_with_its_output_and_leaves_nothing(run):
    with pytest.raises(EngineError, match="did not start:\nkind create cluster failed: the reason"):
        run(DOWN)
    assert not run.directory.exists()


@pytest.mark.parametrize(
    ("supervisor", "ready"),
    [(ProcessRecord("kind cluster", 1, -1), True), (ProcessRecord.of("kind cluster", os.getpid()), False)],
    ids=["killed", "starting"],
)
def test_one_that_is_not_up_is_not_found(run, supervisor, ready):
    run.directory.mkdir(parents=True)
    ClusterState("joulie", supervisor, ready=ready).write(run.directory)
    assert background.running(run.directory) is None
    # So that the fixture does not end this process.
    (run.directory / "cluster.json").unlink()


def test_the_files_of_a_killed_one_are_replaced(run):
    run.directory.mkdir(parents=True)
    (run.directory / "old").touch()
    ClusterState("joulie", ProcessRecord("kind cluster", 1, -1), ready=True).write(run.directory)
    run(UP)
    assert not (run.directory / "old").exists()


def test_kind_is_what_the_cluster_needs_of_the_binaries(run, tmp_path):
    assert run(UP).kind == lookup.ensure((Binary.KIND,))[Binary.KIND]
