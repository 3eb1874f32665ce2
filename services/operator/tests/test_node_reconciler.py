"""The workers: order of writes, repetition, ownership, cleaning, and notifications after the write."""

import asyncio
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from structlog.testing import capture_logs

from joulie_api.errors import NotFound, NotLeader, TransportError
from joulie_api.testing import make_node, make_node_power_profile, make_node_twin, make_pod, make_telemetry_profile
from joulie_api.wire import decode_kind, decode_node
from joulie_core import labels
from joulie_core.caps import CapSettings
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds import TelemetryProfile
from joulie_core.kinds.node_power_profile import OnLostControl
from joulie_core.names import NodeName
from joulie_core.policy import build_policy
from joulie_core.transition import NodeState
from joulie_operator.cluster import Cluster
from joulie_operator.conditions import ReportCache
from joulie_operator.node_reconciler import FIRST_RETRY_S, LAST_RETRY_S, NodeReconciler
from joulie_operator.node_writer import NodeWriter
from joulie_operator.notifications import CapsRefused, TransitionMade
from joulie_operator.planner import NodePlanner
from joulie_operator.power import PowerTracker
from joulie_operator.published import decode_pod_summary, decode_target, decode_twin
from joulie_operator.published_state import ECHO_GRACE_S, PublishedState
from joulie_operator.twins import NoFacility, RackCapacities, TwinTracker
from joulie_operator.workqueue import WorkQueue

INVENTORY = Inventory.load()
N1 = NodeName("n1")
SETTLE_S = 1.0
WALL = 1_800_000_000.0
PERF, DRAIN, ECO = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE, NodeState.ACTIVE_ECO
PERFORMANCE_POD = decode_pod_summary()(msgspec.json.encode(make_pod(node="n1", workload_class="performance")))
TARGET, TWIN = ("NodePowerProfile", ""), ("NodeTwin", "")
CONDITIONS, TWIN_STATUS, LABELS = ("NodePowerProfile", "status"), ("NodeTwin", "status"), ("Node", "labels")


def node(uid="uid-1", **fields):
    made = make_node("n1", **({"cpu_model": "AMD EPYC 7763", "cpu_sockets": 2, "cpu": 256} | fields))
    made["metadata"]["uid"] = uid
    return made


class ApiServer:
    """The objects of one node as a server keeps them, and failures of its next writes."""

    def __init__(self):
        self.objects = {}
        self.labels = {}
        #: What was written, as (kind, subresource), in order; failed attempts included.
        self.writes = []
        #: For the writes to come: None lets one succeed, "before" and "after" name the moment of its failure.
        self.faults = []
        self.error = TransportError("no answer")
        #: Called after each write, successful or not.
        self.after_write = lambda: None

    async def apply(self, res, name, body, *, status=False):
        def effect():
            key = (res.kind, name)
            if status and key not in self.objects:
                raise NotFound(404, "NotFound", "absent")
            self.objects.setdefault(key, {}).update(
                body | {"metadata": {"name": name} | body.get("metadata", {})} if not status else body
            )

        await self._write((res.kind, "status" if status else ""), effect)

    async def patch_node_labels(self, name, changes):
        def effect():
            if ("Node", name) not in self.objects:
                raise NotFound(404, "NotFound", "absent")
            for key, value in changes.items():
                self.labels.pop(key, None) if value is None else self.labels.update({key: value})

        await self._write(LABELS, effect)

    async def delete(self, res, name):
        def effect():
            self.objects.pop((res.kind, name), None)

        await self._write((res.kind, "delete"), effect)
        return True

    async def _write(self, what, effect):
        fault = self.faults.pop(0) if self.faults else None
        self.writes.append(what)
        try:
            if fault == "before":
                raise self.error
            effect()
            if fault == "after":
                raise self.error
        finally:
            self.after_write()


class Queue(WorkQueue):
    """A queue that only notes what is to come later."""

    def __init__(self):
        super().__init__()
        self.later = []

    def add_later(self, name, delay_s):
        self.later.append((name, delay_s))


