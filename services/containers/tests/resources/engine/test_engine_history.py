"""What the engine remembers: grants of containers that start again, limits that were set, and the process before."""

from dataclasses import replace

import pytest
from services.containers.tests.resources.engine.engine_bench import EngineBench, container, cpus

from joulie_containers.resources.values import ContainerValues, CreationClasses
from joulie_core.containers.container import ContainerResources, PodSandboxId


async def successor(directory, *listed, **in_force):
    """The next process, after the runtime has listed its containers."""
    bench = EngineBench(directory)
    bench.engine.restore(bench.cache.load())
    await bench.configure()
    await bench.list(*listed, **in_force)
    return bench


async def test_a_container_that_starts_again_has_its_cpus_without_another_allocation(bench):
    for each in (container("g", 1000), container("h", 1000)):
        await bench.engine.create(each)
    bench.engine.release(["g", "h"])
    bench.policy.calls.clear()
    await bench.engine.create(container("again", 1000, called="h"))
    assert (bench.wanted(), bench.policy.calls) == ({"again": "1"}, [])


@pytest.mark.parametrize("kind", ["the pod ends", "another list", "it has other CPUs by now", "another pod"])
async def test_cpus_of_an_ended_container_are_not_given_again_where(bench, kind):
    for each in (container("g", 1000), container("h", 1000)):
        await bench.engine.create(each)
    bench.engine.release(["g", "h"])
    pod = "pod"
    match kind:
        case "the pod ends":
            bench.engine.end_pod(PodSandboxId("pod"))
        case "another list":
            await bench.list()
        case "it has other CPUs by now":
            bench.policy.restore = lambda state, info, _grant: bench.policy.allocate(state, info)
        case _:
            pod = "other"
    await bench.engine.create(container("again", 1000, called="h", pod=pod))
    assert bench.wanted() == {"again": "0"}


async def test_the_end_of_another_pod_is_no_end_of_this_one(bench):
    for each in (container("g", 1000), container("h", 1000)):
        await bench.engine.create(each)
    bench.engine.release(["g", "h"])
    bench.engine.end_pod(PodSandboxId("other"))
    await bench.engine.create(container("again", 1000, called="h"))
    assert bench.wanted() == {"again": "1"}


async def test_a_grant_is_given_again_once(bench):
    for each in (container("g", 1000), container("h", 1000)):
        await bench.engine.create(each)
    bench.engine.release(["g", "h"])
    await bench.engine.create(container("again", 1000, called="h"))
    assert bench.engine._ended.keys() == {("pod", "g")}


async def test_a_container_that_was_refused_and_ends_has_no_grant_to_start_again_with(bench):
    await bench.engine.create(container("g", 4000))
    await bench.configure("0-2")
    bench.engine.release(["g"])
    assert bench.engine._ended == {}


async def test_limits_are_set_for_a_container_that_an_adjustment_changes_and_for_no_other(bench):
    await bench.engine.create(container("a", 1000))
    assert bench.ledger.wanted("a") == cpus("0")
    bench.adjusted(cpu_limit_milli=2000)
    assert bench.engine.adjust() == {}
    assert bench.ledger.wanted("a").cpu_quota_us == 200_000
    bench.adjusted(cpu_limit_milli=3000)
    bench.engine.adjust()
    assert bench.ledger.wanted("a").cpu_quota_us == 300_000
    bench.adjust = lambda each: each
    bench.engine.adjust()
    assert bench.ledger.wanted("a").cpu_quota_us == -1
    await bench.engine.create(container("b", 1000))
    assert bench.ledger.wanted("b") == cpus("1")


async def test_what_a_container_once_had_does_not_outlive_it(bench):
    bench.adjusted(cpu_limit_milli=2000)
    await bench.engine.create(container("g", 1000))
    bench.engine.release(["g"])
    bench.adjust = lambda each: each
    await bench.engine.create(container("g", 1000))
    assert bench.ledger.wanted("g") == cpus("0")


async def test_adjustments_without_room_are_returned_and_the_others_applied(bench):
    for each in (container("a", 1000), container("g", 6000)):
        await bench.engine.create(each)
    bench.adjusted(cpu_request_milli=2000)
    assert bench.engine.adjust() == {"a": "2 CPUs requested, 2 left"}
    assert bench.wanted() == {"a": "0", "g": "1-2"}
    assert bench.recorder.rejections == []


async def test_an_adjustment_of_a_container_without_a_placement_sets_nothing(bench):
    await bench.engine.create(container("g", 4000))
    await bench.configure("0-2")
    bench.policy.update = lambda state, _container: bench.policy.release(state, "other")
    bench.adjusted(cpu_limit_milli=2000)
    assert bench.engine.adjust() == {}
    assert bench.ledger.wanted("g").cpu_quota_us is None


async def test_the_next_process_knows_grants_classes_and_what_was_set(bench, tmp_path):
    bench.adjusted(cpu_limit_milli=2000, memory_limit_bytes=5)
    resources = ContainerResources(
        cpu_request_milli=1000, cpu_limit_milli=1500, memory_request_bytes=3, memory_limit_bytes=4
    )
    for each in (container("g", 1000), container("h", 1000)):
        await bench.engine.create(each)
    given = replace(container("h", 1000), resources=resources)
    created = CreationClasses(rdt="r", blockio="b")
    bench.engine.release(["g"])
    bench.cache.put(given, ContainerValues(cpu_shares=9, cpu_quota_us=8, memory_limit_bytes=7), created)
    await bench.stored()
    later = EngineBench(tmp_path)
    later.engine.restore(later.cache.load())
    known = later.engine.known_resources("h")
    assert known.resources == resources
    assert known.set_values == ContainerValues(cpu_shares=9, cpu_quota_us=8, memory_limit_bytes=7)
    assert later.engine.created_with("h") == created
    assert later.engine.known_resources("g") is None
    await later.configure()
    assert await later.stored() == await bench.stored(), "it has not listed its containers yet"
    await later.list(container("h", 1000))
    assert later.wanted() == {"h": "1"}
    assert later.engine.created_with("h") == created
    assert later.ledger.wanted("h").cpu_quota_us == -1, "a limit was in force that is to end"
    later.engine.release(["h"])
    assert later.engine.known_resources("h") is None


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        (ContainerValues(cpu_quota_us=8), (-1, -1)),
        (ContainerValues(memory_limit_bytes=7), (-1, -1)),
        (ContainerValues(cpu_shares=9), (None, None)),
    ],
)
async def test_the_next_process_ends_limits_that_were_set_and_leaves_the_runtimes(bench, tmp_path, values, limits):
    await bench.engine.create(container("g", 1000))
    bench.cache.put(bench.engine.originals["g"], values)
    await bench.stored()
    later = await successor(tmp_path, container("g", 1000))
    wanted = later.ledger.wanted("g")
    assert (wanted.cpu_quota_us, wanted.memory_limit_bytes) == limits


async def test_a_second_list_goes_by_what_is_in_force_and_not_by_what_was_stored(bench, tmp_path):
    await bench.engine.create(container("g", 1000))
    await bench.engine.create(container("h", 1000))
    await bench.stored()
    later = await successor(tmp_path, container("h", 1000), container("new", 1000))
    assert later.wanted() == {"h": "1", "new": "0"}
    await later.list(container("h", 1000), container("new", 1000), container("g", 1000))
    assert later.wanted() == {"h": "1", "new": "0", "g": "2"}
