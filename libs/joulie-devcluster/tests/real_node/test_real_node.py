"""Files and helper processes of a real node, without starting one."""

import contextlib
import hashlib
import io
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from joulie_devcluster.containers.oci import BUSYBOX_IMAGE, write_busybox_archive
from joulie_devcluster.errors import StateError
from joulie_devcluster.host import privileges
from joulie_devcluster.real_node import cgroups, cleanup, namespaces, requirements
from joulie_devcluster.real_node.config import NodeLayout, containerd_config, kubelet_config, network
from joulie_devcluster.real_node.requirements import is_static, missing_privileges, missing_requirements

BUSYBOX_SCRIPT = "#!/bin/sh\nprintf 'busybox\\nsh\\ntail\\n'\n"

as_root = pytest.mark.skipif(missing_privileges() is not None, reason=str(missing_privileges()))


@pytest.fixture
def layout(tmp_path):
    return NodeLayout(tmp_path / "real-node", tmp_path / "logs")


def executable(*kinds: int) -> bytes:
    """Return the headers of a 64-bit ELF file with program headers of these types."""
    head = bytearray(64)
    head[:4] = b"\x7fELF"
    struct.pack_into("<Q", head, 0x20, 64)
    struct.pack_into("<HH", head, 0x36, 56, len(kinds))
    return bytes(head) + b"".join(struct.pack("<I52x", kind) for kind in kinds)