class World:
    """One node on a server, and a reconciler that can be restarted; `deliver` is what the watches do."""

    def __init__(self, *, frac=0.0, **fields):
        self.server = ApiServer()
        self.server.objects["Node", "n1"] = node(**fields)
        self.frac = frac
        self.now = 100.0
        self.pods = 0
        self.stale = False
        self.notified = []
        self.settings = CapSettings()
        self.name = "share"
        self.restart()

    def is_stale(self):
        return self.stale

    def plan(self, context):
        return build_policy("static_partition", {"static_hp_frac": self.frac}).plan(context)

    def restart(self):
        """Begin with another process, which has seen everything that is on the server."""
        self.queue = Queue()
        self.targets, self.twins = {}, {}
        self.reports = ReportCache(lambda _change: None)
        self.cluster = Cluster(INVENTORY, pods=self, on_change=lambda _change: None)
        self.published = PublishedState(self.targets, self.twins, clock=self.clock, wall=self.wall)
        self.planner = NodePlanner(
            self.cluster,
            self,
            self.settings,
            reconcile_interval_s=60,
            settle_s=SETTLE_S,
            on_lost_control=OnLostControl.RESTORE,
            published=self.published,
        )
        self.twin_tracker = TwinTracker(
            self.cluster,
            PowerTracker([], max_age_s=180),
            NoFacility(),
            RackCapacities(50_000),
            heartbeat_s=90,
            least_interval_s=10,
        )
        self.reconciler = NodeReconciler(
            self.cluster,
            self.planner,
            self.twin_tracker,
            self.reports,
            queue=self.queue,
            writer=NodeWriter(self.server, self.published, wall=self.wall),
            published=self.published,
            notify=self.notified.append,
            clock=self.clock,
            wall=self.wall,
        )
        for number in range(self.pods):
            self.cluster.on_pod(f"p{number}", None, PERFORMANCE_POD)
        self.deliver()

    def clock(self):
        return self.now

    def wall(self):
        return WALL + self.now

    def deliver(self):
        """Report to the operator what is on the server."""
        found = self.server.objects.get(("Node", "n1"))
        if found is not None:
            found["metadata"]["labels"] = {
                key: value
                for key, value in found["metadata"]["labels"].items()
                if key not in {labels.POWER_PROFILE, labels.DRAINING}
            } | self.server.labels
        self.cluster.on_node("n1", self.cluster.nodes.get(N1), found and decode_node(msgspec.json.encode(found)))
        self._deliver("NodePowerProfile", self.targets, decode_target, self.reconciler.on_target)
        self._deliver("NodeTwin", self.twins, decode_twin, self.reconciler.on_twin)

    def _deliver(self, kind, store, decode, handler):
        raw = self.server.objects.get((kind, "n1"))
        old, new = store.pop("n1", None), None if raw is None else decode(msgspec.json.encode(raw))
        if new is not None:
            store["n1"] = new
        if old != new:
            handler("n1", old, new)

    def add_pod(self):
        self.cluster.on_pod(f"p{self.pods}", None, PERFORMANCE_POD)
        self.pods += 1

    def remove_pod(self):
        self.pods -= 1
        self.cluster.on_pod(f"p{self.pods}", PERFORMANCE_POD, None)

    def report(self, **cpu):
        """Report as the node's agent."""
        raw = make_telemetry_profile("n1", control={"cpu": cpu})
        self.reports.on_profile("n1", decode_kind(TelemetryProfile)(msgspec.json.encode(raw)).model)

    def reconcile(self):
        """Plan and write; return what was written."""
        self.planner.plan(self.wall())
        since = len(self.server.writes)
        run(self.reconciler.reconcile(N1))
        return self.server.writes[since:]

    def fail(self, *faults, error=TransportError):
        """Reconcile with writes that fail."""
        self.server.faults = list(faults)
        with pytest.raises(error):
            self.reconcile()
        self.server.faults = []

    def settle(self):
        """Reconcile until the node is what was planned."""
        for _ in range(3):
            self.reconcile()
            self.deliver()
            self.now += SETTLE_S
        assert self.reconcile() == []

    @property
    def caps(self):
        found = self.server.objects.get(("NodePowerProfile", "n1"))
        return None if found is None else found["spec"]["cpu"]["packagePowerCapPctOfMax"]

    @property
    def profile_label(self):
        return self.server.labels.get(labels.POWER_PROFILE)

    @property
    def transitions(self):
        return [str(each.transition.result) for each in self.notified if isinstance(each, TransitionMade)]


