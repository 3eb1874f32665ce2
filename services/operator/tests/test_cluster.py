"""The model of the cluster: what it counts, and which changes it reports."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from joulie_api.failures import Failures
from joulie_api.wire import decode_node
from joulie_core import labels
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view
from joulie_core.kinds.node_hardware import GpuHardware, NodeHardwareStatus
from joulie_core.names import NodeName
from joulie_operator import cluster as operator_cluster
from joulie_operator.cluster import Cluster, Eligibility
from joulie_operator.pods import NO_POD, PodDecoder, PodSummary
from joulie_operator.workqueue import ChangeScope, ClusterChange
from joulie_testing.api import make_node, make_pod

INVENTORY = Inventory.load()
N1, N2 = NodeName("n1"), NodeName("n2")


def node(name="n1", **fields):
    return decode_node(msgspec.json.encode(make_node(name, **fields)))


def pod(**fields):
    return PodDecoder()(msgspec.json.encode(make_pod(**fields)))


class PodWatch:
    stale = False

    def is_stale(self):
        return self.stale


class RecordingCluster(Cluster):
    """A cluster that keeps the changes it reports."""

    def __init__(self):
        self.changes, self.watch = [], PodWatch()
        self.registry = CollectorRegistry()
        self.failures = Failures(self.registry)
        super().__init__(INVENTORY, pods=self.watch, on_change=self.changes.append, failures=self.failures)


DEMAND = ClusterChange(ChangeScope.DEMAND)


def plan_change(name):
    return ClusterChange(ChangeScope.PLAN, name)


def test_a_pod_is_summarized_by_its_demand():
    assert pod(node="n1", cpu="1500m", gpu=2, workload_class="performance") == PodSummary(N1, True, 1.5, 2)
    assert pod(cpu=1).node is None
    assert pod(node="n1", phase="Succeeded", workload_class="performance") == NO_POD


def test_a_terminating_pod_still_counts():
    assert pod(node="n1", workload_class="performance", deleting=True).performance


def test_performance_pods_are_counted_for_the_cluster_and_for_their_node():
    cluster = RecordingCluster()
    waiting, bound = pod(workload_class="performance"), pod(node="n1", workload_class="performance")
    cluster.on_pod("a", None, waiting)
    cluster.on_pod("b", None, pod(node="n1"))
    assert (cluster.performance_pods, cluster.load(N1).performance_pods) == (1, 0)
    cluster.on_pod("a", waiting, bound)
    assert (cluster.performance_pods, cluster.load(N1).performance_pods) == (1, 1)
    cluster.on_pod("a", bound, None)
    assert (cluster.performance_pods, cluster.load(N1).performance_pods) == (0, 0)


def test_pods_that_do_not_demand_performance_cause_nothing():
    cluster = RecordingCluster()
    standard = pod(node="n1")
    cluster.on_pod("a", None, pod())
    cluster.on_pod("a", pod(), standard)
    cluster.on_pod("a", standard, None)
    assert cluster.changes == []


def test_a_performance_pod_is_demand_when_it_comes_and_goes_and_concerns_its_node_when_it_is_bound():
    cluster = RecordingCluster()
    waiting, bound = pod(workload_class="performance"), pod(node="n2", workload_class="performance")
    cluster.on_pod("b", None, waiting)
    assert cluster.changes == [DEMAND]
    cluster.on_pod("b", waiting, bound)
    assert cluster.changes == [DEMAND, ClusterChange(ChangeScope.NODE, N2)]
    cluster.on_pod("b", bound, None)
    assert cluster.changes[2:] == [ClusterChange(ChangeScope.NODE, N2), DEMAND]


def test_only_the_first_and_the_last_performance_pod_of_a_node_concern_it():
    cluster = RecordingCluster()
    waiting, bound = pod(workload_class="performance"), pod(node="n1", workload_class="performance")
    for key in "abc":
        cluster.on_pod(key, None, waiting)
    cluster.changes.clear()
    for key in "abc":
        cluster.on_pod(key, waiting, bound)
    assert cluster.changes == [ClusterChange(ChangeScope.NODE, N1)]
    cluster.changes.clear()
    for key in "abc":
        cluster.on_pod(key, bound, waiting)
    assert cluster.changes == [ClusterChange(ChangeScope.NODE, N1)]


@given(st.lists(st.booleans(), max_size=30))
def test_a_node_is_reported_whenever_it_becomes_free_of_performance_pods_or_ceases_to_be(bindings):
    cluster, seen = RecordingCluster(), [False]
    bound, pods = pod(node="n1", workload_class="performance"), []
    for number, comes in enumerate(bindings):
        if comes:
            pods.append(f"p{number}")
            cluster.on_pod(pods[-1], None, bound)
        elif pods:
            cluster.on_pod(pods.pop(), bound, None)
        if seen[-1] is not bool(pods):
            seen.append(bool(pods))
    assert cluster.changes.count(ClusterChange(ChangeScope.NODE, N1)) == len(seen) - 1


facts = st.builds(
    PodSummary,
    node=st.sampled_from([None, N1, N2]),
    performance=st.booleans(),
    cpu_cores=st.floats(0, 64),
    gpus=st.just(1),
)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | facts), max_size=40))
def test_counts_are_those_of_the_pods_that_are_there(changes):
    cluster, pods = RecordingCluster(), {}
    for key, new in changes:
        cluster.on_pod(key, pods.get(key), new)
        pods[key] = new
    there = [each for each in pods.values() if each is not None]
    assert cluster.performance_pods == sum(each.performance for each in there)
    for name in (N1, N2):
        bound = [each for each in there if each.node == name]
        load = cluster.load(name)
        assert (load.pods, load.performance_pods) == (len(bound), sum(each.performance for each in bound))
        assert abs(load.cpu_cores - sum(each.cpu_cores for each in bound)) < 1e-6
        assert load.gpus == len(bound)


def test_blocking_pods_are_unknown_while_the_watch_of_pods_is_stale():
    cluster = RecordingCluster()
    cluster.on_pod("a", None, pod(node="n1", workload_class="performance"))
    cluster.on_pod("b", None, pod(node="n1"))
    assert (cluster.blocking_pods(N1), cluster.blocking_pods(N2)) == (1, 0)
    cluster.watch.stale = True
    assert (cluster.blocking_pods(N1), cluster.blocking_pods(N2)) == (None, None)


def test_a_node_is_eligible_cordoned_or_not_managed():
    cluster = RecordingCluster()
    cluster.on_node("n1", None, node())
    assert cluster.eligibility(N1) is Eligibility.ELIGIBLE
    cluster.on_node("n1", node(), node(unschedulable=True))
    assert cluster.eligibility(N1) is Eligibility.CORDONED
    assert not cluster.candidates()
    cluster.on_node("n1", node(unschedulable=True), node(labels={labels.RESERVED: "true"}))
    assert cluster.eligibility(N1) is Eligibility.UNMANAGED
    cluster.on_node("n1", node(), None)
    assert cluster.eligibility(N1) is Eligibility.UNMANAGED


def test_a_kubelets_report_and_our_own_labels_alter_no_plan():
    cluster = RecordingCluster()
    first = node()
    cluster.on_node("n1", None, first)
    candidates = cluster.candidates()
    cluster.changes.clear()
    cluster.on_node("n1", first, node(annotations={"volatile": "yes"}))
    assert cluster.changes == []
    cluster.on_node("n1", first, node(labels={labels.POWER_PROFILE: "eco"}))
    assert cluster.changes == [ClusterChange(ChangeScope.NODE, N1)]
    assert cluster.candidates() is candidates
    assert cluster.nodes[N1].labels[labels.POWER_PROFILE] == "eco"


def test_discovered_hardware_replaces_that_of_labels_and_alters_the_plan():
    cluster = RecordingCluster()
    cluster.on_node("n1", None, node(cpu_model="AMD EPYC 7763", cpu_sockets=2, cpu=256))
    before = cluster.candidates()[0]
    cluster.changes.clear()
    cluster.on_hardware("n1", NodeHardwareStatus(gpu=GpuHardware(present=True, raw_model="NVIDIA H100", count=8)))
    after = cluster.candidates()[0]
    assert cluster.changes == [plan_change(N1)]
    assert after.density > before.density
    assert after.family != before.family


def test_hardware_is_resolved_when_it_is_first_read_and_not_for_the_first_list(monkeypatch):
    resolved = []

    def resolve(node, *args, **options):
        resolved.append(node.name)
        return resolve_view(node, *args, **options)

    monkeypatch.setattr("joulie_operator.cluster.resolve_view", resolve)
    cluster = RecordingCluster()
    cluster.on_node("n1", None, node())
    cluster.on_hardware("n1", NodeHardwareStatus(gpu=GpuHardware(present=False)))
    assert (resolved, cluster.changes) == ([], [plan_change("n1")] * 2)
    assert cluster.hardware(N1) is cluster.hardware(N1)
    assert resolved == ["n1"]


def test_hardware_reported_again_alters_nothing():
    cluster = RecordingCluster()
    status = NodeHardwareStatus(gpu=GpuHardware(present=True, raw_model="NVIDIA H100", count=8))
    cluster.on_node("n1", None, node())
    cluster.on_hardware("n1", status)
    cluster.candidates()
    cluster.changes.clear()
    cluster.on_hardware("n1", status.model_copy(update={"updated_at": "2026-01-01T00:00:00Z"}))
    assert cluster.changes == []


def test_a_node_whose_hardware_cannot_be_resolved_is_no_candidate_and_the_others_are(monkeypatch):
    cluster = RecordingCluster()
    for name in ("n1", "n2"):
        cluster.on_node(name, None, node(name, cpu=8))
    resolve = operator_cluster.resolve_view

    def fail(of, *arguments, **keywords):
        if of.name == "n1":
            raise OverflowError("a defect")
        return resolve(of, *arguments, **keywords)

    monkeypatch.setattr(operator_cluster, "resolve_view", fail)
    assert [each.name for each in cluster.candidates()] == ["n2"]
    labels = {"work": "resolve hardware"}
    assert cluster.registry.get_sample_value("joulie_internal_errors_total", labels) == 1
