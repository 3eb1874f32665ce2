"""The resource manager on a fake runtime: what containers have after events of the runtime and of the policy."""

import asyncio
import threading
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from joulie_containers.nri.proto import nri_pb2 as nri
from joulie_containers.nri.ttrpc import TtrpcError
from joulie_containers.resources.cache import Cache
from joulie_containers.resources.settings import OnDeadline
from joulie_core.containers.policy import PowerProfileChanged, RebalanceRequested


async def test_a_container_gets_exclusive_cpus_and_the_others_shrink_at_once(node):
    manager = await node.start()
    await node.add(node.container("a"), node.container("b"))
    await node.add(node.container("g", milli=2000))
    assert manager.cpus() == {"a": "2-7", "b": "2-7", "g": "0-1"}


async def test_the_others_get_the_cpus_of_a_stopped_container_back_in_the_reply(node):
    manager = await node.start()
    await node.add(node.container("a"), node.container("g", milli=2000))
    updates = await node.runtime.stop_container("g")
    assert [(each.container_id, each.linux.resources.cpu.cpus) for each in updates] == [("a", "0-7")]
    assert manager.cpus() == {"a": "0-7"}


async def test_a_removed_container_and_those_of_a_removed_pod_are_released(node):
    manager = await node.start()
    await node.add(
        node.container("a"), node.container("g", milli=2000, pod="p1"), node.container("h", milli=1000, pod="p2")
    )
    await node.runtime.remove_container("g")
    await manager.until_cpus(a="0-1,3-7", h="2")
    del node.runtime.containers["h"]
    await node.runtime.remove_pod("p2")
    await manager.until_cpus(a="0-7")


async def test_a_container_that_cannot_be_placed_is_refused_with_the_reason(node):
    manager = await node.start()
    await node.add(node.container("a"))
    with pytest.raises(TtrpcError, match="8 CPUs requested, 8 left"):
        await node.add(node.container("g", milli=8000))
    assert manager.recorder.rejections == [("g", "8 CPUs requested, 8 left")]
    assert manager.cpus() == {"a": "0-7"}
    await node.add(node.container("h", milli=1000))
    assert manager.cpus() == {"a": "1-7", "h": "0"}


async def test_a_refused_update_of_resources_keeps_the_exclusive_cpus(node):
    manager = await node.start()
    await node.add(node.container("g", milli=2000), node.container("a"))
    with pytest.raises(TtrpcError, match="9 CPUs requested"):
        await node.runtime.update_container("g", node.container("x", milli=9000).linux.resources)
    await node.add(node.container("b", milli=1000))
    assert manager.cpus() == {"g": "0-1", "a": "3-7", "b": "2"}


async def test_an_update_of_resources_changes_the_container_and_the_others(node):
    manager = await node.start()
    await node.add(node.container("g", milli=2000), node.container("a"))
    await node.runtime.update_container("g", node.container("x", milli=3000).linux.resources)
    assert manager.cpus() == {"g": "0-2", "a": "3-7"}


async def test_a_restarted_container_of_a_pod_replaces_the_earlier_one(node):
    manager = await node.start()
    await node.add(node.container("g1", milli=7000))
    replacement = node.container("g2", milli=7000)
    replacement.name = "g1"
    await node.add(replacement)
    assert manager.engine.placements.keys() == {"g2"}


async def test_a_second_pod_of_the_same_name_gets_cpus_of_its_own(node):
    manager = await node.start()
    for number in ("1", "2"):
        pod = node.pod("pod" + number)
        pod.name = "same"
        await node.runtime.run_pod(pod)
        container = node.container("c" + number, pod="pod" + number, milli=2000)
        container.name = "main"
        await node.add(container)
    assert manager.cpus() == {"c1": "0-1", "c2": "2-3"}


async def test_containers_that_ran_before_are_placed_when_the_plugin_registers(node):
    node.existing(
        node.container("a"), node.container("g", milli=2000), node.container("old", state=nri.CONTAINER_STOPPED)
    )
    manager = await node.start()
    assert manager.cpus() == {"a": "2-7", "g": "0-1"}
    assert manager.engine.containers.keys() == {"a", "g"}


