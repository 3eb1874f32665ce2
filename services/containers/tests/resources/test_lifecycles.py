"""What the resource manager keeps over many lives of pods: as much as lives, whatever order events come in."""

import random

import pytest

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.ttrpc import TtrpcError
from joulie_containers.resources.cache import Cache


def stored(node):
    content = Cache(node.directory / "state").load()
    return set(content.pods), set(content.containers), set(content.grants)


def kept(manager):
    """The containers of which anything is in memory."""
    engine, ledger = manager.engine, manager.ledger
    return {
        *engine.containers,
        *engine.originals,
        *engine._created_with,
        *engine._once_adjusted,
        *engine._ended,
        *ledger._entries,
        *ledger._not_running,
        *ledger._unstarted,
        *ledger._pending,
        *ledger._exclusive,
    }


def of(*names):
    """What is stored where each of these containers is in the pod of its name."""
    return {f"p{name}" for name in names}, set(names), set(names)


async def run(node, name, **kwargs):
    await node.add(node.container(name, pod=f"p{name}", **kwargs))


async def end(node, name, events=("stop", "remove", "stop_pod", "remove_pod")):
    """End a container and its pod with these events of the runtime, in this order."""
    runtime, pod = node.runtime, f"p{name}"
    sandbox, container = runtime.pods[pod], runtime.containers[name]
    for event in events:
        match event:
            case "stop":
                runtime.pods[pod], runtime.containers[name] = sandbox, container
                await runtime.stop_container(name)
            case "remove":
                runtime.pods[pod], runtime.containers[name] = sandbox, container
                await runtime.remove_container(name)
            case "stop_pod":
                runtime.pods[pod] = sandbox
                await runtime.stop_pod(pod)
            case "remove_pod":
                runtime.pods[pod] = sandbox
                await runtime.remove_pod(pod)
    runtime.containers.pop(name, None)
    runtime.pods.pop(pod, None)


ORDERS = (
    ("stop", "remove", "stop_pod", "remove_pod"),
    ("remove", "remove_pod"),
    ("stop", "remove_pod"),
    ("remove_pod",),
    ("stop_pod", "remove_pod", "stop", "remove"),
    ("remove_pod", "remove", "stop"),
    ("remove_pod", "stop_pod", "stop_pod", "remove"),
)


@pytest.mark.parametrize("events", ORDERS, ids=" ".join)
async def test_nothing_is_kept_of_a_pod_that_ended_in_any_order_of_events(node, events):
    manager = await node.start()
    await run(node, "a")
    for number in range(20):
        await run(node, f"g{number}", milli=1000)
        await end(node, f"g{number}", events)
    await manager.until_cpus(a="0-7")
    assert stored(node) == of("a")
    assert kept(manager) == {"a"}
    assert manager.pipeline.cgroups.keys() <= {"a"}


async def test_a_thousand_pods_leave_as_much_as_the_one_that_lives(node):
    manager = await node.start()
    await run(node, "a")
    file = node.directory / "state" / "cache.json"
    before = file.stat().st_size
    chance = random.Random(1)
    for number in range(1000):
        await run(node, f"g{number}", milli=1000)
        await end(node, f"g{number}", chance.choice(ORDERS))
    assert stored(node) == of("a")
    assert file.stat().st_size == before
    assert kept(manager) == {"a"}


async def test_pods_that_ended_without_a_resource_manager_are_not_stored_by_the_next(node):
    manager = await node.start()
    for name in ("a", "b", "c"):
        await run(node, name, milli=1000)
    await manager.kill()
    for name in ("a", "b"):
        del node.runtime.containers[name], node.runtime.pods[f"p{name}"]
    node.existing(node.container("d", pod="pd"))
    again = await node.start()
    assert stored(node) == of("c", "d")
    assert kept(again) == {"c", "d"}


async def test_pods_that_ended_while_the_runtime_was_away_are_dropped_when_it_lists_its_containers(node):
    manager = await node.start()
    for name in ("a", "b"):
        await run(node, name, milli=1000)
    await node.runtime.disconnect()
    del node.runtime.containers["a"], node.runtime.pods["pa"]
    await node.runtime.registered()
    assert stored(node) == of("b")
    assert kept(manager) == {"b"}


async def test_a_container_that_outlives_the_events_of_its_pod_is_stored_again_when_it_is_listed(node):
    manager = await node.start()
    await run(node, "a", milli=1000)
    pod = node.runtime.pods["pa"]
    await node.runtime.remove_pod("pa")
    assert stored(node) == of()
    node.runtime.pods["pa"] = pod
    await node.runtime.disconnect()
    await node.runtime.registered()
    assert stored(node) == of("a")
    assert kept(manager) == {"a"}


async def test_an_update_of_a_stopped_container_does_not_place_it_again(node):
    manager = await node.start()
    await run(node, "g", milli=2000)
    await node.runtime.stop_container("g")
    assert node.runtime.containers["g"].state == nri.CONTAINER_STOPPED
    assert await node.runtime.update_container("g", node.container("x", milli=1000).linux.resources) == []
    assert manager.engine.placements == {}
    assert stored(node) == of()


async def test_containers_that_were_refused_leave_nothing(node):
    manager = await node.start()
    container = node.container("g", milli=9000)
    container.linux.cgroups_path = "/kubepods/g"
    with pytest.raises(TtrpcError, match="9 CPUs requested"):
        await node.add(container)
    assert kept(manager) == set()
    assert manager.pipeline.cgroups == {}


async def test_nothing_is_stored_before_the_runtime_has_listed_its_containers(node):
    manager = await node.start()
    await run(node, "g", milli=2000)
    await manager.kill()
    successor = node.manager()
    await successor.apply(node.policy("0-5"))
    assert stored(node) == of("g"), "a process that ends now would lose the grants in force"
