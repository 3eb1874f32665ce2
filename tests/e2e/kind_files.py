"""What kind writes into the nodes of a cluster, found with a `docker` that runs nothing."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.chart import ROOT

from joulie_devcluster.binaries.modules import Binary, module_of

CONTROL_PLANE = "joulie-control-plane"
WORKERS = ("joulie-worker", "joulie-worker2")

#: The part of the node image's containerd configuration that kind's patches need.
_CONTAINERD = "version = 2\n"
_KIND_TIMEOUT_S = 240


class KindError(Exception):
    """kind ended before it started kubeadm; the message is its output."""


@dataclass(frozen=True, slots=True)
class KindFiles:
    """The files of the nodes of one cluster, and the calls of `docker` that made them."""

    home: Path
    kubernetes: str

    def path(self, node: str, name: str) -> Path:
        """Path of the file that kind wrote as `name` into a node."""
        return self.home / "nodes" / node / name.lstrip("/")

    def kubeadm(self, node: str, kind: str) -> dict[str, Any]:
        """The document of a kind in the node's configuration of kubeadm."""
        documents = yaml.safe_load_all(self.path(node, "/kind/kubeadm.conf").read_text())
        return next(each for each in documents if each["kind"] == kind)

    def container(self, node: str) -> list[str]:
        """The arguments with which the node's container was made."""
        calls = (json.loads(line) for line in (self.home / "calls.jsonl").read_text().splitlines())
        return next(call for call in calls if call[:3] == ["run", "--name", node])


def write_kind_files(
    home: Path, kubernetes: str, command: list[str], env: Mapping[str, str] | None = None
) -> KindFiles:
    """Run a command that makes a kind cluster, with a `docker` that runs nothing, and return what kind wrote.

    Raises:
        KindError: kind refused the cluster.
    """
    image = home / "image"
    for name, content in {
        "kind/version": module_of(Binary.KUBEADM, kubernetes).version,
        "etc/containerd/config.toml": _CONTAINERD,
    }.items():
        (image / name).parent.mkdir(parents=True)
        (image / name).write_text(content)
    docker = home / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\nexec {sys.executable} -ISB {ROOT}/tests/docker_stand_in.py "$@"\n')
    docker.chmod(0o755)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": f"{docker.parent}:{os.environ['PATH']}",
            "DOCKER_STAND_IN": str(home),
            "KUBECONFIG": str(home / "kubeconfig"),
            "DOCKER_HOST": "unix:///stand-in",
            **(env or {}),
        },
        capture_output=True,
        text=True,
        timeout=_KIND_TIMEOUT_S,
        check=False,
    )
    if "kubeadm does not run in a stand-in" not in done.stderr:
        raise KindError(done.stdout + done.stderr)
    return KindFiles(home, kubernetes)
