"""Writes that fail, that are not seen, and that others undo, are repeated."""

import asyncio

import pytest
from services.operator.tests.one_node import (
    CONDITIONS,
    LABELS,
    N1,
    TARGET,
    TWIN,
    TWIN_STATUS,
    World,
    node,
    queued,
    settled,
)
from structlog.testing import capture_logs

from joulie_api.errors import NotFound, NotLeader
from joulie_core import labels
from joulie_core.names import NodeName
from joulie_operator.node_reconciler import FIRST_RETRY_S, LAST_RETRY_S
from joulie_operator.notifications import NodeNotProcessed
from joulie_operator.published_state import ECHO_GRACE_S
from joulie_testing.api import make_node_twin


def test_a_write_without_an_answer_is_repeated_even_if_it_is_seen():
    world = settled(0)
    world.frac = 1
    world.fail("after")
    world.deliver()
    assert world.reconcile()[0] == TARGET


def test_a_write_that_is_not_seen_yet_is_awaited_and_then_repeated():
    world = World(frac=1)
    world.reconcile()
    world.queue.later.clear()
    world.now += ECHO_GRACE_S - 0.1
    assert world.reconcile() == []
    assert world.queue.later == [(N1, ECHO_GRACE_S)]
    world.now += 0.1
    assert world.reconcile() == [TARGET, TWIN, LABELS, CONDITIONS]
    world.deliver()
    world.queue.later.clear()
    world.now += ECHO_GRACE_S
    assert world.reconcile() == []
    assert world.queue.later == []


@pytest.mark.parametrize("late", ["labels", "conditions", "target"])
def test_each_part_that_is_not_seen_yet_is_awaited(late):
    world = World(frac=1)
    world.reconcile()
    if late == "conditions":
        del world.server.objects["NodePowerProfile", "n1"]["status"]
    elif late == "target":
        world.server.objects["NodePowerProfile", "n1"]["spec"]["profile"] = "eco"
    else:
        world.server.labels.clear()
    world.deliver()
    world.queue.later.clear()
    assert world.reconcile() == []
    assert world.queue.later == [(N1, ECHO_GRACE_S)]


def test_another_decision_does_not_wait_for_the_write_before_it_to_be_seen():
    world = settled(0)
    world.frac = 1
    world.reconcile()
    world.frac = 0
    world.reconcile()
    assert world.profile_label == "eco"


def test_what_others_change_is_written_again():
    world = settled(1)
    world.now += ECHO_GRACE_S
    world.server.labels[labels.POWER_PROFILE] = "eco"
    world.deliver()
    assert world.reconcile() == [LABELS]
    world.server.objects["NodePowerProfile", "n1"]["spec"]["profile"] = "eco"
    assert queued(world) == []
    world.deliver()
    assert queued(world) == [N1]
    world.now += ECHO_GRACE_S
    assert world.reconcile() == [TARGET]
    world.deliver()
    world.server.objects["NodePowerProfile", "n1"]["status"] = {}
    world.deliver()
    world.now += ECHO_GRACE_S
    assert world.reconcile() == [CONDITIONS]


@pytest.mark.parametrize("kind", ["NodePowerProfile", "NodeTwin"])
def test_an_object_that_was_deleted_is_queued_and_written_again(kind):
    world = settled(1)
    del world.server.objects[kind, "n1"]
    world.deliver()
    assert queued(world) == [N1]
    assert world.reconcile() == {"NodePowerProfile": [TARGET, CONDITIONS], "NodeTwin": [TWIN, TWIN_STATUS]}[kind]


@pytest.mark.parametrize("kind", ["NodePowerProfile", "NodeTwin"])
def test_an_object_whose_status_cannot_be_written_as_it_was_deleted_is_made_again(kind):
    world = settled(1)
    del world.server.objects[kind, "n1"]
    world.report(result="applied", backend="rapl", reason="Capped")
    world.now += 90
    world.fail(error=NotFound)
    written = world.reconcile()
    assert written[:2] == {"NodePowerProfile": [TARGET, CONDITIONS], "NodeTwin": [TWIN, TWIN_STATUS]}[kind]


