import asyncio
import os
import stat
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from joulie_containers.resources.cache import CACHE_FILE, REJECTED_FILE, Cache, CachedContainer, CachedPod
from joulie_containers.resources.values import ContainerValues, CreationClasses
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_testing.agent.kill_points import Fate, Killed


def container(name, *, milli=100):
    pod = PodInfo(
        id=PodSandboxId(f"pod-{name}"), uid=f"uid-{name}", namespace="ns", name=f"p-{name}", qos=QosClass.BURSTABLE
    )
    return ContainerInfo(
        id=ContainerId(name),
        pod=pod,
        name="main",
        created_ns=7,
        resources=ContainerResources(cpu_request_milli=milli, memory_limit_bytes=1 << 30),
    )


def filled(directory, names, **kwargs):
    cache = Cache(directory, **kwargs)
    cache.set_head("balloons", {"kind": "BalloonsPolicy", "spec": {"pinCPU": True}})
    for name in names:
        cache.put(container(name), ContainerValues(cpu_shares=77))
    cache.set_grants({ContainerId(name): {"cpus": "0-3", "milli": 100} for name in names})
    return cache


def loaded(directory):
    content = Cache(directory).load()
    return None if content is None else (set(content.pods), set(content.containers), content.grants)


async def test_what_is_saved_is_loaded(tmp_path):
    await filled(tmp_path, ["a", "b"]).save()
    content = Cache(tmp_path).load()
    assert (content.policy, content.configuration["spec"]) == ("balloons", {"pinCPU": True})
    assert content.grants["b"] == {"cpus": "0-3", "milli": 100}
    assert content.pods["pod-a"].qos == "Burstable"
    stored = content.containers["a"]
    assert (stored.memory_limit_bytes, stored.set_cpu_shares, stored.set_cpu_quota_us) == (1 << 30, 77, None)


async def test_dropped_containers_and_pods_are_not_saved(tmp_path):
    cache = filled(tmp_path, ["a", "b"])
    await cache.save()
    cache.drop(ContainerId("a"))
    await cache.save()
    assert loaded(tmp_path) == ({"pod-b"}, {"b"}, {"b": {"cpus": "0-3", "milli": 100}})
    cache.clear()
    await cache.save()
    assert loaded(tmp_path) == (set(), set(), {})


def test_a_directory_without_a_cache_has_no_content(tmp_path):
    assert Cache(tmp_path / "none").load() is None


@given(names=st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=4))
@settings(max_examples=50, deadline=None)
async def test_any_name_is_stored(tmp_path_factory, names):
    directory = tmp_path_factory.mktemp("cache")
    await filled(directory, names).save()
    assert loaded(directory)[1] == set(names)


async def test_a_process_killed_at_any_step_of_a_save_leaves_the_content_before_or_after_it(tmp_path):
    fate = Fate()
    seen = set()
    for step in range(1, 20):
        directory = tmp_path / str(step)
        await filled(directory, ["a"]).save()
        before = loaded(directory)
        cache = filled(directory, ["a", "b"], step=fate.step)
        try:
            with fate.killed_at(step):
                await cache.save()
        except Killed:
            seen.add(loaded(directory) == before)
        else:
            break
        assert len(loaded(directory)[1]) in {1, 2}
        cache = filled(directory, ["a", "b", "c"])
        await cache.save()
        assert loaded(directory)[1] == {"a", "b", "c"}, f"no save after a process killed at step {step}"
    else:
        pytest.fail("a save has more steps than were tried")
    assert seen == {True, False}, "the process was never killed before the change, or never after it"


async def test_a_process_killed_in_its_first_save_leaves_nothing_that_is_used(tmp_path):
    fate = Fate()
    for step in range(1, 20):
        directory = tmp_path / str(step)
        cache = filled(directory, ["a"], step=fate.step)
        try:
            with fate.killed_at(step):
                await cache.save()
        except Killed:
            assert loaded(directory) is None or loaded(directory)[1] == {"a"}
            await filled(directory, ["b"]).save()
            assert loaded(directory)[1] == {"b"}
        else:
            return
    pytest.fail("a save has more steps than were tried")


def rejected(directory):
    with capture_logs() as logs:
        assert Cache(directory).load() is None
    (line,) = [line for line in logs if line["event"] == "cache rejected"]
    assert line["log_level"] == "error"
    assert not os.path.lexists(directory / CACHE_FILE)
    assert os.path.lexists(directory / REJECTED_FILE)
    return line["problem"]


async def test_a_symbolic_link_is_set_aside(tmp_path):
    await filled(tmp_path, ["a"]).save()
    (tmp_path / CACHE_FILE).rename(tmp_path / "target")
    (tmp_path / CACHE_FILE).symlink_to("target")
    assert rejected(tmp_path) == "it exists, but is a symbolic link"


