"""The commands that make, fill and delete the kind cluster, with programs that record how they are called."""

import stat
from pathlib import Path

import pytest

from joulie_devcluster import kind
from joulie_devcluster.containers.engine import Engine
from joulie_devcluster.containers.images import SERVICES, image_name, repository_root
from joulie_devcluster.containers.kind import KindCluster
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.progress import SilentReporter
from joulie_devcluster.kind_node import background

#: `exec` keeps what is written into the node, and prints it.
DOCKER = """
[ "$1" = --version ] && echo "Docker version 20.10.24"
[ "$1" = version ] && exit "${ENGINE_STATUS:-0}"
if [ "$1" = exec ]; then
    for last; do :; done
    case "$5" in
        echo*) echo "$last" > "$NODE" ;;
        *) [ ! -e "$NODE" ] || cat "$NODE" ;;
    esac
fi
exit 0
"""
KIND = """
[ "$1" = --version ] && echo "kind version 0.33.0" && exit
echo "$PWD $DOCKER_HOST $*" >> "$CALLS"
[ "$1 $2" = "get clusters" ] && echo "$CLUSTERS"
[ "$1 $2" = "get kubeconfig" ] && echo "of $4"
[ -z "${KIND_STATUS:-}" ] || echo "the reason" >&2
exit "${KIND_STATUS:-0}"
"""
TO_WORKERS = "--name joulie --nodes joulie-worker,joulie-worker2"


@pytest.fixture
def calls(monkeypatch, tmp_path) -> Path:
    """The file in which kind's calls are recorded: working directory, engine and arguments."""
    for name, body in (("docker", DOCKER), ("kind", KIND)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{body}")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("DOCKER_HOST", "unix:///engine")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("CLUSTERS", "joulie")
    monkeypatch.setenv("NODE", str(tmp_path / "node"))
    for name in ("KUBEBUILDER_ASSETS", "JOULIE_KUBERNETES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "calls"


def test_a_cluster_is_made_in_the_repository_from_its_files_with_the_image_of_the_release(calls, capsys):
    assert kind.main(["up", "--kubernetes", "1.35"]) == 0
    root = repository_root()
    config = f"--config {root}/kind/cluster.yaml"
    expected = f"{root} unix:///engine create cluster {config} --image {kind.NODE_IMAGES['1.35']} --wait 180s\n"
    assert calls.read_text() == expected
    assert capsys.readouterr().out == "kubectl config use-context kind-joulie\n"


def loads(calls: Path) -> list[str]:
    return [line.partition(" load ")[2] for line in calls.read_text().splitlines() if " load " in line]


def test_the_images_of_all_services_are_loaded_and_not_again(calls):
    names = " ".join(image_name(service) for service in SERVICES)
    for _ in range(2):
        assert kind.main(["load"]) == 0
        assert loads(calls) == [f"docker-image {TO_WORKERS} {names}"]


def test_an_image_that_has_changed_is_loaded_again(calls, monkeypatch):
    versions = {"operator": "1", "agent": "1"}
    monkeypatch.setattr("joulie_devcluster.containers.kind.image_digest", versions.__getitem__)
    cluster = kind.find(SilentReporter())
    cluster.load_images(["operator", "agent"], SilentReporter())
    versions["agent"] = "2"
    cluster.load_images(["operator"], SilentReporter())
    assert len(loads(calls)) == 1
    cluster.load_images(["agent"], SilentReporter())
    cluster.load_images(["operator", "agent"], SilentReporter())
    assert loads(calls)[1:] == [f"docker-image {TO_WORKERS} {image_name('agent')}"]


def test_a_private_engine_gets_archives(calls, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "joulie_devcluster.containers.kind.save_image", lambda service, _reporter: tmp_path / f"{service}.tar"
    )
    docker = tmp_path / "bin" / "docker"
    cluster = KindCluster(engine=Engine("unix:///private", docker), kind=docker.with_name("kind"), private=True)
    cluster.load_images(["agent"], SilentReporter())
    assert loads(calls) == [f"image-archive {TO_WORKERS} {tmp_path}/agent.tar"]


def test_the_cluster_is_found_with_a_kubeconfig_for_its_owner_only(calls):
    found = kind.find(SilentReporter())
    assert not found.private
    assert found.kubeconfig is not None
    assert found.kubeconfig.read_text() == "of joulie\n"
    assert stat.S_IMODE(found.kubeconfig.stat().st_mode) == 0o600


@pytest.mark.parametrize("variable", ["CLUSTERS", "ENGINE_STATUS"])
def test_without_a_cluster_the_error_says_how_to_make_one(calls, monkeypatch, capsys, variable):
    monkeypatch.setenv(variable, "1")
    assert kind.main(["load"]) == 1
    assert "no kind cluster is running: create it with `just kind-up`" in capsys.readouterr().err


def test_the_cluster_is_deleted_by_name(calls):
    assert kind.main(["down"]) == 0
    assert calls.read_text().endswith(" delete cluster --name joulie\n")


def test_an_engine_that_is_named_is_not_replaced_by_another_one(calls, capsys, monkeypatch):
    monkeypatch.setenv("ENGINE_STATUS", "1")
    assert kind.main(["up"]) == 1
    assert "no container engine responds at unix:///engine" in capsys.readouterr().err
    assert not calls.exists()


def test_without_an_engine_and_without_root_the_error_has_both_reasons(calls, capsys, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("ENGINE_STATUS", "1")
    monkeypatch.setattr(kind, "kind_obstacle", lambda: "requires root")
    assert kind.main(["up"]) == 1
    error = capsys.readouterr().err
    assert "no container engine responds at unix:///var/run/docker.sock" in error
    assert "without a container engine: requires root" in error
    assert not calls.exists()


def test_without_an_engine_root_gets_a_cluster_in_the_background(calls, capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("ENGINE_STATUS", "1")
    monkeypatch.setattr(kind, "kind_obstacle", lambda: None)
    monkeypatch.setattr(kind, "missing_packages", lambda: None)
    started = []

    def start(directory, minor, _reporter):
        started.append((directory, minor))
        engine = Engine("unix:///private", tmp_path)
        return KindCluster(engine=engine, kind=tmp_path, kubeconfig=tmp_path / "k", private=True)

    monkeypatch.setattr(background, "start", start)
    assert kind.main(["up", "--kubernetes", "1.36"]) == 0
    assert started == [(tmp_path / "state" / "joulie" / "kind", "1.36")]
    assert capsys.readouterr().out == f"export KUBECONFIG={tmp_path / 'k'}\n"


def test_if_kind_fails_the_command_fails_with_its_output(calls, capsys, monkeypatch):
    monkeypatch.setenv("KIND_STATUS", "7")
    assert kind.main(["down"]) == 1
    assert "kind delete cluster failed with status 7:\nthe reason" in capsys.readouterr().err
    assert calls.exists()


def test_packages_that_are_missing_are_named(calls, monkeypatch):
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("ENGINE_STATUS", "1")
    monkeypatch.setattr(kind, "kind_obstacle", lambda: None)
    monkeypatch.setattr(kind, "missing_packages", lambda: "dockerd not found: apt-get install docker.io")
    with pytest.raises(EngineError, match=r"apt-get install docker\.io"):
        kind.up("1.37", SilentReporter())
