"""What follows from decisions: counts, Events as they are sent to the node agent, CPU classes and timers."""

import asyncio

import pytest
from structlog.testing import capture_logs

from joulie_actuator.replies import CpuClassesReport
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import ResourceApiError
from joulie_containers.resources.cpu_classes import CpuClassController
from joulie_containers.resources.interrupts import InterruptController
from joulie_containers.resources.metrics import ManagerCounts
from joulie_containers.resources.reports import DecisionReports
from joulie_core.containers.container import (
    ContainerId,
    ContainerInfo,
    ContainerResources,
    PodInfo,
    PodSandboxId,
    QosClass,
)
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import ColdStartEnded, PolicyTimer, PolicyWarning
from joulie_core.kinds.cpu_class import BUILTIN_CPU_CLASSES

pytestmark = pytest.mark.looptime


class NodeAgent:
    """Records the requests; the next ones fail as often as `failures` says."""

    def __init__(self):
        self.requests = []
        self.failures = 0
        #: Called within each request.
        self.meanwhile = lambda: None

    async def record_events(self, events):
        self.requests.append((asyncio.get_running_loop().time(), list(events)))
        self.meanwhile()
        if self.failures:
            self.failures -= 1
            raise ResourceApiError("node agent away")

    def sent(self):
        """The messages of every request."""
        return [[each.message for each in events] for _, events in self.requests]


class Actuator:
    def __init__(self):
        self.requests = []

    async def execute(self, request):
        self.requests.append(request)
        return CpuClassesReport(classes={})


@pytest.fixture
def node_agent():
    return NodeAgent()


@pytest.fixture
def counts():
    return ManagerCounts()


@pytest.fixture
def actuator():
    return Actuator()


@pytest.fixture
async def classes(actuator):
    classes = CpuClassController(actuator, lease_s=60)
    classes.define(BUILTIN_CPU_CLASSES)
    return classes


@pytest.fixture
async def interrupts(actuator):
    return InterruptController(actuator, lease_s=60)


@pytest.fixture
async def reports(node_agent, counts, classes, interrupts):
    reports = DecisionReports(counts, classes, interrupts, node_agent)
    running = asyncio.create_task(reports.run())
    yield reports
    running.cancel()
    reports.close()


def container(name="main"):
    pod = PodInfo(id=PodSandboxId("sandbox"), uid="uid-7", namespace="ns", name="web", qos=QosClass.BURSTABLE)
    resources = ContainerResources(cpu_request_milli=100)
    return ContainerInfo(id=ContainerId(f"id-{name}"), pod=pod, name=name, created_ns=1, resources=resources)


def warning(reason="InvalidAnnotation", message="bad is no option"):
    return PolicyWarning(container=ContainerId("id-main"), reason=reason, message=message)


async def test_a_rejection_is_counted_logged_and_an_event_of_the_pod(reports, node_agent, counts):
    with capture_logs() as logs:
        reports.rejected(container(), "9 CPUs requested, 8 left")
        await asyncio.sleep(0.1)
    assert counts.rejected == 1
    assert node_agent.requests[0][1] == [
        pb.PodEvent(
            namespace="ns",
            pod="web",
            pod_uid="uid-7",
            reason="ContainerRejected",
            message="container main: 9 CPUs requested, 8 left",
        )
    ]
    (line,) = logs
    assert (line["log_level"], line["container"], line["id"]) == ("warning", "ns/web/main", "id-main")
    assert line["reason"] == "9 CPUs requested, 8 left"


async def test_every_rejection_counts(reports, counts):
    reports.rejected(container("a"), "no room")
    reports.rejected(container("b"), "no room")
    assert counts.rejected == 2


async def test_a_warning_is_counted_by_its_reason_and_an_event_of_the_pod(reports, node_agent, counts):
    with capture_logs() as logs:
        reports.warned(container(), warning())
        reports.warned(container(), warning())
        reports.warned(container(), warning("MemoryWidened", "node 0 is full"))
        await asyncio.sleep(0.1)
    assert counts.warnings == {"InvalidAnnotation": 2, "MemoryWidened": 1}
    (_, events) = node_agent.requests[0]
    assert [(each.reason, each.message, each.pod_uid) for each in events] == [
        ("InvalidAnnotation", "container main: bad is no option", "uid-7"),
        ("InvalidAnnotation", "container main: bad is no option", "uid-7"),
        ("MemoryWidened", "container main: node 0 is full", "uid-7"),
    ]
    assert [(line["container"], line["reason"], line["message"]) for line in logs][2] == (
        "ns/web/main",
        "MemoryWidened",
        "node 0 is full",
    )


async def test_a_warning_about_a_container_that_has_ended_is_counted_and_no_event(reports, node_agent, counts):
    with capture_logs() as logs:
        reports.warned(None, warning())
        await asyncio.sleep(0.1)
    assert counts.warnings == {"InvalidAnnotation": 1}
    assert node_agent.requests == []
    assert [line["container"] for line in logs] == ["id-main"]


async def test_every_moved_container_counts(reports, counts):
    reports.moved([ContainerId("a"), ContainerId("b"), ContainerId("c")])
    reports.moved([])
    reports.moved([ContainerId("a")])
    assert counts.moved == 4


async def test_moved_containers_are_logged_where_there_are_some(reports):
    with capture_logs() as logs:
        reports.moved([])
        reports.moved([ContainerId("a")])
    assert [(line["log_level"], line["containers"]) for line in logs] == [("debug", ["a"])]