async def test_a_container_whose_start_has_begun_is_updated_again_when_it_runs(node):
    manager = await node.start()
    await node.add(node.container("a"), start=False)
    node.runtime.begin_start("a")
    await node.add(node.container("g", milli=2000))
    assert (manager.cpus()["a"], running_cpus(node, "a")) == ("2-7", "0-7")
    await node.runtime.end_start("a")
    await manager.until(lambda: running_cpus(node, "a") == "2-7")


async def test_a_container_whose_start_had_begun_when_the_plugin_registered_is_updated_again_when_it_runs(node):
    node.existing(node.container("a", state=nri.CONTAINER_CREATED, cpus="0-7"), node.container("g", milli=2000))
    node.runtime.begin_start("a")
    manager = await node.start()
    assert (manager.cpus()["a"], running_cpus(node, "a")) == ("2-7", "0-7")
    await node.runtime.end_start("a")
    await manager.until(lambda: running_cpus(node, "a") == "2-7")


async def test_a_container_whose_start_has_begun_gets_a_new_configuration_when_it_runs(node):
    manager = await node.start()
    await node.add(node.container("a"), start=False)
    node.runtime.begin_start("a")
    await manager.apply(node.policy("0-3"))
    await node.runtime.end_start("a")
    await manager.until(lambda: running_cpus(node, "a") == "0-3")


def running_cpus(node, name):
    """The CPUs that the process of a container has."""
    return node.runtime.running[name].cpu.cpus


async def test_a_restart_moves_nothing(node):
    first = await node.start()
    await node.add(node.container("g", milli=2000), node.container("h", milli=1000), node.container("a"))
    await node.runtime.stop_container("g")
    await node.runtime.remove_container("g")
    before = first.cpus()
    assert before == {"h": "2", "a": "0-1,3-7"}
    await first.kill()
    node.runtime.updates.clear()
    second = await node.start()
    assert (second.cpus(), node.runtime.updates) == (before, [])


async def test_containers_that_ended_while_no_manager_ran_are_dropped_and_new_ones_placed(node):
    first = await node.start()
    await node.add(node.container("g", milli=2000), node.container("h", milli=1000), node.container("a"))
    await first.kill()
    del node.runtime.containers["g"]
    node.existing(node.container("new", milli=1000))
    second = await node.start()
    assert second.cpus() == {"h": "2", "new": "0", "a": "1,3-7"}
    stored = Cache(node.directory / "state").load()
    assert stored.grants == {"h": {"cpus": "2"}, "new": {"cpus": "0"}, "a": {"cpus": ""}}


async def test_a_restarted_runtime_moves_nothing(node):
    manager = await node.start()
    await node.add(node.container("g", milli=2000), node.container("h", milli=1000), node.container("a"))
    await node.runtime.stop_container("g")
    await node.runtime.remove_container("g")
    before = manager.cpus()
    node.runtime.updates.clear()
    await node.runtime.disconnect()
    await node.runtime.registered()
    assert (manager.cpus(), node.runtime.updates) == (before, [])


async def test_a_new_configuration_moves_running_containers(node):
    manager = await node.start()
    await node.add(node.container("g", milli=2000), node.container("a"))
    await manager.apply(node.policy("1-4"))
    await manager.until_cpus(g="1-2", a="3-4")


async def test_a_container_without_a_place_in_a_new_configuration_keeps_what_it_has(node):
    manager = await node.start()
    await node.add(node.container("a", created=1), node.container("g", milli=4000, created=2))
    await manager.apply(node.policy("0-2"))
    await manager.until_cpus(a="0-2", g="0-3")
    assert manager.recorder.rejections == [("g", "4 CPUs requested, 3 left")]


async def test_exclusive_cpus_wait_for_an_update_that_the_runtime_fails(node):
    manager = await node.start()
    await node.add(node.container("a"), node.container("g", milli=1000))
    node.runtime.refuse_updates = {"a"}
    await manager.apply(node.policy("4-7"))
    await manager.until(lambda: manager.updater.failed)
    assert manager.cpus() == {"a": "1-7", "g": "0"}, "g must not run beside a on CPU 4"
    node.runtime.refuse_updates = set()
    await manager.until_cpus(a="5-7", g="4")


