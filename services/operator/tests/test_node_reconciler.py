"""The order of the writes of one node, and notifications after the write."""

import pytest
from services.operator.tests.one_node import (
    CONDITIONS,
    DRAIN,
    FAULTS,
    LABELS,
    N1,
    SETTLE_S,
    TARGET,
    TWIN,
    TWIN_STATUS,
    World,
    settled,
)

from joulie_core import labels
from joulie_operator.notifications import CapsRefused


def test_a_new_node_gets_its_target_twin_labels_and_conditions():
    world = World(frac=1)
    assert world.reconcile() == [TARGET, TWIN, TWIN_STATUS, LABELS, CONDITIONS]
    reference = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-1"}
    for kind in ("NodePowerProfile", "NodeTwin"):
        assert world.server.objects[kind, "n1"]["metadata"]["ownerReferences"] == [reference]
    assert world.server.labels == {labels.POWER_PROFILE: "performance", labels.DRAINING: "false"}
    twin = world.server.objects["NodeTwin", "n1"]
    assert twin["spec"] == {"nodeName": "n1"}
    assert (twin["status"]["schedulableClass"], twin["status"]["lastUpdated"]) == (
        "performance",
        "2027-01-15T08:01:40.000Z",
    )
    assert world.reconcile() == []


def test_eco_is_announced_by_twin_and_labels_and_queued_for_the_end_of_the_settling_time():
    world = World()
    assert world.reconcile() == [TWIN, TWIN_STATUS, LABELS]
    assert (world.profile_label, world.caps) == ("eco", None)
    assert world.queue.later == [(N1, SETTLE_S)]


def test_on_the_way_to_eco_the_offer_is_withdrawn_before_the_caps_come():
    world = settled(1)
    world.frac = 0
    assert world.reconcile() == [TWIN_STATUS, LABELS]
    assert world.caps == 100
    world.now += SETTLE_S
    assert world.reconcile() == [TWIN_STATUS, TARGET, CONDITIONS]
    assert world.caps == 60
    assert world.server.objects["NodeTwin", "n1"]["status"]["effectiveCapState"]["cpuPct"] == 60


def test_on_the_way_to_draining_the_offer_is_withdrawn_first():
    world = settled(1)
    world.frac = 0
    world.add_pod()
    assert world.reconcile() == [TWIN_STATUS, LABELS, TARGET, CONDITIONS]
    assert (world.server.labels[labels.DRAINING], world.caps) == ("true", 100)


def test_on_the_way_to_performance_the_caps_are_lifted_before_the_node_is_offered():
    world = settled(0)
    world.frac = 1
    assert world.reconcile() == [TARGET, TWIN_STATUS, LABELS, CONDITIONS]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("failing", range(4))
@pytest.mark.parametrize(("result", "makes_it"), [("planned_performance", 0), ("deferred", 2)])
def test_a_transition_is_notified_once_after_the_write_that_makes_it(result, makes_it, failing, fault):
    """The target is the first of four writes on the way to performance, and the third on the way to draining."""
    notified = failing > makes_it
    world = settled(0 if result == "planned_performance" else 1)
    if result == "planned_performance":
        world.frac = 1
    else:
        world.frac = 0
        world.add_pod()
    before = world.planner.state(N1)
    world.fail(*[None] * failing, fault)
    assert world.transitions == [result] * notified
    assert (world.planner.state(N1) is before) is not notified
    world.deliver()
    world.reconcile()
    world.deliver()
    assert world.transitions == [result], "once, when the target was written"
    world.now += 60
    world.settle()
    assert world.transitions == [result]


def test_nothing_is_notified_before_the_write_that_it_reports():
    world = settled(1)
    world.frac = 0
    world.add_pod()
    notified = []
    world.server.after_write = lambda: notified.append((world.server.writes[-1], list(world.transitions)))
    world.reconcile()
    assert notified == [(TWIN_STATUS, []), (LABELS, []), (TARGET, []), (CONDITIONS, ["deferred"])]
    assert world.notified[0].transition.at == world.wall()


def test_a_pod_that_arrives_while_the_eco_target_cannot_be_written_makes_the_node_drain():
    world = World()
    world.reconcile()
    world.now += SETTLE_S
    world.fail(None, "before")
    world.fail("before")
    world.add_pod()
    world.reconcile()
    assert (world.planner.state(N1), world.caps, world.transitions) == (DRAIN, 100, ["deferred"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_refusal_is_notified_once_after_the_condition_that_shows_it(fault):
    world = settled(1)
    world.report(result="blocked", backend="rapl", reason="FirmwareLocked")
    world.fail(fault)
    assert world.notified == []
    world.deliver()
    assert world.reconcile() == [CONDITIONS]
    [refused] = world.notified
    assert isinstance(refused, CapsRefused)
    assert (refused.node.name, refused.enforced.reason) == ("n1", "FirmwareLocked")
    world.deliver()
    assert world.reconcile() == []
    assert len(world.notified) == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_refusal_is_notified_by_a_process_whose_first_write_failed(fault):
    world = settled(1)
    world.restart()
    world.report(result="blocked", backend="rapl", reason="FirmwareLocked")
    world.fail(fault)
    world.deliver()
    world.reconcile()
    assert [type(each) for each in world.notified] == [CapsRefused]


def test_a_restart_does_not_repeat_a_refusal():
    world = settled(1)
    world.report(result="blocked", backend="rapl", reason="FirmwareLocked")
    world.settle()
    world.notified.clear()
    world.restart()
    world.report(result="blocked", backend="rapl", reason="FirmwareLocked")
    assert world.reconcile() == []
    assert world.notified == []


def test_a_cordoned_node_without_a_target_gets_nothing():
    assert World(unschedulable=True).reconcile() == []


def test_the_conditions_show_that_a_node_is_cordoned():
    world = settled(1)
    world.server.objects["Node", "n1"]["spec"] = {"unschedulable": True}
    world.deliver()
    assert world.reconcile() == [CONDITIONS]
    [planned] = [
        each
        for each in world.server.objects["NodePowerProfile", "n1"]["status"]["conditions"]
        if each["type"] == "Planned"
    ]
    assert (planned["status"], planned["reason"]) == ("False", "Cordoned")
