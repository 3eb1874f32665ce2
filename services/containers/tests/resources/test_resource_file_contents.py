"""What is in the files of containers whose values and placements are given, and which of them are written when."""

import asyncio
import errno
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from joulie_containers.resources import resource_files
from joulie_containers.resources.resource_file_directory import ResourceFileDirectory
from joulie_containers.resources.resource_files import ResourceFiles
from joulie_containers.resources.values import UNSET, ContainerValues
from joulie_core.containers.container import ContainerId
from joulie_core.containers.idset import Cpus, IdSet
from joulie_core.containers.policy import Placement
from joulie_core.containers.topology import MemoryKind
from joulie_testing.core.machines import AttachedMemory, MachineShape

#: DRAM is node 0, PMEM 1, HBM 2.
TOPOLOGY = MachineShape(
    cores_per_node=8,
    attached=(AttachedMemory(MemoryKind.PMEM), AttachedMemory(MemoryKind.HBM)),
    isolated=Cpus.parse("6-7"),
).topology()


class Containers:
    """Stands for the engine and its ledger."""

    def __init__(self):
        self.synchronized = True
        self.containers, self.placements, self.values = set(), {}, {}
        self.ledger = self

    def wanted(self, name):
        return self.values.get(name, UNSET)

    in_force = wanted

    @property
    def containers(self):
        return dict.fromkeys(self._containers)

    @containers.setter
    def containers(self, names):
        self._containers = names

    def place(self, name, exclusive="", **values):
        self._containers.add(name)
        self.placements[name] = Placement(zone="z", exclusive=Cpus.parse(exclusive))
        self.values[name] = ContainerValues(**{kind: IdSet.parse(ids) for kind, ids in values.items()})
        return ContainerId(name)

    def end(self, name):
        self._containers.remove(name)
        del self.placements[name], self.values[name]


class Directory(ResourceFileDirectory):
    """Notes what is done in the order in which it ends, and fails or waits where a test wants it."""

    def __init__(self, path):
        super().__init__(path)
        self.path = path / "exported"
        self.done, self.fail, self.begin = [], set(), lambda _kind: None

    def _step(self, *step):
        self.begin(step[0])
        if step[0] in self.fail:
            raise OSError(errno.EIO, "Input/output error")
        self.done.append(step)

    def names(self):
        self._step("names")
        return super().names()

    def write(self, container, content):
        self._step("write", container)
        super().write(container, content)

    def remove(self, name):
        self._step("remove", name)
        super().remove(name)

    def text(self, name):
        return (self.path / name / "resources.sh").read_text()


@pytest.fixture
def engine():
    return Containers()


@pytest.fixture
def directory(tmp_path):
    return Directory(tmp_path)


@pytest.fixture
async def files(engine, directory):
    return ResourceFiles(engine, directory, Path("/host"), TOPOLOGY)


@pytest.fixture
async def follow(files, monkeypatch):
    """Starts to follow what is in force."""
    monkeypatch.setattr(resource_files, "_RETRY_S", 0.01)
    tasks = []
    yield lambda: tasks.append(asyncio.create_task(files.run()))
    for task in tasks:
        task.cancel()


@pytest.fixture
async def running(files, follow):
    follow()
    return files


async def until(condition):
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - conditions are on plain values
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("placed", "text"),
    [
        (
            {"exclusive": "5-6", "cpus": "4-7"},
            'SHARED_CPUS="4,7"\nEXCLUSIVE_CPUS="5-6"\nISOLATED_CPUS="6-7"\n',
        ),
        ({"memory": "0,2"}, 'ALL_MEMS="0,2"\nDRAM_MEMS="0"\nPMEM_MEMS=""\nHBM_MEMS="2"\n'),
        (
            {"cpus": "0", "memory": "1"},
            (
                'SHARED_CPUS="0"\nEXCLUSIVE_CPUS=""\nISOLATED_CPUS=""\n'
                'ALL_MEMS="1"\nDRAM_MEMS=""\nPMEM_MEMS="1"\nHBM_MEMS=""\n'
            ),
        ),
    ],
    ids=str,
)
async def test_only_what_is_set_is_in_the_file(engine, files, directory, placed, text):
    mount = await files.create(engine.place("c", **placed))
    assert (mount.source, directory.text("c")) == ("/host/exported/c", text)


async def test_a_container_that_the_policy_has_not_placed_has_no_mount(engine, files, directory):
    engine.place("c", cpus="0")
    del engine.placements["c"]
    assert await files.create(ContainerId("c")) is None
    assert directory.done == []


async def test_a_container_without_a_placement_any_more_has_no_exclusive_cpus(engine, running, directory):
    await running.create(engine.place("c", exclusive="0-1", cpus="0-1"))
    del engine.placements["c"]
    running.wake()
    await until(lambda: 'SHARED_CPUS="0-1"\nEXCLUSIVE_CPUS=""' in directory.text("c"))


