"""What was published for a node that is not managed any more is removed, and nothing else."""

from services.operator.tests.one_node import LABELS, World, settled
from structlog.testing import capture_logs

from joulie_core import labels
from joulie_testing.api import make_node_power_profile, make_node_twin


def test_a_node_that_leaves_loses_labels_first_and_twin_last():
    world = settled(1)
    world.server.objects["Node", "n1"]["metadata"]["labels"][labels.RESERVED] = "true"
    world.deliver()
    with capture_logs() as logs:
        assert world.reconcile() == [LABELS, ("NodePowerProfile", "delete"), ("NodeTwin", "delete")]
    assert [line["event"] for line in logs] == ["node left management"]
    assert world.server.labels == {}
    assert world.planner.managed() == []
    assert world.twin_tracker._nodes == {}
    world.deliver()
    assert world.reconcile() == []


def test_a_deleted_node_is_cleaned_and_one_outside_the_selection_loses_its_labels():
    for exists in (False, True):
        world = settled(1)
        found = world.server.objects.pop(("Node", "n1"))
        world.deliver()
        if exists:
            world.server.objects["Node", "n1"] = found
        assert world.reconcile() == [LABELS, ("NodePowerProfile", "delete"), ("NodeTwin", "delete")]
        assert (world.server.labels == {}) is exists


def test_what_an_earlier_process_left_behind_is_cleaned():
    world = settled(1)
    del world.server.objects["Node", "n1"], world.server.objects["NodePowerProfile", "n1"]
    world.restart()
    assert world.reconcile() == [LABELS, ("NodeTwin", "delete")]
    world.deliver()
    assert world.reconcile() == []


def test_labels_alone_are_removed_from_a_node_that_is_not_managed():
    world = World(labels={labels.RESERVED: "true"})
    world.server.labels[labels.DRAINING] = "false"
    world.deliver()
    assert world.reconcile() == [LABELS]


def test_objects_of_others_for_a_node_that_is_not_managed_are_left_alone():
    world = World(labels={labels.RESERVED: "true"})
    world.server.objects["NodePowerProfile", "n1"] = make_node_power_profile("n1")
    world.server.objects["NodeTwin", "n1"] = make_node_twin("n1")
    world.deliver()
    assert world.reconcile() == []


def test_a_cleaning_that_failed_is_continued():
    world = settled(1)
    world.server.objects["Node", "n1"]["metadata"]["labels"][labels.RESERVED] = "true"
    world.deliver()
    world.fail(None, "before")
    world.deliver()
    assert world.reconcile() == [("NodePowerProfile", "delete"), ("NodeTwin", "delete")]


def test_a_node_that_could_never_be_written_leaves_without_a_write():
    world = World(frac=1)
    world.planner.plan(world.wall())
    world.server.objects["Node", "n1"]["metadata"]["labels"][labels.RESERVED] = "true"
    world.deliver()
    assert world.reconcile() == []
    assert world.planner.managed() == []
