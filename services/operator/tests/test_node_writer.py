"""The removal of what was published for a node, on recorded writes."""

import pytest

from joulie_api.resources import NODE_POWER_PROFILES, NODE_TWINS
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_operator.cluster import OWN_LABELS
from joulie_operator.node_writer import NodeWriter
from joulie_operator.published import PublishedTarget, PublishedTwin
from joulie_operator.published_state import PublishedState

N1 = NodeName("n1")
BARE = Node(name=N1, labels={}, uid="uid-1")
LABELLED = Node(name=N1, labels=dict.fromkeys(OWN_LABELS, "eco"), uid="uid-1")
TARGET, TWIN = PublishedTarget(None, "uid-1"), PublishedTwin("eco", "", "uid-1")


class Writes:
    """Notes every write."""

    def __init__(self):
        self.made = []

    async def apply(self, res, name, _body, *, status=False):
        self.made.append((res.kind, name, "status" if status else "object"))

    async def patch_node_labels(self, name, labels):
        self.made.append(("Node", name, labels))

    async def delete(self, res, name):
        self.made.append((res.kind, name, "deleted"))
        return True


class World:
    def __init__(self):
        self.writes, self.targets, self.twins = Writes(), {}, {}
        published = PublishedState(self.targets, self.twins, clock=lambda: 100.0, wall=lambda: 1_800_000_100.0)
        self.writer = NodeWriter(self.writes, published, wall=lambda: 1_800_000_100.0)


@pytest.fixture
def world():
    return World()


UNLABELLED = ("Node", "n1", dict.fromkeys(sorted(OWN_LABELS)))
DELETED = {"target": (NODE_POWER_PROFILES.kind, "n1", "deleted"), "twin": (NODE_TWINS.kind, "n1", "deleted")}


@pytest.mark.parametrize("node", [BARE, None], ids=["unlabelled", "gone"])
@pytest.mark.parametrize("others", [False, True], ids=["nothing", "objects of others"])
async def test_where_nothing_was_published_nothing_is_removed(world, node, others):
    if others:
        world.targets["n1"], world.twins["n1"] = PublishedTarget(None, ""), PublishedTwin("eco", "", "")
    assert await world.writer.remove(N1, node) is False
    assert world.writes.made == []


@pytest.mark.parametrize(("target", "twin"), [(True, False), (False, True), (True, True), (False, False)])
async def test_each_object_that_was_published_is_deleted(world, target, twin):
    world.targets |= {"n1": TARGET} if target else {}
    world.twins |= {"n1": TWIN} if twin else {}
    assert await world.writer.remove(N1, BARE) is (target or twin)
    assert world.writes.made == [DELETED["target"]] * target + [DELETED["twin"]] * twin


@pytest.mark.parametrize("node", [LABELLED, None], ids=["labelled", "gone"])
async def test_labels_are_removed_first_also_where_the_node_may_have_them(world, node):
    world.targets["n1"], world.twins["n1"] = TARGET, TWIN
    assert await world.writer.remove(N1, node) is True
    assert world.writes.made == [UNLABELLED, DELETED["target"], DELETED["twin"]]


async def test_a_node_that_is_managed_again_at_once_is_published_again(world):
    await world.writer.write_twin(BARE)
    await world.writer.remove(N1, BARE)
    world.writes.made.clear()
    await world.writer.write_twin(BARE)
    assert world.writes.made == [(NODE_TWINS.kind, "n1", "object")]