async def test_a_policy_event_changes_placements(node):
    manager = await node.start()
    await node.add(node.container("a"))
    await manager.pipeline.policy_event(PowerProfileChanged("eco"))
    await manager.until_cpus(a="0-6")


async def test_a_rebalance_reaches_the_policy_with_the_usage(node):
    manager = await node.start()
    await node.add(node.container("g", milli=1000), node.container("h", milli=1000))
    await manager.pipeline.policy_event(RebalanceRequested({"g": 10, "h": 900}))
    await manager.until_cpus(g="0", h="6")


async def test_warnings_timers_and_cpu_classes_of_the_policy_are_passed_on(node):
    manager = await node.start()
    await node.runtime.run_pod(node.pod(annotations={"bad": "", "cold": ""}))
    await node.add(node.container("g", milli=2000))
    assert [each.reason for each in manager.recorder.warnings] == ["InvalidAnnotation"]
    assert [each.after_s for each in manager.recorder.requested_timers] == [0.01]
    assert manager.recorder.classes == {"performance": "0-1"}


@pytest.fixture
async def held(node):
    """A manager whose policy is busy with a new configuration until `release` is called."""
    node.runtime.request_timeout_s = 1.0
    manager = await node.start()
    await node.add(node.container("a"))
    held = manager.policy.hold = threading.Event()
    policy = node.policy()
    busy = threading.Event()

    def hold():
        busy.set()
        held.wait(20)

    policy.hold = hold
    task = asyncio.create_task(manager.apply(policy))
    await asyncio.to_thread(busy.wait, 20)
    manager.release = held.set
    yield manager
    held.set()
    await task


async def test_a_container_that_is_not_in_time_starts_and_is_placed_by_an_update(node, held):
    await node.add(node.container("g", milli=2000))
    assert held.cpus() == {"a": "0-7", "g": ""}
    held.release()
    await held.until_cpus(a="2-7", g="0-1")
    assert ("create", True) in held.recorder.requests


async def test_a_container_that_runs_before_a_late_synchronization_has_its_turn_is_updated(node, held):
    await node.runtime.disconnect()
    node.existing(node.container("b", state=nri.CONTAINER_CREATED), node.container("g", milli=2000))
    node.runtime.begin_start("b")
    await node.runtime.registered()
    await node.runtime.end_start("b")
    held.release()
    await held.until_cpus(a="2-7", b="2-7", g="0-1")
    assert running_cpus(node, "b") == "2-7"


async def test_a_container_that_is_not_in_time_and_cannot_be_placed_runs_without_a_placement(node, held):
    await node.add(node.container("g", milli=9000))
    with capture_logs() as logs:
        held.release()
        await held.until(lambda: held.recorder.rejections)
        await held.until(lambda: any(line["event"] == "request not carried out" for line in logs))
    assert held.cpus() == {"a": "0-7", "g": ""}


async def test_the_successor_of_a_container_gets_its_placement_where_it_is_not_in_time(node, held):
    successor = node.container("a2")
    successor.name = "a"
    await node.add(successor)
    assert held.cpus()["a2"] == "0-7"


async def test_a_container_that_stops_before_its_turn_leaves_nothing(node, held):
    await node.add(node.container("g", milli=2000))
    await node.runtime.stop_container("g")
    held.release()
    await held.until(lambda: not held.pipeline._work)
    await held.until_cpus(a="0-7")
    assert held.engine.placements.keys() == {"a"}


async def test_a_container_that_is_not_in_time_is_refused_where_that_is_configured(node, held):
    held.pipeline._on_deadline = OnDeadline.REJECT
    with pytest.raises(TtrpcError, match="not in time"):
        await node.add(node.container("g", milli=2000))
    held.release()
    await held.until(lambda: not held.pipeline._work)
    assert held.engine.placements.keys() == {"a"}


