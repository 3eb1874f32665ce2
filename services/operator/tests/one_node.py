"""One node on a scripted API server, and a reconciler of it that can be restarted."""

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from joulie_api.errors import NotFound, TransportError
from joulie_api.failures import Failures
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
from joulie_operator.node_reconciler import NodeReconciler
from joulie_operator.node_writer import NodeWriter
from joulie_operator.notifications import TransitionMade
from joulie_operator.planner import NodePlanner
from joulie_operator.pods import PodDecoder
from joulie_operator.power import PowerTracker
from joulie_operator.published import decode_target, decode_twin
from joulie_operator.published_state import PublishedState
from joulie_operator.twins import NoFacility, RackCapacities, TwinTracker
from joulie_operator.workqueue import WorkQueue
from joulie_testing.api import make_node, make_pod, make_telemetry_profile

INVENTORY = Inventory.load()
N1 = NodeName("n1")
SETTLE_S = 1.0
WALL = 1_800_000_000.0
PERF, DRAIN, ECO = NodeState.ACTIVE_PERFORMANCE, NodeState.DRAINING_PERFORMANCE, NodeState.ACTIVE_ECO
PERFORMANCE_POD = PodDecoder()(msgspec.json.encode(make_pod(node="n1", workload_class="performance")))
TARGET, TWIN = ("NodePowerProfile", ""), ("NodeTwin", "")
CONDITIONS, TWIN_STATUS, LABELS = ("NodePowerProfile", "status"), ("NodeTwin", "status"), ("Node", "labels")
FAULTS = ["before", "after"]


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
        self.registry = CollectorRegistry()
        self.failures = Failures(self.registry)
        self.cluster = Cluster(INVENTORY, pods=self, on_change=lambda _change: None, failures=self.failures)
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
            lambda _name: None,
            power_domains=lambda _name: None,
            heartbeat_s=90,
            least_interval_s=10,
            settle_s=20,
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
            failures=self.failures,
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