@pytest.mark.parametrize("mode", [0o664, 0o646])
async def test_a_file_that_others_can_write_is_set_aside(tmp_path, mode):
    await filled(tmp_path, ["a"]).save()
    (tmp_path / CACHE_FILE).chmod(mode)
    assert "can be written by other users" in rejected(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a file")
async def test_a_file_of_another_user_is_set_aside(tmp_path):
    await filled(tmp_path, ["a"]).save()
    os.chown(tmp_path / CACHE_FILE, 1234, 1234)
    assert "owner 1234" in rejected(tmp_path)


def test_a_directory_and_a_pipe_are_set_aside(tmp_path):
    (tmp_path / "a" / CACHE_FILE).mkdir(parents=True)
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / CACHE_FILE, 0o600)
    for directory in ("a", "b"):
        assert "not a regular file" in rejected(tmp_path / directory)


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"version":1,"pods":[]}', b"\xff", b'{"version":1', b'{"version":1,"x":' + b"[" * 100_000]
)
def test_a_damaged_file_is_set_aside(tmp_path, content):
    (tmp_path / CACHE_FILE).write_bytes(content)
    (tmp_path / CACHE_FILE).chmod(0o600)
    assert "cannot be decoded" in rejected(tmp_path)


def test_a_file_of_another_version_is_set_aside(tmp_path):
    (tmp_path / CACHE_FILE).write_text('{"version":2,"containers":7}')
    (tmp_path / CACHE_FILE).chmod(0o600)
    assert "version 2" in rejected(tmp_path)


async def test_a_failed_save_is_reported_and_repeated(tmp_path):
    obstacle = tmp_path / "state"
    obstacle.write_text("a file where the directory should be")
    cache = filled(obstacle, ["a"])
    await cache.save()
    assert cache.problem
    obstacle.unlink()
    await cache.save()
    assert cache.problem is None
    assert loaded(obstacle)[1] == {"a"}


async def test_nothing_is_written_where_nothing_has_changed(tmp_path):
    cache = filled(tmp_path, ["a"])
    await cache.save()
    inode = (tmp_path / CACHE_FILE).stat().st_ino
    cache.set_head("balloons", {"kind": "BalloonsPolicy", "spec": {"pinCPU": True}})
    cache.set_grants({ContainerId("a"): {"cpus": "0-3", "milli": 100}})
    await cache.save()
    assert (tmp_path / CACHE_FILE).stat().st_ino == inode


async def test_a_save_of_500_containers_takes_about_a_millisecond(tmp_path):
    names = [f"{number:064x}" for number in range(500)]
    cache = filled(tmp_path, names)
    await cache.save()
    times = []
    for number in range(20):
        cache.put(container(f"new-{number}"), ContainerValues())
        start = time.perf_counter()
        cache.set_grants({ContainerId(name): {"cpus": "0-3", "milli": 100} for name in [*names, f"new-{number}"]})
        await cache.save()
        times.append(time.perf_counter() - start)
    # The fastest of them: other programs run on a test machine.
    assert min(times) < 0.003
    print(f"fastest save: {1000 * min(times):.2f} ms")


async def test_a_pod_is_stored_as_long_as_one_of_its_containers(tmp_path):
    cache = filled(tmp_path, [])
    first, second = container("a"), replace(container("b"), pod=container("a").pod)
    for each in (first, second, first):
        cache.put(each, ContainerValues())
    cache.drop(first.id)
    await cache.save()
    assert loaded(tmp_path)[:2] == ({"pod-a"}, {"b"})
    cache.drop(second.id)
    cache.drop(second.id)
    await cache.save()
    assert loaded(tmp_path)[:2] == (set(), set())
    cache.put(first, ContainerValues())
    await cache.save()
    assert loaded(tmp_path)[:2] == ({"pod-a"}, {"a"})


async def test_dropped_pods_leave_nothing_in_the_file(tmp_path):
    cache = filled(tmp_path, ["a"])
    await cache.save()
    before = (tmp_path / CACHE_FILE).read_bytes()
    for number in range(1000):
        each = container(f"{number}")
        cache.put(each, ContainerValues())
        cache.drop(each.id)
    cache.set_head("other", None)
    await cache.save()
    cache.set_head("balloons", {"kind": "BalloonsPolicy", "spec": {"pinCPU": True}})
    await cache.save()
    assert (tmp_path / CACHE_FILE).read_bytes() == before


async def test_a_slow_disk_holds_up_the_save_and_not_the_event_loop(tmp_path):
    writing, disk = threading.Event(), threading.Event()

    def step():
        writing.set()
        assert disk.wait(20)

    saving = asyncio.create_task(filled(tmp_path, ["a"], step=step).save())
    assert await asyncio.to_thread(writing.wait, 20)
    assert not saving.done()
    assert loaded(tmp_path) is None
    disk.set()
    await saving
    assert loaded(tmp_path)[1] == {"a"}


async def test_the_later_of_two_saves_counts_where_the_first_was_cancelled(tmp_path):
    writing, disk = threading.Event(), threading.Event()

    def step():
        writing.set()
        assert disk.wait(20)

    cache = filled(tmp_path, ["a"], step=step)
    cancelled = asyncio.create_task(cache.save())
    assert await asyncio.to_thread(writing.wait, 20)
    cancelled.cancel()
    await asyncio.wait({cancelled})
    cache.put(container("b"), ContainerValues())
    later = asyncio.create_task(cache.save())
    disk.set()
    await later
    assert loaded(tmp_path)[1] == {"a", "b"}


async def test_a_cancelled_save_is_made_up_for_by_the_next_one(tmp_path):
    writing, disk = threading.Event(), threading.Event()

    def step():
        writing.set()
        assert disk.wait(20)

    cache = filled(tmp_path, ["a"], step=step)
    first = asyncio.create_task(cache.save())
    assert await asyncio.to_thread(writing.wait, 20)
    cache.put(container("b"), ContainerValues())
    waiting = asyncio.create_task(cache.save())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    disk.set()
    await first
    assert loaded(tmp_path)[1] == {"a"}
    await cache.save()
    assert loaded(tmp_path)[1] == {"a", "b"}


async def test_everything_about_a_container_is_stored(tmp_path):
    resources = ContainerResources(
        cpu_request_milli=100, cpu_limit_milli=200, memory_request_bytes=300, memory_limit_bytes=400
    )
    values = ContainerValues(cpu_shares=5, cpu_quota_us=6, memory_limit_bytes=7)
    cache = Cache(tmp_path)
    cache.put(replace(container("a"), resources=resources), values, CreationClasses(rdt="gold", blockio="slow"))
    await cache.save()
    content = Cache(tmp_path).load()
    assert content.containers == {
        "a": CachedContainer(
            pod="pod-a",
            name="main",
            created_ns=7,
            cpu_request_milli=100,
            cpu_limit_milli=200,
            memory_request_bytes=300,
            memory_limit_bytes=400,
            set_cpu_shares=5,
            set_cpu_quota_us=6,
            set_memory_limit_bytes=7,
            rdt_class="gold",
            blockio_class="slow",
        )
    }
    assert content.pods == {"pod-a": CachedPod(uid="uid-a", namespace="ns", name="p-a", qos="Burstable")}
    assert (content.version, content.policy, content.configuration) == (1, "", None)


CHANGES = {
    "resources": lambda cache: cache.put(container("a", milli=7), ContainerValues(cpu_shares=77)),
    "values": lambda cache: cache.put(container("a"), ContainerValues(cpu_shares=78)),
    "classes": lambda cache: cache.put(container("a"), ContainerValues(cpu_shares=77), CreationClasses(rdt="gold")),
    "another container": lambda cache: cache.put(container("b"), ContainerValues()),
    "an end": lambda cache: cache.drop(ContainerId("a")),
    "all ends": lambda cache: cache.clear(),
    "a policy": lambda cache: cache.set_head("other", {"kind": "BalloonsPolicy", "spec": {"pinCPU": True}}),
    "a configuration": lambda cache: cache.set_head("balloons", {"kind": "BalloonsPolicy"}),
    "a grant": lambda cache: cache.set_grants({ContainerId("a"): {"cpus": "1", "milli": 100}}),
    "no grant": lambda cache: cache.set_grants({}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_each_change_alone_is_written_by_the_next_save_and_by_no_later_one(tmp_path, change):
    cache = filled(tmp_path, ["a"])
    await cache.save()
    before = Cache(tmp_path).load()
    change(cache)
    await cache.save()
    assert Cache(tmp_path).load() != before
    inode = (tmp_path / CACHE_FILE).stat().st_ino
    change(cache)
    await cache.save()
    assert (tmp_path / CACHE_FILE).stat().st_ino == inode


async def test_only_this_user_writes_the_file_and_only_its_group_looks_for_it(tmp_path):
    umask = os.umask(0)
    try:
        await filled(tmp_path / "state", ["a"]).save()
    finally:
        os.umask(umask)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state", tmp_path / "state" / CACHE_FILE)]
    assert modes == [0o710, 0o644]


@pytest.mark.parametrize(
    ("size", "problem"), [(64 << 20, "cannot be decoded"), ((64 << 20) + 1, "more than any cache")]
)
def test_a_file_that_is_larger_than_any_cache_is_not_read(tmp_path, size, problem):
    (tmp_path / CACHE_FILE).touch(0o600)
    os.truncate(tmp_path / CACHE_FILE, size)
    assert problem in rejected(tmp_path)


def test_a_file_that_cannot_be_set_aside_is_not_used_either(tmp_path):
    (tmp_path / CACHE_FILE).write_text("{")
    (tmp_path / CACHE_FILE).chmod(0o600)
    (tmp_path / REJECTED_FILE).mkdir()
    with capture_logs() as logs:
        assert Cache(tmp_path).load() is None
    assert [line["event"] for line in logs] == ["cache rejected", "rejected cache not set aside"]


async def test_a_new_file_that_is_complete_is_read_where_the_old_one_is_gone(tmp_path):
    await filled(tmp_path, ["a"]).save()
    (tmp_path / CACHE_FILE).rename(tmp_path / f"{CACHE_FILE}.new")
    assert loaded(tmp_path)[1] == {"a"}
    assert [path.name for path in tmp_path.iterdir()] == [CACHE_FILE]
