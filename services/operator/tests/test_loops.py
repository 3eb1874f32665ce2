"""The loops of a leading operator: what they do to the event loop in a large cluster."""

import asyncio

import msgspec
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core.hardware.inventory import Inventory
from joulie_operator.cluster import Cluster
from joulie_operator.loops import SLICE, OperatorLoops
from joulie_testing.api import make_node


class FreshWatch:
    def is_stale(self):
        return False


def loops_of(cluster):
    unused = dict.fromkeys(("trigger", "queue", "published", "wall", "on_pass"))
    failures = Failures(CollectorRegistry())
    return OperatorLoops(
        cluster, None, None, **unused, failures=failures, interval_s=60, debounce_s=1, sweep_interval_s=10
    )


async def test_other_tasks_run_while_the_hardware_of_many_nodes_is_resolved():
    cluster = Cluster(
        Inventory.load(), pods=FreshWatch(), on_change=lambda _change: None, failures=Failures(CollectorRegistry())
    )
    for number in range(3 * SLICE):
        node = make_node(f"n{number}", cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256)
        cluster.on_node(node["metadata"]["name"], None, decode_node(msgspec.json.encode(node)))
    resolved = []

    async def renew_lease():
        while True:
            resolved.append(len(cluster._hardware))
            await asyncio.sleep(0)

    lease = asyncio.create_task(renew_lease())
    await loops_of(cluster).prepare()
    lease.cancel()
    assert resolved == [SLICE, 2 * SLICE, 3 * SLICE]


class Twins:
    """Measures nodes, except for the broken ones."""

    def __init__(self, *broken):
        self.broken, self.measured = broken, []

    def measure(self, name, _caps, _now):
        if name in self.broken:
            raise OverflowError("a defect")
        self.measured.append(name)

    def sum_racks(self):
        raise OverflowError("a defect")

    def status(self, name, *_):
        return name

    def is_due(self, *_):
        return True


class Plans:
    """Plans n1 and n2; fails while it is broken."""

    last_plan = None

    def __init__(self):
        self.broken = False

    def managed(self):
        return ["n1", "n2", "n3"]

    def plan(self, _wall):
        if self.broken:
            raise OverflowError("a defect")
        return ["n2"]

    def published_caps(self, _name):
        return None

    def published_class(self, _name):
        return None

    def state(self, name):
        return name


class Published:
    def names(self):
        return ["n1"]

    def last_twin(self, _name):
        return None


class Trigger:
    def take(self):
        return {"n1"}


class Queue:
    def __init__(self):
        self.names = []

    def add(self, name, *, urgent=True):
        self.names.append((name, urgent))


def loops_with(planner, twins):
    registry, queue = CollectorRegistry(), Queue()
    cluster = Cluster(
        Inventory.load(), pods=FreshWatch(), on_change=lambda _: None, failures=Failures(CollectorRegistry())
    )
    loops = OperatorLoops(
        cluster,
        planner,
        twins,
        trigger=Trigger(),
        queue=queue,
        published=Published(),
        failures=Failures(registry),
        interval_s=60,
        debounce_s=1,
        sweep_interval_s=10,
        wall=lambda: 0.0,
        on_pass=lambda _: None,
    )
    return loops, queue, registry


def errors(registry, work):
    return registry.get_sample_value("joulie_internal_errors_total", {"work": work})


async def test_a_node_that_cannot_be_measured_does_not_stop_the_sweep_of_the_others():
    twins = Twins("n2")
    loops, queue, registry = loops_with(Plans(), twins)
    await loops.measure()
    await loops.sweep()
    assert twins.measured == ["n1", "n3", "n1", "n3"]
    assert queue.names == [("n1", False), ("n3", False)]
    assert (errors(registry, "measure node"), errors(registry, "sum racks")) == (2, 1)


async def test_nodes_that_changed_are_processed_though_the_policy_fails():
    planner = Plans()
    loops, queue, registry = loops_with(planner, Twins())
    loops.plan(everything=False)
    assert queue.names == [("n2", True), ("n1", True)]
    planner.broken = True
    loops.plan(everything=True)
    assert queue.names[2:] == [("n1", True), ("n1", False)]
    assert errors(registry, "plan") == 1
