"""The memory of what was written, next to what was seen."""

import pytest

from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS, NODES
from joulie_core.kinds.node_twin import NodeTwinStatus, SchedulableClass
from joulie_core.names import NodeName
from joulie_core.timestamps import rfc3339
from joulie_operator.published import PublishedCondition, PublishedTarget, PublishedTwin
from joulie_operator.published_state import Comparison, LastTwin, PublishedPart, PublishedState

N1, N2 = NodeName("n1"), NodeName("n2")
TARGET, LABELS = PublishedPart.TARGET, PublishedPart.LABELS
WALL = 1_800_000_000.0
PLANNED, DRAINING = PublishedCondition("Planned"), PublishedCondition("Draining")


class World:
    def __init__(self):
        self.now = 100.0
        self.targets, self.twins = {}, {}
        self.state = PublishedState(self.targets, self.twins, clock=lambda: self.now, wall=lambda: WALL + self.now)

    def write(self, part, value, *, name=N1, **kwargs):
        with self.state.writing(part, name, value, **kwargs):
            pass

    def fail(self, part, value, **kwargs):
        with pytest.raises(OSError, match="lost"), self.state.writing(part, N1, value, **kwargs):
            raise OSError("lost")


@pytest.fixture
def world():
    return World()


def test_before_the_first_write_what_was_seen_counts(world):
    assert world.state.compare(TARGET, N1, "a", "a") is Comparison.PUBLISHED
    assert world.state.compare(TARGET, N1, "a", "b") is Comparison.DIFFERENT
    assert world.state.compare(TARGET, N1, "a", None) is Comparison.DIFFERENT


def test_a_written_value_is_awaited_until_it_is_seen_or_the_time_is_over(world):
    world.write(TARGET, "b")
    assert world.state.compare(TARGET, N1, "b", "a") is Comparison.AWAITED
    assert world.state.compare(TARGET, N1, "b", "b") is Comparison.PUBLISHED
    world.now += 4.999
    assert world.state.compare(TARGET, N1, "b", "a") is Comparison.AWAITED
    world.now += 0.001
    assert world.state.compare(TARGET, N1, "b", "a") is Comparison.DIFFERENT
    assert world.state.compare(TARGET, N1, "b", "b") is Comparison.PUBLISHED


def test_what_was_seen_may_be_older_than_the_last_write(world):
    world.write(TARGET, "b")
    assert world.state.compare(TARGET, N1, "a", "a") is Comparison.DIFFERENT


def test_a_value_of_none_is_remembered_like_any_other(world):
    world.fail(TARGET, None, before=None)
    assert world.state.compare(TARGET, N1, None, None) is Comparison.DIFFERENT


def test_no_value_is_expected_of_an_object_of_unknown_state(world):
    world.write(TARGET, "a")
    world.state.mark_unknown(NODE_POWER_PROFILES, N1)
    assert not world.state.is_expected(TARGET, N1, "a")
    assert not world.state.is_expected(TARGET, N1, None)


def test_parts_and_nodes_are_remembered_apart(world):
    world.write(TARGET, "b")
    assert world.state.compare(LABELS, N1, "b", "a") is Comparison.DIFFERENT
    assert world.state.compare(TARGET, N2, "b", "a") is Comparison.DIFFERENT


def test_a_value_whose_write_failed_or_is_under_way_differs(world):
    world.fail(TARGET, "b")
    assert world.state.compare(TARGET, N1, "b", "b") is Comparison.DIFFERENT
    with world.state.writing(TARGET, N1, "b"):
        assert world.state.compare(TARGET, N1, "b", "b") is Comparison.DIFFERENT
    assert world.state.compare(TARGET, N1, "b", "b") is Comparison.PUBLISHED


def test_the_value_that_is_expected_to_be_seen_is_the_one_being_written(world):
    assert not world.state.is_expected(TARGET, N1, "a")
    world.write(TARGET, "a")
    assert world.state.is_expected(TARGET, N1, "a")
    with world.state.writing(TARGET, N1, "b"):
        assert world.state.is_expected(TARGET, N1, "b")
        assert not world.state.is_expected(TARGET, N1, "a")
    world.fail(TARGET, "c")
    assert world.state.is_expected(TARGET, N1, "c")


