"""Files with the resources of containers: the mount in the reply that is sent, and the bytes of the file."""

import asyncio
import errno
import os
import stat
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.ttrpc import TtrpcError
from joulie_containers.resources import resource_files
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import Placement


def content(shared, exclusive="", isolated=""):
    return f'SHARED_CPUS="{shared}"\nEXCLUSIVE_CPUS="{exclusive}"\nISOLATED_CPUS="{isolated}"\n'


class Exported:
    """What is in the state directory of a node."""

    def __init__(self, node):
        self.root = node.directory / "state" / "exported"

    def names(self):
        return sorted(path.name for path in self.root.iterdir()) if self.root.is_dir() else []

    def text(self, name):
        return (self.root / name / "resources.sh").read_text()

    def texts(self):
        """Of the files that are there: the manager may remove one between the listing and the read."""
        texts = {}
        for name in self.names():
            with suppress(FileNotFoundError):
                texts[name] = self.text(name)
        return texts


@pytest.fixture
def exported(node):
    return Exported(node)


async def create(node, name, **values):
    """Create a container, and return the adjustment of the reply."""
    container = node.container(name, **values)
    if container.pod_sandbox_id not in node.runtime.pods:
        await node.runtime.run_pod(node.pod(container.pod_sandbox_id))
    return (await node.runtime.create_container(container)).adjust


async def test_the_reply_mounts_the_directory_whose_file_has_been_written(node, exported):
    await node.start(exports=True)
    adjust = await create(node, "g", milli=2000)
    assert exported.texts() == {"g": content("", exclusive="0-1")}
    assert list(adjust.mounts) == [
        nri.Mount(
            destination="/.nri-resource-policy",
            type="bind",
            source="/on/the/host/exported/g",
            options=["bind", "ro", "rslave", "nosuid", "nodev", "noexec"],
        )
    ]


async def test_users_of_a_container_may_read_and_not_write(node, exported):
    before = os.umask(0o077)
    try:
        await node.start(exports=True)
        await create(node, "g")
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (exported.root / "g", exported.root / "g" / "resources.sh")]
    assert modes == [0o755, 0o644]


async def test_without_the_setting_nothing_is_mounted_or_written(node, exported):
    await node.start()
    assert (await create(node, "g", milli=2000)).mounts == []
    assert not exported.root.exists()


async def test_the_file_follows_what_neighbours_take_and_give_back(node, exported):
    manager = await node.start(exports=True)
    await node.add(node.container("a"))
    assert exported.text("a") == content("0-7")
    first = (exported.root / "a" / "resources.sh").stat().st_ino
    await node.add(node.container("g", milli=2000))
    await manager.until(lambda: exported.text("a") == content("2-7"))
    assert (exported.root / "a" / "resources.sh").stat().st_ino != first, "a new file, not a changed one"
    assert [path.name for path in (exported.root / "a").iterdir()] == ["resources.sh"]
    await node.runtime.stop_container("g")
    await manager.until(lambda: exported.text("a") == content("0-7"))


async def test_the_file_follows_an_update_of_the_containers_own_resources(node, exported):
    manager = await node.start(exports=True)
    await node.add(node.container("g", milli=2000))
    await node.runtime.update_container("g", node.container("x", milli=3000).linux.resources)
    await manager.until(lambda: exported.text("g") == content("", exclusive="0-2"))


async def test_cpus_that_an_update_has_not_brought_yet_are_not_in_the_file(node, exported):
    manager = await node.start(exports=True)
    await node.add(node.container("a"), node.container("g", milli=1000))
    await manager.until(lambda: exported.texts() == {"a": content("1-7"), "g": content("", exclusive="0")})
    node.runtime.refuse_updates = {"a"}
    await manager.apply(node.policy("4-7"))
    await manager.until(lambda: manager.updater.failed)
    await manager.until(lambda: exported.text("g") == content("0"))
    assert exported.text("a") == content("1-7"), "the runtime has not carried the update out"
    node.runtime.refuse_updates = set()
    await manager.until(lambda: exported.texts() == {"a": content("5-7"), "g": content("", exclusive="4")})


async def test_the_directory_of_a_container_that_is_removed_goes(node, exported):
    manager = await node.start(exports=True)
    await node.add(node.container("a"), node.container("g", milli=2000))
    await node.runtime.remove_container("g")
    await manager.until(lambda: exported.names() == ["a"])


async def test_at_a_registration_files_of_living_containers_are_renewed_and_the_others_removed(node, exported):
    first = await node.start(exports=True)
    await node.add(node.container("a"), node.container("g", milli=2000))
    await first.until(lambda: exported.text("a") == content("2-7"))
    await first.kill()
    del node.runtime.containers["g"]
    second = await node.start(exports=True)
    await second.until(lambda: exported.texts() == {"a": content("0-7")})


async def test_files_of_an_earlier_process_go_where_no_container_lives(node, exported):
    (exported.root / "gone").mkdir(parents=True)
    (exported.root / "gone" / "resources.sh").write_text("old")
    (exported.root / "gone" / "resources.sh.new").write_text("half")
    manager = await node.start(exports=True)
    await manager.until(lambda: exported.names() == [])