async def test_updates_of_a_creation_that_the_runtime_gives_up_are_sent_again(node):
    manager = await node.start()
    await node.add(node.container("a"))
    await node.add(node.container("g", milli=2000), start=False)
    # As a runtime that failed to update `a`, and so failed to create `g`.
    node.runtime.containers["a"].linux.resources.cpu.cpus = "0-7"
    await node.runtime.stop_container("g")
    assert manager.cpus() == {"a": "0-7"}


def adjust(**resources):
    """Adjust the container `g`."""

    def adjusted(container):
        if container.name != "g":
            return container
        return replace(container, resources=replace(container.resources, **resources))

    return adjusted


def limits(node, name):
    linux = node.runtime.containers[name].linux.resources
    return linux.cpu.quota.value, linux.memory.limit.value


async def test_an_adjustment_changes_a_running_container_and_its_end_restores_it(node):
    manager = await node.start()
    await node.add(node.container("a"), node.container("g", milli=1000))
    manager.adjusted = adjust(cpu_request_milli=2000, cpu_limit_milli=2000, memory_limit_bytes=1 << 30)
    assert await manager.pipeline.adjust() == {}
    await manager.until_cpus(a="2-7", g="0-1")
    assert limits(node, "g") == (200_000, 1 << 30)
    manager.adjusted = lambda container: container
    await manager.pipeline.adjust()
    await manager.until_cpus(a="1-7", g="0")
    assert limits(node, "g") == (-1, -1)


async def test_an_adjustment_that_cannot_be_placed_is_reported_and_changes_nothing(node):
    manager = await node.start()
    await node.add(node.container("g", milli=1000))
    manager.adjusted = adjust(cpu_request_milli=9000)
    assert await manager.pipeline.adjust() == {"g": "9 CPUs requested, 8 left"}
    assert manager.cpus() == {"g": "0"}


async def test_an_adjustment_applies_to_new_containers(node):
    manager = await node.start()
    manager.adjusted = adjust(cpu_request_milli=3000, cpu_limit_milli=3000)
    await node.add(node.container("g", milli=1000))
    assert manager.cpus() == {"g": "0-2"}
    assert limits(node, "g") == (300_000, -1)


async def test_after_a_restart_resources_that_were_set_here_are_not_taken_for_the_pods(node):
    first = await node.start()
    first.adjusted = adjust(cpu_request_milli=3000, cpu_limit_milli=3000)
    await node.add(node.container("g", milli=1000))
    # As a policy that sets shares would have: the runtime shows those from then on.
    first.ledger.want("g", replace(first.ledger.wanted("g"), cpu_shares=999), first.engine.placements["g"].exclusive)
    first.cache.put(first.engine.originals["g"], first.ledger.wanted("g"))
    await first.cache.save()
    first.updater.wake()
    await first.until(lambda: node.runtime.containers["g"].linux.resources.cpu.shares.value == 999)
    await first.kill()
    second = await node.start()
    assert second.engine.originals["g"].resources.cpu_request_milli == 1000
    assert second.engine.originals["g"].resources.cpu_limit_milli is None
    await second.until(lambda: limits(node, "g") == (-1, -1))


async def test_a_container_that_is_started_again_gets_its_grant_and_moves_no_other(node):
    manager = await node.start()
    await node.add(node.container("g", milli=1000), node.container("h", milli=1000), node.container("a"))
    await node.runtime.stop_container("g")
    await node.runtime.stop_container("h")
    manager.policy.hold = lambda: pytest.fail("all containers were placed anew")
    again = node.container("h2", milli=1000)
    again.name = "h"
    await node.add(again)
    assert manager.cpus() == {"h2": "1", "a": "0,2-7"}


async def test_a_grant_that_another_container_has_by_now_is_not_given_again(node):
    manager = await node.start()
    await node.add(node.container("g", milli=1000))
    await node.runtime.stop_container("g")
    await node.add(node.container("x", milli=1000, pod="other"))
    again = node.container("g2", milli=1000)
    again.name = "g"
    await node.add(again)
    assert manager.cpus() == {"x": "0", "g2": "1"}
