"""The estimate over nodes and pods that come, change and go; a backlog is unknown, one bad node stops no other."""

import json
from types import SimpleNamespace

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.telemetry_profile import TelemetryProfileStatus
from joulie_core.savings import Lever
from joulie_core.timestamps import rfc3339
from joulie_operator.cluster import Cluster
from joulie_operator.pods import NO_POD, PodSummary
from joulie_operator.savings import estimate as module
from joulie_operator.savings.estimate import SavingsEstimate, SavingsSight
from joulie_testing.api import make_node

NOW_S = 2_000_000.0
#: Nodes that differ in what they do and draw, so that it counts where a pod is.
_OLD = {"cpu_model": "Intel Xeon E5-2680 v4", "cpu_sockets": 2, "cpu": 56}
_NEW = {"cpu_model": "AMD EPYC 9654", "cpu_sockets": 2, "cpu": 384}
_RECORD = json.dumps({"state": "Asleep", "since": 100.0, "reason": "idle", "idleWatts": 150.0, "idleMeasured": True})
_ASLEEP = {"labels": {"joulie.io/sleep-state": "Asleep"}, "annotations": {"joulie.io/sleep-record": _RECORD}}
_CAPPED = {"control": {"cpu": {"result": "applied", "enforcedWatts": 90}}}


class World:
    """The model of the cluster and its stores, changed as watches change them."""

    def __init__(self):
        self.failures = Failures(CollectorRegistry())
        self.cluster = Cluster(
            Inventory.load(),
            pods=SimpleNamespace(is_stale=lambda: False),
            on_change=lambda _: None,
            failures=self.failures,
        )
        self.pods, self.reports, self.asked = {}, {}, set()
        sight = SavingsSight(self.cluster, self.pods, lambda _: None, self.report, max_age_s=60.0)
        self.estimate = SavingsEstimate(sight, self.failures)

    def report(self, name):
        self.asked.add(name)
        found = self.reports.get(name)
        if isinstance(found, Exception):
            raise found
        return found

    def node(self, name, fields):
        new = None if fields is None else decode_node(msgspec.json.encode(make_node(name, **fields)))
        self.cluster.on_node(name, self.cluster.nodes.get(name), new)

    def pod(self, key, node, cores=8.0):
        old, new = self.pods.get(key), None if node is None else PodSummary(node, False, cores, 0.0)
        self.pods.pop(key, None)
        if new is not None:
            self.pods[key] = new
        self.cluster.on_pod(key, old, new)
        self.estimate.on_pod(key, old, new)

    def reports_caps(self, name, watts):
        power = {"cpuWatts": watts, "updatedAt": rfc3339(NOW_S)}
        self.reports[name] = TelemetryProfileStatus.model_validate({**_CAPPED, "power": power})

    async def saved(self, lever=Lever.SCORE):
        return (await self.estimate.rates(NOW_S))[lever]


@pytest.fixture
def world():
    made = World()
    made.node("old", _OLD)
    made.node("new", _NEW)
    return made


async def test_pods_that_joulie_packed_count_until_they_end(world):
    for number in range(8):
        world.pod(f"p{number}", "old", cores=4.0)
    packed = await world.saved()
    assert packed.unknown_share == 0.0
    assert packed.watts.middle != 0.0
    assert packed.watts.lower <= packed.watts.middle <= packed.watts.upper
    for number in range(8):
        world.pod(f"p{number}", None)
    assert (await world.saved()).watts.middle == pytest.approx(0.0)


async def test_a_change_is_taken_at_the_next_look(world):
    world.pod("p", "old")
    before = await world.saved()
    world.pod("p", "old", cores=40.0)
    assert await world.saved() != before
    world.pods["p"] = NO_POD
    world.estimate.on_pod("p", None, NO_POD)
    assert (await world.saved()).watts.middle == pytest.approx(0.0)


async def test_more_pods_than_one_look_places_are_unknown_until_all_are_in(world, monkeypatch):
    monkeypatch.setattr(module, "MOST_PLACED", 3)
    for number in range(7):
        world.pod(f"p{number}", "new", cores=1.0)
    assert [(await world.saved()).unknown_share for _ in range(3)] == [1.0, 1.0, 0.0]


async def test_pods_are_looked_at_again_when_their_node_comes(world):
    world.pod("p", "late", cores=16.0)
    assert (await world.saved()).watts.middle == 0.0
    world.node("late", _NEW)
    world.node("old", None)
    await world.saved()
    assert world.estimate._shadow.pod("p") is not None


async def test_pods_of_a_node_that_goes_are_placed_among_the_others(world):
    for number in range(8):
        world.pod(f"p{number}", "new", cores=2.0)
    await world.saved()
    for name in {world.estimate._shadow.node_of(f"p{number}") for number in range(8)} - {"new"}:
        world.node(name, None)
    await world.saved()
    assert {world.estimate._shadow.node_of(f"p{number}") for number in range(8)} == {"new"}
    world.node("new", None)
    assert (await world.saved()).watts.middle == 0.0
    assert [world.estimate._shadow.pod(f"p{number}") for number in range(8)] == [None] * 8
    world.estimate._shadow.check()


async def test_sleeping_nodes_and_caps_are_read_at_each_look(world):
    world.node("old", {**_OLD, **_ASLEEP})
    assert (await world.saved(Lever.SLEEP)).watts.middle == 135.0
    world.node("old", _OLD)
    assert (await world.saved(Lever.SLEEP)).watts.middle == 0.0
    world.reports_caps("old", 175.0)
    world.pod("p", "old", cores=56.0)
    assert (await world.saved(Lever.CAPS)).watts.upper > 0.0
    world.reports["old"] = TelemetryProfileStatus.model_validate(_CAPPED)
    assert (await world.saved(Lever.CAPS)).unknown_share == 1.0


async def test_one_node_that_cannot_be_computed_is_counted_and_stops_no_other(world):
    world.node("asleep", {**_OLD, **_ASLEEP})
    world.reports.update(old=ValueError("broken"), new=ValueError("broken"))
    assert (await world.saved(Lever.SLEEP)).watts.middle == 135.0
    assert world.asked == {"old", "new", "asleep"}


async def test_nodes_that_are_not_managed_count_in_nothing(world):
    world.node(
        "asleep",
        {**_OLD, "annotations": _ASLEEP["annotations"], "labels": {**_ASLEEP["labels"], "joulie.io/reserved": "true"}},
    )
    world.pod("p", "asleep")
    assert (await world.saved(Lever.SLEEP)).watts.middle == 0.0
    assert "asleep" not in world.asked
    assert world.estimate._shadow.pod("p") is None