async def test_what_has_not_changed_is_not_written_again(engine, running, directory):
    await running.create(engine.place("a", cpus="0"))
    await running.create(engine.place("b", cpus="1"))
    engine.place("b", cpus="2")
    running.wake()
    await until(lambda: directory.done.count(("write", "b")) == 2)
    assert [step for step in directory.done if step[0] != "names"] == [("write", each) for each in "abb"]


async def test_every_change_of_the_hardware_is_followed(engine, running, directory):
    await running.create(engine.place("c", cpus="0-3"))
    for isolated in ("1", "2", "3"):
        running.use_topology(replace(TOPOLOGY, isolated=Cpus.parse(isolated)))
        await until(lambda isolated=isolated: f'ISOLATED_CPUS="{isolated}"\n' in directory.text("c"))


async def test_files_of_an_earlier_process_stay_until_the_runtime_has_listed_its_containers(
    engine, files, follow, directory
):
    (directory.path / "old").mkdir(parents=True)
    engine.synchronized = False
    follow()
    await files.create(engine.place("c", cpus="0"))
    assert directory.done == [("write", "c")]
    engine.synchronized = True
    files.wake()
    await until(lambda: directory.done == [("write", "c"), ("names",), ("remove", "old")])
    assert [path.name for path in directory.path.iterdir()] == ["c"]


async def test_values_that_are_not_known_yet_leave_the_file_as_it_was(engine, running, directory):
    await running.create(engine.place("a", cpus="0"))
    engine.values["a"] = UNSET
    await running.create(engine.place("b", cpus="1"))
    engine.place("b", cpus="2")
    running.wake()
    await until(lambda: directory.done.count(("write", "b")) == 2)
    assert 'SHARED_CPUS="0"' in directory.text("a")


async def test_a_file_that_was_written_too_late_is_removed_afterwards(engine, running, directory, monkeypatch):
    held = threading.Event()
    directory.begin = lambda kind: kind == "write" and held.wait(10)
    with monkeypatch.context() as short, capture_logs() as logs:
        short.setattr(resource_files, "_MOST_WAIT_S", 0.01)
        assert await running.create(engine.place("c", cpus="0")) is None
    asyncio.get_running_loop().call_later(0.05, held.set)  # until then a second thread could remove it
    await until(lambda: ("remove", "c") in directory.done)
    assert [step for step in directory.done if "c" in step] == [("write", "c"), ("remove", "c")]
    assert [(line["container"], line["problem"]) for line in logs] == [("c", "not written within 0.01 s")]
    assert running.failed == 1
    await running.create(engine.place("d", cpus="1"))
    engine.place("d", cpus="2")
    running.wake()
    await until(lambda: 'SHARED_CPUS="2"' in directory.text("d"))


async def test_another_try_follows_a_failure_after_ten_seconds_and_nothing_a_success(engine, files, directory):
    await files.create(engine.place("c", cpus="0"))
    assert await files._follow() is None
    engine.place("c", cpus="1")
    directory.fail = {"write"}
    assert await files._follow() == 10
    directory.fail = set()
    assert await files._follow() is None


@pytest.mark.parametrize("step", ["names", "remove"])
async def test_what_an_earlier_process_left_is_removed_when_that_is_possible_again(
    engine, files, follow, directory, step
):
    (directory.path / "old").mkdir(parents=True)
    directory.fail = {step}
    with capture_logs() as logs:
        follow()
        await until(lambda: files.failed > 2)
    subject = "old" if step == "remove" else None
    assert [(line["log_level"], line["problem"], line.get("container")) for line in logs] == [
        ("warning", "[Errno 5] Input/output error", subject)
    ]
    directory.fail = set()
    await until(lambda: not (directory.path / "old").exists())
    failed = files.failed
    await files.create(engine.place("c", cpus="0"))
    engine.place("c", cpus="1")
    files.wake()
    await until(lambda: 'SHARED_CPUS="1"' in directory.text("c"))
    assert (files.failed, directory.done.count(("names",)), directory.done.count(("remove", "old"))) == (failed, 1, 1)


async def test_a_file_that_is_renewed_again_is_told_by_its_container(engine, running, directory):
    await running.create(engine.place("c", cpus="0"))
    engine.place("c", cpus="1")
    directory.fail = {"write"}
    with capture_logs() as logs:
        running.wake()
        await until(lambda: running.failed > 1)
        directory.fail = set()
        await until(lambda: len(logs) > 1)
    assert [(line["event"], line["container"], line.get("problem")) for line in logs] == [
        ("resources file not written", "c", "[Errno 5] Input/output error"),
        ("resources file written", "c", None),
    ]


async def test_a_container_of_the_same_name_as_one_that_failed_and_ended_is_told_anew(engine, running, directory):
    with capture_logs() as logs:
        for _ in range(2):
            await running.create(engine.place("c", cpus="0"))
            engine.place("c", cpus="1")
            directory.fail, failed = {"write"}, running.failed
            running.wake()
            await until(lambda failed=failed: running.failed > failed)
            directory.fail = set()
            engine.end("c")
            running.wake()
            await until(lambda: not (directory.path / "c").exists() and not running._written)
    assert [(line["log_level"], line["container"]) for line in logs] == [("warning", "c")] * 2