def test_a_deletion_reported_while_a_write_is_under_way_is_older_than_the_write(world):
    with world.state.writing(TARGET, N1, "a"):
        world.state.forget(NODE_POWER_PROFILES, N1)
    assert world.state.compare(TARGET, N1, "a", None) is Comparison.AWAITED


@pytest.mark.parametrize("part", PublishedPart)
@pytest.mark.parametrize("res", [NODES, NODE_POWER_PROFILES, NODE_TWINS], ids=lambda res: res.kind)
def test_an_object_is_forgotten_or_unknown_in_all_its_parts_and_no_other_is(world, part, res):
    of = {
        PublishedPart.LABELS: NODES,
        PublishedPart.TARGET: NODE_POWER_PROFILES,
        PublishedPart.CONDITIONS: NODE_POWER_PROFILES,
        PublishedPart.TWIN: NODE_TWINS,
        PublishedPart.TWIN_STATUS: NODE_TWINS,
    }[part]
    world.write(part, "a")
    world.write(part, "a", name=N2)
    world.state.mark_unknown(res, N1)
    found = Comparison.DIFFERENT if res is of else Comparison.PUBLISHED
    assert world.state.compare(part, N1, "a", "a") is found
    assert world.state.compare(part, N2, "a", "a") is Comparison.PUBLISHED
    world.state.forget(res, N1)
    assert world.state.is_own(of, N1) is (res is not of)
    assert world.state.is_own(of, N2)


def test_objects_that_name_their_node_as_the_owner_are_own(world):
    world.targets["n1"] = PublishedTarget(None, "uid")
    world.twins["n1"] = PublishedTwin("eco", "", "uid")
    world.targets["n2"] = PublishedTarget(None, "")
    world.twins["n2"] = PublishedTwin("eco", "", "")
    for res in (NODE_POWER_PROFILES, NODE_TWINS):
        assert world.state.is_own(res, N1)
        assert not world.state.is_own(res, N2)
        assert not world.state.is_own(res, NodeName("n3"))
    assert not world.state.is_own(NODES, N1)


def test_the_conditions_before_are_the_last_ones_that_were_written(world):
    assert world.state.conditions(N1) == ()
    world.targets["n1"] = PublishedTarget(None, "uid", (PLANNED,))
    assert world.state.conditions(N1) == (PLANNED,)
    world.fail(PublishedPart.CONDITIONS, (DRAINING,), before=(PLANNED,))
    world.targets["n1"] = PublishedTarget(None, "uid", (DRAINING,))
    assert world.state.conditions(N1) == (PLANNED,), "the others may not have been written"
    world.write(PublishedPart.CONDITIONS, (DRAINING,))
    world.targets["n1"] = PublishedTarget(None, "uid", (PLANNED,))
    assert world.state.conditions(N1) == (DRAINING,)


def test_the_conditions_of_an_object_of_unknown_state_are_those_that_were_seen(world):
    world.targets["n1"] = PublishedTarget(None, "uid", (PLANNED,))
    world.state.mark_unknown(NODE_POWER_PROFILES, N1)
    assert world.state.conditions(N1) == (PLANNED,)


def test_the_last_twin_is_the_one_written_else_the_one_seen(world):
    assert world.state.last_twin(N1) is None
    world.twins["n1"] = PublishedTwin("eco", rfc3339(WALL + 90), "uid")
    assert world.state.last_twin(N1) == LastTwin(10, "eco", None)
    status = NodeTwinStatus(schedulable_class=SchedulableClass.DRAINING)
    world.write(PublishedPart.TWIN_STATUS, status)
    world.now += 7
    assert world.state.last_twin(N1) == LastTwin(7, "draining", status)
    world.fail(PublishedPart.TWIN_STATUS, status)
    assert world.state.last_twin(N1) is None


def test_all_names_that_were_seen_are_known(world):
    world.targets["n1"], world.twins["n2"] = PublishedTarget(None, ""), PublishedTwin("eco", "", "")
    assert world.state.names() == {N1, N2}
    assert (world.state.target(N1), world.state.target(N2)) == (world.targets["n1"], None)
    assert (world.state.twin(N1), world.state.twin(N2)) == (None, world.twins["n2"])