def run(coroutine):
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def queued(world):
    """Take all names out of the queue."""
    names = []
    while len(world.queue):
        name = run(world.queue.take())
        world.queue.done(name)
        names.append(name)
    return names


def settled(frac, **fields):
    world = World(frac=frac, **fields)
    world.settle()
    world.notified.clear()
    return world


def test_a_new_node_gets_its_target_labels_twin_and_conditions():
    world = World(frac=1)
    assert world.reconcile() == [TARGET, LABELS, TWIN, TWIN_STATUS, CONDITIONS]
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
    assert world.reconcile() == [TARGET, LABELS, TWIN_STATUS, CONDITIONS]


FAULTS = ["before", "after"]


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
    assert world.reconcile() == [TARGET, LABELS, TWIN, CONDITIONS]
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
    assert world.reconcile() == [TARGET, LABELS, TWIN]
    for kind in ("NodePowerProfile", "NodeTwin"):
        assert world.server.objects[kind, "n1"]["metadata"]["ownerReferences"][0]["uid"] == "uid-2"


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


class AnyHistory(RuleBasedStateMachine):
    """Any plan, pods that come and go, time, restarts, watches that lag, pods that cannot be read, failing writes."""

    def __init__(self):
        super().__init__()
        self.world = World()
        #: Pods that arrived while the node was eco: nothing can be done for those.
        self.pods_on_eco = 0

    @rule(frac=st.sampled_from([0, 1]), faults=st.lists(st.sampled_from([None, None, "before", "after"]), max_size=6))
    def reconcile(self, frac, faults):
        world = self.world
        world.frac = frac
        world.server.faults = faults
        world.server.after_write = self.check_write
        with suppress(TransportError):
            world.reconcile()
        world.server.faults = []
        if world.planner.state(N1) is not ECO and world.caps != 60:
            self.pods_on_eco = 0

    def check_write(self):
        assert not (self.world.profile_label == "performance" and self.world.caps == 60), "offered under eco caps"

    @rule()
    def deliver(self):
        self.world.deliver()

    @rule(seconds=st.sampled_from([0.3, 1.0, 60.0]))
    def wait(self, seconds):
        self.world.now += seconds

    @rule()
    def pod_arrives(self):
        self.world.add_pod()
        self.pods_on_eco += self.world.caps == 60 or self.world.planner.state(N1) is ECO

    @rule()
    @precondition(lambda self: self.world.pods > 0)
    def pod_leaves(self):
        self.world.remove_pod()
        self.pods_on_eco = min(self.pods_on_eco, self.world.pods)

    @rule()
    def restart(self):
        self.world.restart()
        self.world.notified.clear()

    @rule(stale=st.booleans())
    def read_pods(self, stale):
        self.world.stale = stale

    @invariant()
    def no_pod_that_came_under_performance_caps_runs_under_eco_caps(self):
        if self.world.caps == 60:
            assert self.world.pods == self.pods_on_eco

    @invariant()
    def each_transition_is_notified_once(self):
        made = [each.transition for each in self.world.notified if isinstance(each, TransitionMade)]
        for before, after in pairwise(made):
            assert before.to_state is after.from_state
        if made:
            assert made[-1].to_state is self.world.planner.state(N1)

    @rule()
    def in_the_end_the_plan_is_published(self):
        world = self.world
        world.stale = False
        while world.pods:
            world.remove_pod()
        self.pods_on_eco = 0
        world.now += 60
        world.settle()
        world.deliver()
        profile, caps = ("performance", 100) if world.frac == 1 else ("eco", 60)
        assert (world.profile_label, world.caps) == (profile, caps)
        assert world.planner.state(N1) is (PERF if world.frac == 1 else ECO)


TestAnyHistory = AnyHistory.TestCase