async def test_events_of_one_moment_are_sent_in_one_request_and_once(reports, node_agent):
    for number in range(3):
        reports.rejected(container(f"c{number}"), "no room")
    await asyncio.sleep(60)
    assert node_agent.sent() == [[f"container c{number}: no room" for number in range(3)]]


async def test_events_that_could_not_be_sent_are_sent_again_every_five_seconds_until_they_are(reports, node_agent):
    node_agent.failures = 2
    with capture_logs() as logs:
        reports.rejected(container(), "no room")
        await asyncio.sleep(60)
    assert node_agent.sent() == [["container main: no room"]] * 3
    first, *later = [time for time, _ in node_agent.requests]
    assert [time - first for time in later] == [pytest.approx(5), pytest.approx(10)]
    assert [line["event"] for line in logs[1:]] == ["events not recorded", "events recorded again"]
    assert "node agent away" in logs[1]["problem"]


async def test_events_added_while_others_are_sent_are_sent_next(reports, node_agent):
    def add():
        node_agent.meanwhile = lambda: None
        reports.rejected(container("later"), "no room")

    node_agent.meanwhile = add
    reports.rejected(container("first"), "no room")
    await asyncio.sleep(60)
    assert node_agent.sent() == [["container first: no room"], ["container later: no room"]]


async def test_events_added_while_others_fail_are_sent_with_them(reports, node_agent):
    node_agent.failures = 1
    reports.rejected(container("first"), "no room")
    await asyncio.sleep(1)
    reports.rejected(container("later"), "no room")
    await asyncio.sleep(60)
    assert node_agent.sent() == [
        ["container first: no room"],
        ["container first: no room", "container later: no room"],
    ]


async def test_of_more_events_than_are_kept_the_newest_are_sent(reports, node_agent):
    for number in range(300):
        reports.rejected(container(f"c{number}"), "no room")
    await asyncio.sleep(1)
    assert node_agent.sent() == [[f"container c{number}: no room" for number in range(44, 300)]]


async def test_events_that_push_out_some_in_flight_are_all_sent(reports, node_agent):
    def flood():
        node_agent.meanwhile = lambda: None
        for number in range(255):
            reports.rejected(container(f"n{number}"), "no room")

    node_agent.meanwhile = flood
    reports.rejected(container("a"), "no room")
    reports.rejected(container("b"), "no room")
    await asyncio.sleep(1)
    assert node_agent.sent() == [
        ["container a: no room", "container b: no room"],
        [f"container n{number}: no room" for number in range(255)],
    ]


async def test_without_a_node_agent_there_are_counts_and_no_events(counts, classes, interrupts):
    reports = DecisionReports(counts, classes, interrupts, None)
    reports.rejected(container(), "no room")
    reports.warned(container(), warning())
    assert (counts.rejected, counts.warnings) == (1, {"InvalidAnnotation": 1})
    assert not reports._events


async def test_cpus_by_class_reach_the_actuator(reports, classes, actuator):
    running = asyncio.create_task(classes.run())
    reports.classes_changed({"eco": Cpus.parse("4-7")})
    await asyncio.sleep(0.1)
    running.cancel()
    (request,) = actuator.requests
    assert {name: controls.cpus for name, controls in request.classes.items()} == {"eco": "4-7"}


def timer(name, after_s):
    return PolicyTimer(after_s=after_s, event=ColdStartEnded(ContainerId(name)))


@pytest.fixture
def fired(reports):
    """Events of timers with their time."""
    fired = []

    async def on_event(event):
        fired.append((event.container, asyncio.get_running_loop().time()))

    reports.on_event = on_event
    return fired


async def test_timers_deliver_their_events_when_they_are_due(reports, fired):
    start = asyncio.get_running_loop().time()
    reports.timers([timer("late", 30), timer("early", 10)])
    await asyncio.sleep(9)
    assert fired == []
    await asyncio.sleep(51)
    assert [name for name, _ in fired] == ["early", "late"]
    assert [time - start for _, time in fired] == pytest.approx([10, 30])
    assert not reports._timers
    assert not reports._tasks


async def test_no_timer_fires_after_the_end(reports, fired):
    reports.timers([timer("a", 10), timer("b", 20)])
    await asyncio.sleep(15)
    reports.close()
    await asyncio.sleep(60)
    assert [name for name, _ in fired] == ["a"]


async def test_an_event_that_is_being_handled_at_the_end_is_cancelled(reports):
    cancelled = []

    async def on_event(event):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(event.container)
            raise

    reports.on_event = on_event
    with capture_logs() as logs:
        reports.timers([timer("a", 1)])
        await asyncio.sleep(2)
        reports.close()
        await asyncio.sleep(0.1)
    assert cancelled == ["a"]
    assert logs == []


async def test_an_event_of_a_timer_that_fails_is_logged_and_stops_no_other(reports):
    seen = []

    async def on_event(event):
        seen.append(event.container)
        if event.container == "bad":
            raise ValueError("no such pool")

    reports.on_event = on_event
    with capture_logs() as logs:
        reports.timers([timer("bad", 1), timer("good", 2)])
        await asyncio.sleep(3)
    assert seen == ["bad", "good"]
    (line,) = logs
    assert (line["log_level"], line["event"], str(line["exc_info"])) == ("error", "policy event failed", "no such pool")
