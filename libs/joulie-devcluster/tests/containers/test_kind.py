"""The commands that make, fill and delete the kind cluster, with programs that record how they are called."""

from pathlib import Path

import pytest

from joulie_devcluster.containers import kind
from joulie_devcluster.containers.images import SERVICES, image_name, repository_root

DOCKER = """
[ "$1" = --version ] && echo "Docker version 20.10.24"
[ "$1" = version ] && exit "${ENGINE_STATUS:-0}"
exit 0
"""
KIND = """
[ "$1" = --version ] && echo "kind version 0.33.0" && exit
echo "$PWD $DOCKER_HOST $*" >> "$CALLS"
exit "${KIND_STATUS:-0}"
"""


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
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("JOULIE_KUBERNETES", raising=False)
    return tmp_path / "calls"


def test_a_cluster_is_made_in_the_repository_from_its_files_with_the_image_of_the_release(calls):
    assert kind.main(["up", "--kubernetes", "1.35"]) == 0
    root = repository_root()
    config = f"--config {root}/kind/cluster.yaml"
    expected = f"{root} unix:///engine create cluster {config} --image {kind.NODE_IMAGES['1.35']} --wait 180s\n"
    assert calls.read_text() == expected


def test_the_images_of_all_services_are_loaded(calls):
    assert kind.main(["load"]) == 0
    names = " ".join(image_name(service) for service in SERVICES)
    assert calls.read_text().endswith(f" load docker-image --name joulie {names}\n")


def test_the_cluster_is_deleted_by_name(calls):
    assert kind.main(["down"]) == 0
    assert calls.read_text().endswith(" delete cluster --name joulie\n")


def test_without_an_engine_the_error_names_it_and_kind_is_not_run(calls, capsys, monkeypatch):
    monkeypatch.setenv("ENGINE_STATUS", "1")
    assert kind.main(["up"]) == 1
    assert "no container engine responds at unix:///engine" in capsys.readouterr().err
    assert not calls.exists()


def test_if_kind_fails_the_command_fails(calls, capsys, monkeypatch):
    monkeypatch.setenv("KIND_STATUS", "7")
    assert kind.main(["down"]) == 1
    assert "kind delete cluster failed with status 7" in capsys.readouterr().err
    assert calls.exists()
