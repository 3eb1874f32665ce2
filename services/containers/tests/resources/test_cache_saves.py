"""Saves of the cache: which changes they write, in which order, and what a reader assumes of what is absent."""

import asyncio
import os
import threading

import pytest
from services.containers.tests.resources.test_cache import container, filled, loaded
from structlog.testing import capture_logs

from joulie_containers.resources.cache import CACHE_FILE, Cache, CachedContainer
from joulie_containers.resources.values import ContainerValues
from joulie_core.containers.container import ContainerId


def test_fields_that_an_earlier_release_did_not_write_are_not_known(tmp_path):
    (tmp_path / CACHE_FILE).write_text(
        '{"version":1,"containers":{"a":{"pod":"p","name":"n","created_ns":1,"cpu_request_milli":2,'
        '"cpu_limit_milli":null,"memory_request_bytes":3,"memory_limit_bytes":null}}}'
    )
    content = Cache(tmp_path).load()
    assert content.containers["a"] == CachedContainer(
        pod="p",
        name="n",
        created_ns=1,
        cpu_request_milli=2,
        cpu_limit_milli=None,
        memory_request_bytes=3,
        memory_limit_bytes=None,
        set_cpu_shares=None,
        set_cpu_quota_us=None,
        set_memory_limit_bytes=None,
        rdt_class=None,
        blockio_class=None,
    )
    assert (content.policy, content.configuration, content.pods, content.grants) == ("", None, {}, {})
    (tmp_path / CACHE_FILE).write_text('{"version":1}')
    assert Cache(tmp_path).load().containers == {}


async def test_a_cache_without_a_policy_yet_is_read_again(tmp_path):
    cache = Cache(tmp_path)
    await cache.save()
    assert not (tmp_path / CACHE_FILE).exists()
    cache.set_grants({ContainerId("a"): {"cpus": "1"}})
    await cache.save()
    assert loaded(tmp_path) == (set(), set(), {"a": {"cpus": "1"}})


NOTHING_NEW = {
    "the same policy": lambda cache: cache.set_head("balloons", {"kind": "BalloonsPolicy", "spec": {"pinCPU": True}}),
    "the same grants": lambda cache: cache.set_grants({ContainerId("a"): {"cpus": "0-3", "milli": 100}}),
    "the same container": lambda cache: cache.put(container("a"), ContainerValues(cpu_shares=77)),
    "the end of an unknown one": lambda cache: cache.drop(ContainerId("x")),
}


@pytest.mark.parametrize("later", NOTHING_NEW.values(), ids=NOTHING_NEW)
async def test_a_change_is_written_also_where_nothing_new_follows_it(tmp_path, later):
    cache = filled(tmp_path, ["a"])
    await cache.save()
    cache.put(container("b"), ContainerValues())
    later(cache)
    await cache.save()
    assert loaded(tmp_path)[1] == {"a", "b"}


async def test_a_policy_is_written_also_where_everything_was_dropped_that_there_was_not(tmp_path):
    cache = Cache(tmp_path)
    cache.set_head("template", None)
    cache.clear()
    await cache.save()
    assert Cache(tmp_path).load().policy == "template"


async def test_the_values_of_one_and_the_same_container_change(tmp_path):
    cache, info = filled(tmp_path, []), container("a")
    for shares in (1, 2):
        cache.put(info, ContainerValues(cpu_shares=shares))
    await cache.save()
    assert Cache(tmp_path).load().containers["a"].set_cpu_shares == 2


async def test_a_container_that_comes_back_has_its_grant_again(tmp_path):
    cache, grant = filled(tmp_path, []), {"cpus": "3"}
    for _ in range(2):
        cache.put(container("a"), ContainerValues())
        cache.set_grants({ContainerId("a"): grant})
        cache.drop(ContainerId("a"))
    cache.put(container("a"), ContainerValues())
    cache.set_grants({ContainerId("a"): grant})
    await cache.save()
    assert loaded(tmp_path) == ({"pod-a"}, {"a"}, {"a": {"cpus": "3"}})


async def test_directories_above_the_state_directory_are_created(tmp_path):
    await filled(tmp_path / "a" / "b", ["a"]).save()
    assert loaded(tmp_path / "a" / "b")[1] == {"a"}


async def test_a_kernel_that_takes_a_part_of_each_write_gets_the_rest_too(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:100]))
    await filled(tmp_path, ["a", "b"]).save()
    assert loaded(tmp_path)[1] == {"a", "b"}
    assert (tmp_path / CACHE_FILE).stat().st_size > 100


async def test_one_thread_writes_one_save_after_the_other(tmp_path):
    writing, disk = threading.Event(), threading.Event()
    threads = set()

    def step():
        threads.add(threading.get_ident())
        writing.set()
        assert disk.wait(20)

    cache = filled(tmp_path, ["a"], step=step)
    first = asyncio.create_task(cache.save())
    assert await asyncio.to_thread(writing.wait, 20)
    cache.put(container("b"), ContainerValues())
    second = asyncio.create_task(cache.save())
    await asyncio.sleep(0)
    disk.set()
    await asyncio.gather(first, second)
    assert len(threads) == 1
    assert loaded(tmp_path)[1] == {"a", "b"}


async def test_a_save_that_fails_is_told_once_and_again_when_one_works(tmp_path):
    obstacle = tmp_path / "state"
    obstacle.write_text("a file where the directory should be")
    cache = filled(obstacle, ["a"])
    with capture_logs() as logs:
        await cache.save()
        await cache.save()
        problem = cache.problem
        obstacle.unlink()
        await cache.save()
    assert "File exists" in problem
    assert [(line["event"], line["log_level"], line.get("problem")) for line in logs] == [
        ("cache not saved", "warning", problem),
        ("cache saved again", "info", None),
    ]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755])
async def test_a_file_that_others_can_only_read_is_used(tmp_path, mode):
    await filled(tmp_path, ["a"]).save()
    (tmp_path / CACHE_FILE).chmod(mode)
    assert loaded(tmp_path)[1] == {"a"}
