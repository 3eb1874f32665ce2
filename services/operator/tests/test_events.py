"""The recorder: bounded, rate-limited, fenced; and the content of events."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from joulie_api.errors import NotLeader
from joulie_api.resources import NODES
from joulie_api.wire import decode_node, decode_pod
from joulie_core.transition import GuardResult, NodeState, Transition
from joulie_operator.events import Event, EventType, Recorder, Subject, UnknownClasses, transition_event
from joulie_testing.api import Respond, make_node, make_pod

PERF, DRAIN, ECO = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE, NodeState.ACTIVE_ECO


@pytest.fixture
def node(fake_api):
    return decode_node(msgspec.json.encode(fake_api.put(make_node("n1"))))


class World:
    def __init__(self, client):
        self.leading = True
        self.results = []
        self.idle = asyncio.Event()
        self.recorder = Recorder(
            client,
            component="joulie-operator",
            instance="me",
            guard=lambda: self.leading,
            wall=lambda: 1_800_000_000.0,
            per_second=1000,
            on_write=self._on_write,
            capacity=4,
        )
        self._task = None

    def _on_write(self, kind, result):
        self.results.append((kind, str(result)))
        if len(self.recorder) == 0:
            # Set before the recorder logs the result, and waited for by a task that runs after it.
            self.idle.set()

    def start(self):
        self._task = asyncio.create_task(self.recorder.work())

    async def stop(self):
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})


@pytest.fixture
async def world(fake_client):
    found = World(fake_client)
    yield found
    await found.stop()


def event(node, message="m"):
    return Event(Subject(NODES, node.name, node.uid), EventType.NORMAL, "R", message)


async def test_an_event_names_its_node_in_the_namespace_of_cluster_wide_objects(fake_api, world, node):
    world.recorder.record(transition_event(node, Transition(PERF, DRAIN, GuardResult.DEFERRED, 0), 2))
    world.start()
    await fake_api.wait_for(lambda: fake_api.count("Event") == 1)
    (found,) = fake_api.objects("Event")
    assert found["metadata"]["namespace"] == "default"
    assert found["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node.uid}
    assert (found["type"], found["reason"], found["count"]) == ("Normal", "EcoDeferred", 1)
    assert found["message"] == (
        "ActivePerformance -> DrainingPerformance: planned eco, but 2 performance pods are still on the node: "
        "draining under performance caps"
    )
    assert found["firstTimestamp"] == found["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert found["source"] == {"component": "joulie-operator"}


@pytest.mark.parametrize(
    "result", [v for v in GuardResult if v.value not in {"still_blocked", "pods_unknown", "unchanged"}]
)
def test_every_result_that_changes_a_state_has_a_message(result, node):
    made = transition_event(node, Transition(PERF, ECO, result, 0), 1)
    assert "{" not in made.message


async def test_an_event_that_is_queued_already_is_counted_instead_of_repeated(fake_api, world, node):
    for _ in range(3):
        world.recorder.record(event(node))
    world.start()
    await fake_api.wait_for(lambda: fake_api.count("Event") == 1)
    assert fake_api.objects("Event")[0]["count"] == 3


async def test_a_full_queue_drops_the_oldest_and_counts_it(fake_api, world, node):
    for number in range(6):
        world.recorder.record(event(node, str(number)))
    assert len(world.recorder) == 4
    assert world.results == [("Event", "failed")] * 2
    world.start()
    await fake_api.wait_for(lambda: fake_api.count("Event") == 4)
    assert {found["message"] for found in fake_api.objects("Event")} == {"2", "3", "4", "5"}


@pytest.mark.looptime
async def test_no_more_events_leave_than_the_rate_allows(node):
    sent_at = []

    class Client:
        async def create(self, res, body, namespace=None):
            sent_at.append(asyncio.get_running_loop().time())

    world = World(Client())
    world.recorder._interval_s = 0.5
    world.start()
    for number in range(4):
        world.recorder.record(event(node, str(number)))
    await asyncio.sleep(10)
    await world.stop()
    assert [at - sent_at[0] for at in sent_at] == pytest.approx([0, 0.5, 1, 1.5])


async def test_an_event_that_cannot_be_written_is_dropped_and_the_next_is_tried(fake_api, world, node):
    fake_api.faults.add(Respond(500), verb="create", times=2)
    for message in ("lost", "lost too", "kept"):
        world.recorder.record(event(node, message))
    with capture_logs() as logs:
        world.start()
        async with asyncio.timeout(10):
            await world.idle.wait()
    assert fake_api.objects("Event")[0]["message"] == "kept"
    assert [each["event"] for each in logs] == ["event write failed", "event write recovered"]


async def test_a_process_that_does_not_lead_writes_no_events(fake_api, world, node):
    world.leading = False
    world.recorder.record(event(node))
    with pytest.raises(NotLeader):
        await world.recorder.work()
    assert fake_api.count("Event") == 0
    assert world.results == [("Event", "refused")]


async def test_an_unknown_workload_class_gets_one_event_also_after_a_restart(fake_api, world):
    for _ in range(2):
        classes = UnknownClasses(world.recorder.record)
        for name, value in (("a", "turbo"), ("b", "turbo"), ("c", "standard"), ("d", "x" * 500), ("e", None)):
            classes.on_pod(decode_pod(msgspec.json.encode(make_pod(name, "team", workload_class=value))))
    world.start()
    await fake_api.wait_for(lambda: fake_api.count("Event") == 2)
    found = fake_api.objects("Event")
    assert {each["involvedObject"]["name"] for each in found} == {"a", "d"}
    assert {each["metadata"]["namespace"] for each in found} == {"team"}
    assert all(each["type"] == "Warning" and len(each["message"]) < 300 for each in found)
    UnknownClasses(world.recorder.record).on_pod(
        decode_pod(msgspec.json.encode(make_pod("f", "team", workload_class="turbo")))
    )
    await fake_api.wait_for(lambda: [each.status for each in fake_api.requests.find(kind="Event")] == [201, 201, 409])
    assert fake_api.count("Event") == 2
