"""Parts of clusters of kind that need neither root nor an engine; the whole is in tests/e2e/test_kind.py."""

import json
import os
import socket
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from joulie_devcluster.binaries import lookup
from joulie_devcluster.binaries.modules import DEFAULT_KUBERNETES, Binary
from joulie_devcluster.containers.oci import ImageContent, write_image_archive
from joulie_devcluster.errors import EngineError
from joulie_devcluster.host.ports import free_port
from joulie_devcluster.host.progress import SilentReporter
from joulie_devcluster.kind_node import engine, forward
from joulie_devcluster.kind_node.engine import bridged_engine, data_file, missing_packages
from joulie_devcluster.kind_node.images import image_contents

VERSION = f"v{DEFAULT_KUBERNETES}.0"
PAUSE = "registry.k8s.io/pause:3.10"


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_without_root_no_engine_is_started(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EngineError, match="requires root"), bridged_engine(tmp_path, SilentReporter()):
        pass


def test_missing_programs_are_named_with_the_packages_that_have_them(monkeypatch):
    monkeypatch.setattr(engine, "_SYSTEM_PATH", "/nowhere")
    monkeypatch.setattr(engine, "find_runc", lambda: None)
    assert "dockerd, debootstrap, iptables, ip, unshare, runc" in missing_packages()
    assert "apt-get install" in missing_packages()


@pytest.fixture
def inputs(tmp_path):
    """A kubeadm that requires images, a root file system with links, and binaries."""
    names = ["kube-apiserver:v1", "etcd:3.6", "coredns/coredns:v1", "pause:3.10.1"]
    listing = "\\n".join(f"registry.k8s.io/{name}" for name in names)
    kubeadm = program(tmp_path / "bin" / "kubeadm", f'[ "$5" = {VERSION} ] && printf "{listing}\\n"')
    paths = {binary: program(tmp_path / "bin" / binary, "") for binary in lookup.KIND_NODE if binary != Binary.KUBEADM}
    busybox = program(tmp_path / "bin" / "busybox", "printf 'busybox\\nsh\\ntail\\n'")
    return tmp_path / "root", {**paths, Binary.KUBEADM: kubeadm}, busybox


def test_the_images_are_those_that_kubeadm_requires_without_dns(inputs):
    root, paths, busybox = inputs
    images = image_contents(root, paths, version=VERSION, pause=PAUSE, busybox=busybox)
    assert [image.name for image in images] == [
        "docker.io/joulie/busybox:1",
        PAUSE,
        "registry.k8s.io/kube-apiserver:v1",
        "registry.k8s.io/etcd:3.6",
    ]
    assert images[2].files == {"usr/local/bin/kube-apiserver": paths[Binary.APISERVER]}


def test_an_image_that_nobody_builds_is_an_error(inputs):
    root, paths, busybox = inputs
    program(paths[Binary.KUBEADM], "echo registry.k8s.io/new:v1")
    with pytest.raises(EngineError, match=r"unknown image: registry\.k8s\.io/new:v1"):
        image_contents(root, paths, version=VERSION, pause=PAUSE, busybox=busybox)


def test_an_archive_has_the_files_with_their_directories_and_is_reproducible(tmp_path):
    tool = program(tmp_path / "tool", "echo 1")
    content = ImageContent(name="x/y:1", files={"usr/bin/tool": tool}, directories=["var/lib"], entrypoint=["/tool"])
    first = write_image_archive(content, tmp_path / "1.tar", machine="x86_64")
    second = write_image_archive(content, tmp_path / "2.tar", machine="x86_64")
    assert first.read_bytes() == second.read_bytes()
    with tarfile.open(first) as archive:
        index = json.load(archive.extractfile("index.json"))
        assert index["manifests"][0]["annotations"] == {"io.containerd.image.name": "x/y:1"}
        blob = max(archive.getmembers(), key=lambda each: each.size)
        with tarfile.open(fileobj=archive.extractfile(blob)) as layer:
            modes = {each.name: each.mode for each in layer.getmembers()}
    expected = {"etc": 0o755, "root": 0o700, "tmp": 0o1777, "usr": 0o755, "usr/bin": 0o755, "usr/bin/tool": 0o755}
    assert modes == expected | {"var": 0o755, "var/lib": 0o755}


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["--root", "/run", "create", "--bundle", "BUNDLE", "id"], "config.json"),
        (["exec", "--process", "BUNDLE/process", "create"], "process"),
        (["delete", "--bundle", "BUNDLE", "id"], None),
    ],
)
def test_the_wrapper_of_runc_takes_one_capability_out_of_what_is_asked_for(tmp_path, arguments, changed):
    runc = program(tmp_path / "runc", f'echo "$@" >> {tmp_path}/calls')
    wrapper = program(tmp_path / "runc-here", data_file("runc-here.sh").replace("exec RUNC", f"exec {runc}"))
    for name in ("config.json", "process"):
        (tmp_path / name).write_text('["CAP_CHOWN","CAP_SYS_RESOURCE","CAP_KILL"]')
    command = [each.replace("BUNDLE", str(tmp_path)) for each in arguments]
    subprocess.run([wrapper, *command], check=True)
    assert (tmp_path / "calls").read_text().split() == command
    for name in ("config.json", "process"):
        assert ("CAP_SYS_RESOURCE" in (tmp_path / name).read_text()) is (name != changed)


@pytest.mark.skipif(os.geteuid() != 0, reason="entering a network namespace requires root")
def test_connections_are_forwarded_both_ways_until_one_side_ends():
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as target, ThreadPoolExecutor(1) as pool:
        command = [sys.executable, "-I", "-S", forward.__file__, str(port), str(os.getpid())]
        with subprocess.Popen([*command, str(target.getsockname()[1])], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout.readline() == "forwarding\n"
                accepted = pool.submit(target.accept)
                with socket.create_connection(("127.0.0.1", port), timeout=10) as near:
                    far, _ = accepted.result(10)
                    with far:
                        near.sendall(b"question")
                        assert far.recv(100) == b"question"
                        far.sendall(b"answer")
                        assert near.recv(100) == b"answer"
                        far.close()
                        assert near.recv(100) == b""
            finally:
                process.terminate()