@pytest.fixture
def archive(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_text(BUSYBOX_SCRIPT)
    busybox.chmod(0o755)
    return write_busybox_archive(busybox, tmp_path / "image.tar", machine="x86_64")


def read(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as content:
        return {member.name: content.extractfile(member).read() for member in content}


def test_every_blob_of_the_image_is_named_by_its_content(archive):
    blobs = {name: content for name, content in read(archive).items() if name.startswith("blobs/")}
    assert len(blobs) == 3
    for name, content in blobs.items():
        assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"


def test_the_index_of_the_image_references_busybox_and_its_links(archive):
    files = read(archive)

    def follow(descriptor):
        content = files["blobs/" + descriptor["digest"].replace(":", "/")]
        assert len(content) == descriptor["size"]
        return content

    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == BUSYBOX_IMAGE
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}
    manifest = json.loads(follow(entry))
    config = json.loads(follow(manifest["config"]))
    layer = follow(manifest["layers"][0])
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"]["Entrypoint"] == ["/bin/tail", "-f", "/dev/null"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as content:
        assert content.extractfile("bin/busybox").read().decode() == BUSYBOX_SCRIPT
        assert content.getmember("bin/sh").linkname == "busybox"
        assert content.getmember("tmp").mode == 0o1777


def test_the_archive_is_reproducible(archive, tmp_path):
    again = write_busybox_archive(tmp_path / "busybox", tmp_path / "again.tar", machine="x86_64")
    assert again.read_bytes() == archive.read_bytes()


@pytest.mark.parametrize(
    ("content", "static"),
    [(executable(1, 1, 4), True), (executable(1, 3), False), (executable(), True), (b"#!/bin/sh\n", False)],
    ids=["loaded only", "with a loader", "no headers", "a script"],
)
def test_an_executable_with_a_loader_is_not_static(content, static):
    assert is_static(content) is static


def test_all_missing_requirements_are_listed_with_their_remedies(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "_SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert len(missing_requirements()) == 3
    assert [
        word for word in ("root", "package runc", "busybox-static") if word not in " ".join(missing_requirements())
    ] == []


@pytest.mark.parametrize(("capabilities", "may"), [("000001fffeffffff", True), ("00000000a80425fb", False)])
def test_root_without_cap_sys_admin_is_rejected(capabilities, may, monkeypatch, tmp_path):
    (tmp_path / "status").write_text(f"Name:\tx\nCapEff:\t{capabilities}\n")
    monkeypatch.setattr(privileges, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (missing_privileges() is None) is may


def test_a_dynamically_linked_busybox_is_rejected(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "_SYSTEM_PATH", str(tmp_path))
    (tmp_path / "busybox").write_bytes(executable(1, 3))
    (tmp_path / "busybox").chmod(0o755)
    assert requirements.find_busybox() is None
    (tmp_path / "busybox").write_bytes(executable(1))
    assert requirements.find_busybox() == (tmp_path / "busybox").resolve()


@pytest.mark.parametrize(
    ("kernel", "mounts", "snapshotter"),
    [
        ("nodev\toverlay\n\text4\n", "/dev/a / ext4", "overlayfs"),
        ("\text4\n", "/dev/a / ext4", "native"),
        ("nodev\toverlay\n", "overlay / overlay", "native"),
        ("nodev\toverlay\n", "overlay / overlay\ntmpfs {tmp} tmpfs", "overlayfs"),
        ("nodev\toverlay\n", "/dev/a {tmp} ext4\noverlay {tmp} overlay\n/dev/a / ext4", "native"),
    ],
    ids=["can", "unknown to the kernel", "on an overlay", "on its own mount", "hidden by an overlay"],
)
def test_overlayfs_is_used_where_the_kernel_supports_it(kernel, mounts, snapshotter, monkeypatch, tmp_path):
    for name, text in (("_FILE_SYSTEMS", kernel), ("_MOUNTS", mounts.format(tmp=tmp_path))):
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(requirements, name, tmp_path / name)
    assert requirements.find_snapshotter(tmp_path / "none" / "yet") == snapshotter


def test_containerd_uses_the_imported_sandbox_image_and_writes_only_to_the_nodes_directories(layout):
    config = tomllib.loads(containerd_config(layout, runc=Path("/usr/sbin/runc"), snapshotter="native"))
    plugins = config["plugins"]
    assert config["version"] == 3
    assert plugins["io.containerd.cri.v1.images"]["snapshotter"] == "native"
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == BUSYBOX_IMAGE
    runc = plugins["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runc"]
    assert runc["options"] == {"BinaryName": "/usr/sbin/runc", "SystemdCgroup": False}
    places = [config["root"], config["state"], config["grpc"]["address"]]
    places += [plugins["io.containerd.internal.v1.opt"]["path"], *plugins["io.containerd.nri.v1.nri"].values()]
    assert [place for place in places if not place.startswith((f"{layout.root}/", "/run/"))] == []


def test_the_kubelet_opens_no_port_and_does_not_change_the_host(layout, tmp_path):
    config = kubelet_config(layout, cgroup="g", resolv_conf=tmp_path / "resolv.conf", lease_s=8)
    assert config["enableServer"] is False
    assert config["healthzPort"] == 0
    assert config["makeIPTablesUtilChains"] is False
    assert config["cgroupRoot"] == "/g"
    assert Path("/proc/sys/kernel/panic") in layout.kernel_settings


def test_the_network_configuration_has_a_version_without_status_requests_to_plugins():
    assert json.loads(network())["cniVersion"] == "1.0.0"


def test_control_groups_of_two_clusters_have_different_names(tmp_path):
    assert cgroups.group_name(tmp_path / "a") == cgroups.group_name(tmp_path / "b" / ".." / "a")
    assert cgroups.group_name(tmp_path / "a") != cgroups.group_name(tmp_path / "b")


def test_control_groups_are_found_by_container_and_removed_from_the_bottom_up(hierarchies):
    cgroups.create("g")
    inner = hierarchies / "memory" / "g" / "kubepods" / "pod1" / "abc"
    inner.mkdir(parents=True)
    (inner / "cgroup.procs").write_text("12\n34\n")
    assert cgroups.pids("g", "abc") == (12, 34)
    assert cgroups.pids("g", "abd") == ()
    (inner / "cgroup.procs").unlink()
    assert cgroups.pids("g", "abc") == ()
    cgroups.remove("g")
    assert [list((hierarchies / name).iterdir()) for name in ("cpuset", "memory")] == [[], []]
    cgroups.remove("g")


def test_a_control_group_that_is_removed_during_the_search_does_not_end_it(hierarchies, monkeypatch):
    cgroups.create("g")
    ending = hierarchies / "memory" / "g" / "kubepods" / "pod0"
    ending.mkdir(parents=True)
    list_directory = os.scandir

    def scandir(path):
        if Path(path) == ending:
            ending.rmdir()
        return list_directory(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert cgroups.pids("g", "abc") == ()
    assert not ending.exists()


def test_the_error_of_a_control_group_in_use_contains_its_name(hierarchies, monkeypatch):
    monkeypatch.setattr(cgroups, "_REMOVE_TIMEOUT_S", 0.0)
    cgroups.create("g")
    (hierarchies / "memory" / "g" / "in-the-way").touch()
    with pytest.raises(StateError, match="memory/g"):
        cgroups.remove("g")


def test_created_directories_are_removed_unless_they_are_in_use(hierarchies, tmp_path):
    existing, created, shared = (tmp_path / "var" / name for name in ("existing", "created", "shared"))
    existing.mkdir(parents=True)
    cleanup.make_mount_points(tmp_path / "c", [existing, created, shared])
    cgroups.create(cgroups.group_name(tmp_path / "c"))
    assert created.is_dir()
    (shared / "file").touch()
    cleanup.remove(tmp_path / "c")
    assert sorted(path.name for path in (tmp_path / "var").iterdir()) == ["existing", "shared"]
    cleanup.remove(tmp_path / "c")


def test_a_directory_is_kept_while_another_real_node_may_have_a_mount_on_it(hierarchies, tmp_path):
    cleanup.make_mount_points(tmp_path / "c", [tmp_path / "var"])
    cgroups.create(cgroups.group_name(tmp_path / "another"))
    cleanup.remove(tmp_path / "c")
    assert (tmp_path / "var").is_dir()


NAMESPACES = [sys.executable, "-I", "-S", namespaces.__file__]
# A SIGTERM arrives after the fork, before the handler is installed.
EARLY_SIGTERM = """
import os, signal, sys
from joulie_devcluster.real_node import namespaces
open_pidfd = os.pidfd_open
def interrupted(pid):
    os.kill(os.getpid(), signal.SIGTERM)
    return open_pidfd(pid)
os.pidfd_open = interrupted
sys.exit(namespaces.main(["enter", *sys.argv[1:]]))
"""


@contextlib.contextmanager
def started(*command: str) -> Iterator[subprocess.Popen]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def created(*binds: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """New namespaces: the process outside of them, and the pid of their init process."""
    with started(*NAMESPACES, "create", *binds) as process:
        yield process, int(process.stdout.readline().removeprefix("init process "))


def entered(pid: int, *command: str) -> contextlib.AbstractContextManager[subprocess.Popen]:
    return started(*NAMESPACES, "enter", str(pid), *command)


@as_root
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["sigterm", "sigkill"])
def test_the_kernel_kills_all_processes_of_a_namespace_with_its_init_process(how):
    with created() as (outside, pid):
        # A daemon, started as containerd starts its shims: in its own session, its parent exits.
        with entered(pid, shutil.which("sh"), "-c", "setsid sleep 600 & echo started") as command:
            assert command.stdout.readline() == "started\n"
            command.wait(10)
        orphan = next(int(path.parent.name) for path in Path("/proc").glob("[0-9]*/status") if is_child(path, pid))
        descriptor = os.pidfd_open(orphan)
        outside.send_signal(how)
        outside.wait(10)
        poll_end(descriptor)


@as_root
def test_mounts_and_processes_are_separate_from_those_of_the_host(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    (source / "file").write_text("inside")
    with created(f"{source}:{target}") as (_, pid):
        with entered(pid, shutil.which("sh"), "-c", f"cat {target}/file; ls -d /proc/[0-9]* | wc -l") as command:
            answer = command.stdout.read()
        assert answer.startswith("inside")
        assert int(answer.removeprefix("inside")) < 10
        assert list(target.iterdir()) == []
        assert str(target) not in Path("/proc/self/mounts").read_text()


@as_root
def test_sigterm_is_forwarded_and_the_exit_status_returned():
    with created() as (_, pid):
        waiting = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"
        with entered(pid, shutil.which("sh"), "-c", waiting) as command:
            assert command.stdout.readline() == "ready\n"
            command.terminate()
            assert command.wait(10) == 7
        with entered(pid, "/does/not/exist") as command:
            assert command.wait(10) == 127


@as_root
def test_sigterm_is_forwarded_even_before_the_handler_is_installed():
    sleep = shutil.which("sleep")
    with created() as (_, pid), started(sys.executable, "-c", EARLY_SIGTERM, str(pid), sleep, "600") as command:
        assert command.wait(10) == 128 + signal.SIGTERM


def is_child(status: Path, parent: int) -> bool:
    try:
        return f"PPid:\t{parent}\n" in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def poll_end(descriptor: int) -> None:
    try:
        ready, _, _ = select.select([descriptor], [], [], 10)
        assert ready
    finally:
        os.close(descriptor)