def test_the_target_that_is_being_written_is_no_change_by_others():
    world = World(frac=1)
    world.server.after_write = world.deliver
    world.reconcile()
    assert len(world.queue) == 0


def test_a_twin_without_a_planned_node_is_queued():
    world = World(unschedulable=True)
    world.server.objects["NodeTwin", "n1"] = make_node_twin("n1")
    world.deliver()
    assert queued(world) == [N1]
    settled_world = settled(1)
    settled_world.now += 100
    settled_world.reconcile()
    settled_world.deliver()
    assert len(settled_world.queue) == 0


def test_a_new_node_of_the_same_name_owns_its_objects():
    world = settled(1)
    world.server.objects["Node", "n1"] = node("uid-2")
    world.server.labels.clear()
    world.deliver()
    assert world.reconcile() == [TARGET, TWIN, LABELS]
    for kind in ("NodePowerProfile", "NodeTwin"):
        assert world.server.objects[kind, "n1"]["metadata"]["ownerReferences"][0]["uid"] == "uid-2"


@pytest.mark.looptime
async def test_a_failed_write_is_repeated_after_growing_pauses_and_logged_once():
    world = World(frac=1)
    world.planner.plan(world.wall())
    logs = await work(world, failures=9)
    assert [delay for _, delay in world.queue.later] == [FIRST_RETRY_S, 2, 4, 8, 16, 32, LAST_RETRY_S, 60, 60]
    assert [(line["event"], line["node"]) for line in logs] == [
        ("write failed, will be repeated", "n1"),
        ("write succeeded", "n1"),
    ]
    assert logs[0]["problem"] == "no answer"
    world.queue.later.clear()
    world.now += 90
    await work(world, failures=1)
    assert world.queue.later[0] == (N1, FIRST_RETRY_S), "a success starts over"


@pytest.mark.looptime
async def test_a_defect_keeps_what_is_published_is_counted_shown_once_and_tried_again(monkeypatch):
    world = World(frac=1)
    world.planner.plan(world.wall())
    await work(world, failures=0)
    world.deliver()
    published = dict(world.server.objects)
    good = world.planner.desired

    def fail(*_):
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr(world.planner, "desired", fail)
    world.queue.later.clear()
    world.notified.clear()
    logs = await work(world, failures=2)
    assert [delay for _, delay in world.queue.later] == [FIRST_RETRY_S, 2, 4]
    assert world.server.objects == published
    assert [(type(each), each.node.name, each.error) for each in world.notified] == [
        (NodeNotProcessed, "n1", "OverflowError")
    ]
    labels = {"work": "reconcile node"}
    assert world.registry.get_sample_value("joulie_internal_errors_total", labels) == 3
    assert [(line["event"], line["node"], line["cause"]) for line in logs] == [
        ("internal error, will be repeated", "n1", "OverflowError")
    ]
    monkeypatch.setattr(world.planner, "desired", good)
    world.queue.later.clear()
    logs = await work(world, failures=0)
    assert [line["event"] for line in logs] == ["works again"]


async def work(world, *, failures):
    """Run a worker through so many failures and a success; return the log."""
    world.server.faults = ["before"] * failures
    with capture_logs() as logs:
        worker = asyncio.create_task(world.reconciler.work())
        for _ in range(failures + 1):
            world.queue.add(N1)
            # Virtual time passes only when the worker has nothing left to do.
            await asyncio.sleep(1)
        worker.cancel()
        await asyncio.wait({worker})
    return logs


async def test_a_worker_ends_where_the_fence_refuses_a_write():
    world = World(frac=1)
    world.planner.plan(world.wall())
    world.server.error, world.server.faults = NotLeader("no lease"), ["before"]
    world.queue.add(N1)
    with pytest.raises(NotLeader):
        await world.reconciler.work()
    assert len(world.queue) == 0


async def test_a_long_queue_does_not_keep_others_from_the_loop():
    world = World()
    names = [NodeName(f"x{index}") for index in range(1000)]
    for name in names:
        world.queue.add(name)
    worker = asyncio.create_task(world.reconciler.work())
    for _ in range(10):
        await asyncio.sleep(0)
    left = len(world.queue)
    worker.cancel()
    assert len(names) - 20 < left < len(names) - 5