async def test_a_container_that_ran_without_the_mount_gets_no_file(node, exported):
    node.existing(node.container("old"))
    manager = await node.start(exports=True)
    await node.add(node.container("g", milli=2000))
    await manager.until(lambda: manager.cpus() == {"old": "2-7", "g": "0-1"})
    await node.runtime.remove_container("g")
    await manager.until(lambda: exported.names() == [])


async def test_a_container_whose_cpus_and_memory_no_policy_sets_has_no_mount(node, exported, monkeypatch):
    manager = await node.start(exports=True)
    placements = property(lambda self: {name: Placement(zone="none") for name in self.slices})
    monkeypatch.setattr(type(manager.engine._state), "placements", placements)
    assert (await create(node, "g")).mounts == []
    assert exported.names() == []


async def test_a_container_that_is_refused_has_no_file(node, exported):
    await node.start(exports=True)
    with pytest.raises(TtrpcError, match="8 CPUs requested"):
        await create(node, "g", milli=8000)
    assert exported.names() == []


async def test_a_container_that_is_placed_late_starts_without_the_mount(node, exported):
    node.runtime.request_timeout_s = 0.5
    manager = await node.start(exports=True)
    held, busy = threading.Event(), threading.Event()

    def hold():
        busy.set()
        held.wait(20)

    manager.policy.hold = hold
    applying = asyncio.create_task(manager.apply(manager.policy))
    try:
        await asyncio.to_thread(busy.wait, 20)
        adjust = await create(node, "g", milli=2000)
    finally:
        held.set()
    await applying
    assert adjust.mounts == []
    await node.runtime.start_container("g")
    await manager.until_cpus(g="0-1")
    assert exported.names() == []


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS])
async def test_a_container_starts_without_the_mount_where_its_file_cannot_be_written(
    node, exported, monkeypatch, problem
):
    manager = await node.start(exports=True)
    rename = os.rename

    def fail(*_args, **_directories):
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(os, "rename", fail)
    with capture_logs() as logs:
        adjust = await create(node, "g", milli=2000)
    monkeypatch.setattr(os, "rename", rename)
    assert (adjust.mounts, adjust.linux.resources.cpu.cpus) == ([], "0-1")
    assert manager.files.failed == 1
    (line,) = [each for each in logs if each["event"] == "resources file not written"]
    assert (line["log_level"], line["container"]) == ("warning", "g")
    assert os.strerror(problem) in line["problem"]
    await manager.until(lambda: exported.names() == [])  # what was begun is removed


async def test_a_container_starts_without_the_mount_where_its_file_takes_too_long(node, exported, monkeypatch):
    manager = await node.start(exports=True)
    held, write = threading.Event(), manager.file_directory.write
    monkeypatch.setattr(manager.file_directory, "write", lambda *args: (held.wait(10), write(*args)))
    with monkeypatch.context() as short:
        short.setattr(resource_files, "_MOST_WAIT_S", 0.01)
        adjust = await create(node, "g", milli=2000)
    assert (adjust.mounts, adjust.linux.resources.cpu.cpus) == ([], "0-1")
    assert (manager.files.failed, exported.names()) == (1, [])
    held.set()
    await manager.until(lambda: not manager.files._unwanted)
    assert exported.names() == []


async def test_a_file_that_could_not_be_renewed_is_written_later(node, exported, monkeypatch):
    monkeypatch.setattr(resource_files, "_RETRY_S", 0.01)
    manager = await node.start(exports=True)
    await node.add(node.container("a"))
    write = manager.file_directory.write

    def fail(container, text):
        if container == "a":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(container, text)

    monkeypatch.setattr(manager.file_directory, "write", fail)
    await node.add(node.container("g", milli=2000))
    await manager.until(lambda: manager.files.failed > 1)
    assert exported.text("a") == content("0-7")
    monkeypatch.setattr(manager.file_directory, "write", write)
    await manager.until(lambda: exported.text("a") == content("2-7"))


async def test_a_hostile_container_id_is_no_path(node, exported):
    manager = await node.start(exports=True)
    with capture_logs() as logs:
        adjust = await create(node, "../../escaped", milli=2000)
    assert (adjust.mounts, adjust.linux.resources.cpu.cpus) == ([], "0-1")
    assert manager.files.failed == 1
    (line,) = [each for each in logs if each["event"] == "resources file not written"]
    assert (line["container"], "is not a plain name" in line["problem"]) == ("../../escaped", True)
    assert exported.names() == []
    assert not (node.directory / "escaped").exists()


async def test_kernel_isolated_cpus_are_named_anew_when_the_hardware_changes(node, exported):
    manager = await node.start(exports=True)
    await node.add(node.container("g", milli=2000))
    manager.files.use_topology(replace(manager.files._topology, isolated=Cpus.parse("1-3")))
    await manager.until(lambda: exported.text("g") == content("", exclusive="0-1", isolated="1"))
