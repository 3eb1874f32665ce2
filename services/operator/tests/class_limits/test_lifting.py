"""The nodes whose limits are lifted, as pods come and go."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_core.class_caps.waiting import DEFAULT_RULE, UNKNOWN_REQUEST, GpuRequest
from joulie_core.hardware.inventory import Inventory
from joulie_core.kinds.node_power_profile import ClassLimitTarget, NodePowerProfileSpec
from joulie_core.labels import HW_GPU_COUNT, HW_GPU_MODEL
from joulie_core.names import NodeName
from joulie_core.node import Node
from joulie_operator.class_limits.lifting import MOST_REQUESTS, ClassLimitLifting
from joulie_operator.class_limits.metrics import lifting_families
from joulie_operator.class_limits.nodes import GpuNodes
from joulie_operator.cluster import Cluster
from joulie_operator.pods import PodSummary
from joulie_operator.published import PublishedTarget

GPU = "nvidia.com/gpu"
GRACE_S, HOLD_S = DEFAULT_RULE.grace_s, DEFAULT_RULE.hold_s
INVENTORY = Inventory.load()


def node(name, gpus, model="NVIDIA H100 80GB HBM3", **labels):
    hardware = {HW_GPU_MODEL: model, HW_GPU_COUNT: str(gpus)} if gpus else {HW_GPU_COUNT: "0"}
    allocatable = {"cpu": "8"} | ({GPU: str(gpus)} if gpus else {})
    return Node(NodeName(name), labels=hardware | labels, allocatable=allocatable)


def waiting_for(request):
    return PodSummary(None, performance=True, cpu_cores=1.0, gpus=1.0, awaited_gpus=request)


class Pods:
    """Stands for the watch of pods."""

    def __init__(self):
        self.store, self.invalid, self.stale = {}, {}, False

    def subscribe(self, handler):
        self._handler = handler

    def is_stale(self):
        return self.stale

    def put(self, key, request):
        old, new = self.store.get(key), None if request is None else waiting_for(request)
        if new is None:
            self.store.pop(key)
        else:
            self.store[key] = new
        self._handler(key, old, new)


class World:
    """What the decision depends on, with a clock."""

    def __init__(self, *nodes, targets=None):
        self.pods, self.now, self.changed = Pods(), 1000.0, []
        self.bound, failures = Pods(), Failures(CollectorRegistry())
        self.cluster = Cluster(INVENTORY, pods=self.bound, on_change=lambda _change: None, failures=failures)
        self.names = set()
        for each in nodes:
            self.put_node(each)
        self.targets = targets or {}
        self.lifting = ClassLimitLifting(
            self.pods,
            GpuNodes(self.cluster, failures),
            SimpleNamespace(names=self.targets.keys, target=self.targets.get),
            self.changed.append,
            failures,
            clock=lambda: self.now,
        )

    def put_node(self, found):
        self.cluster.on_node(found.name, self.cluster.nodes.get(found.name), found)
        self.names.add(found.name)

    def bind(self, key, name, gpus):
        """Let a pod with GPUs run on a node."""
        summary = PodSummary(node=NodeName(name), performance=False, cpu_cores=1.0, gpus=gpus)
        self.cluster.on_pod(key, None, summary)

    def after(self, elapsed_s):
        """Let time pass; return the nodes that have changed at the end of it, and those that are lifted."""
        self.now += elapsed_s
        self.changed.clear()
        self.lifting.step()
        return sorted(self.changed), sorted(name for name in self.names if self.lifting.lifted(name))

    def series(self):
        found = lifting_families(waiting=self.lifting.waiting, lifted_nodes=self.lifting.lifted_nodes)
        return {each.name: each.samples[0].value for each in found}


@pytest.fixture
def world():
    return World(node("a", 8), node("b", 8), node("small", 2), node("none", 0))


def test_a_pod_lifts_the_limits_of_the_nodes_that_could_take_it_after_the_grace(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    assert world.after(GRACE_S - 0.5) == ([], [])
    assert world.after(0.5) == (["a", "b"], ["a", "b"])
    assert world.series() == {
        "joulie_operator_class_limit_waiting_pods": 1,
        "joulie_operator_class_limit_lifted_nodes": 2,
    }


def test_nothing_changes_while_it_waits_and_more_come(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.after(GRACE_S)
    for number in range(5):
        world.pods.put(f"ml/q{number}", GpuRequest(((GPU, 8.0),)))
        assert world.after(10.0) == ([], ["a", "b"])


def test_limits_come_back_after_the_hold_once_it_is_placed(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.after(GRACE_S)
    world.pods.put("ml/p", None)
    assert world.after(HOLD_S - 1.0) == ([], ["a", "b"])
    assert world.after(1.0) == (["a", "b"], [])
    assert world.series()["joulie_operator_class_limit_waiting_pods"] == 0


def test_a_pod_that_is_placed_within_the_grace_lifts_nothing(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.after(GRACE_S - 1.0)
    world.pods.put("ml/p", None)
    assert world.after(60.0) == ([], [])


def test_a_changed_pod_has_waited_since_it_was_first_seen(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.now += GRACE_S
    world.pods.put("ml/p", GpuRequest(((GPU, 1.0),)))
    assert world.after(0.0)[1] == ["a", "b", "small"]


def test_a_pod_that_cannot_be_read_waits_for_every_node_with_gpus(world):
    world.pods.invalid["ml/p"] = "too many parts"
    assert world.after(0.0)[1] == ["a", "b", "small"]


def test_one_that_could_be_read_before_waits_for_what_it_did(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.pods.invalid["ml/p"] = "too many parts"
    assert world.after(GRACE_S)[1] == ["a", "b"]


def test_too_many_kinds_of_requests_wait_for_every_node_with_gpus(world):
    for number in range(MOST_REQUESTS + 1):
        world.pods.put(f"ml/{number}", GpuRequest(((GPU, 100.0 + number),)))
    assert world.after(GRACE_S)[1] == ["a", "b", "small"]


def test_as_many_as_are_matched_wait_for_what_they_could_take(world):
    for number in range(MOST_REQUESTS):
        world.pods.put(f"ml/{number}", GpuRequest(((GPU, 100.0 + number),)))
    assert world.after(GRACE_S)[1] == []


def test_while_the_pods_are_not_known_everything_stays(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.after(GRACE_S)
    world.pods.put("ml/p", None)
    world.pods.stale = True
    assert world.after(10 * HOLD_S) == ([], ["a", "b"])
    world.pods.stale = False
    assert world.after(0.0) == (["a", "b"], [])


def test_a_node_that_comes_later_is_lifted_too_and_one_that_goes_is_not(world):
    world.pods.put("ml/p", GpuRequest(((GPU, 4.0),)))
    world.after(GRACE_S)
    world.put_node(node("late", 8))
    assert world.after(1.0) == (["late"], ["a", "b", "late"])
    world.cluster.on_node("b", world.cluster.nodes["b"], None)
    assert world.after(HOLD_S - 1.0) == ([], ["a", "b", "late"])
    assert world.after(1.0) == (["b"], ["a", "late"])


def test_gpus_of_a_node_that_are_unhealthy_count_and_unreadable_numbers_admit_every_pod():
    ill = Node(NodeName("ill"), allocatable={GPU: "6"}, capacity={GPU: "8"})
    odd = Node(NodeName("odd"), allocatable={GPU: "eight"})
    world = World(ill, odd, node("small", 2))
    world.pods.put("ml/p", GpuRequest(((GPU, 8.0),)))
    assert world.after(GRACE_S)[1] == ["ill", "odd"]


def test_a_node_without_gpus_is_never_lifted():
    world = World(node("none", 0))
    world.pods.put("ml/p", UNKNOWN_REQUEST)
    assert world.after(GRACE_S) == ([], [])


def test_a_node_whose_hardware_cannot_be_resolved_stops_no_other(monkeypatch):
    world = World(node("bad", 8), node("good", 8))
    resolve = world.cluster.hardware

    def hardware(name):
        if name == "bad":
            raise RuntimeError("a defect")
        return resolve(name)

    monkeypatch.setattr(world.cluster, "hardware", hardware)
    world.pods.put("ml/p", GpuRequest(((GPU, 8.0),)))
    assert world.after(GRACE_S)[1] == ["good"]


V100 = "Tesla V100-PCIE-32GB"


def test_limits_of_a_model_are_lifted_while_less_than_a_quarter_of_its_gpus_is_free():
    world = World(node("a", 8), node("b", 8), node("other", 8, V100))
    world.bind("ml/1", "a", 8.0)
    world.bind("ml/2", "b", 4.0)
    assert world.after(1.0) == ([], [])
    world.bind("ml/3", "b", 0.5)
    assert world.after(1.0) == (["a", "b"], ["a", "b"])


def test_free_gpus_of_a_node_that_takes_no_pods_are_not_free():
    cordoned = replace(node("b", 8), unschedulable=True)
    world = World(node("a", 8), cordoned)
    world.bind("ml/1", "a", 6.5)
    assert world.after(1.0) == (["a", "b"], ["a", "b"])
    world.put_node(node("b", 8))
    assert world.after(HOLD_S) == (["a", "b"], [])


def test_while_the_pods_of_nodes_are_not_known_everything_stays():
    world = World(node("a", 8))
    world.bound.stale = True
    world.bind("ml/1", "a", 8.0)
    assert world.after(1.0) == ([], [])
    world.bound.stale = False
    assert world.after(1.0) == (["a"], ["a"])


def test_what_was_published_stays_lifted_for_the_hold():
    def target(lifted):
        limits = ClassLimitTarget(lifted=True) if lifted else None
        return PublishedTarget(NodePowerProfileSpec(node_name="n", profile="performance", class_limits=limits), "u")

    targets = {"a": target(lifted=True), "b": target(lifted=False), "odd": PublishedTarget(None, "u")}
    world = World(node("a", 8), node("b", 8), targets=targets)
    world.lifting.adopt()
    assert world.after(HOLD_S - 1.0) == ([], ["a"])
    assert world.after(1.0) == (["a"], [])
