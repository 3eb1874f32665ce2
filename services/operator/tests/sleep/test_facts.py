"""The nodes and pods of the decision, from what is watched; what is not known stays unknown."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry
from services.operator.tests.sleep.sleep_objects import (
    MAINTENANCE,
    OWN_TAINT,
    STATE,
    owned_pod,
    seen_bmc,
    seen_cluster,
    seen_node,
)
from structlog.testing import capture_logs

from joulie_api.failures import Failures
from joulie_core.hardware.inventory import Inventory
from joulie_core.hardware.view import resolve_view
from joulie_core.names import NodeName
from joulie_core.power.chassis import gpus_at_wall
from joulie_core.power.curves import node_curves
from joulie_core.sleep import SleepRecord, SleepState
from joulie_core.sleep.model import UNREADABLE_POWER
from joulie_core.timestamps import rfc3339
from joulie_operator.sleep.daemon_sets import WatchedDaemonSet
from joulie_operator.sleep.facts import gather, idle_watts, power_facts, zone_of
from joulie_operator.sleep.nodes import read_node
from joulie_operator.sleep.pods import read_pod
from joulie_testing.api import make_node

NOW_S = 1_800_000_000.0
N1 = NodeName("n1")
INVENTORY = Inventory.load()
EPYC, H100 = "AMD EPYC 7763", "NVIDIA H100 80GB HBM3"


def view_of(**hardware):
    node = read_node(json.dumps(make_node("n1", **hardware)).encode()).node
    return resolve_view(node, None, INVENTORY)


def facts(
    *,
    nodes=None,
    pods=(),
    daemon_sets=None,
    bmcs=(),
    records=None,
    hardware=lambda _: None,
    unknown=False,
    views=None,
    failures=None,
):
    nodes = [seen_node()] if nodes is None else nodes
    seen = seen_cluster(
        nodes={each.node.name: each for each in nodes},
        pods={f"{pod['metadata']['name']}": read_pod(json.dumps(pod).encode()) for pod in pods},
        daemon_sets=daemon_sets or {},
        bmcs={each.name: each for each in bmcs},
        pods_unknown=unknown,
    )
    if views is None:
        views = {NodeName(name): hardware(name) for name in seen.nodes}
    return gather(seen, records or {}, views, NOW_S, failures or Failures(CollectorRegistry()))


def node(**seen):
    return facts(**seen).nodes[N1]


def without_allocatable(seen):
    """Return a node of which it cannot be read what pods may request."""
    return replace(seen, node=replace(seen.node, allocatable={"cpu": "lots"}))


def unschedulable(pod):
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    return pod


# --- BMCs -------------------------------------------------------------------------------------------------------------


def test_a_nodebmc_that_could_not_be_read_is_not_an_absent_one():
    nodes = {"n1": seen_node("n1"), "n2": seen_node("n2")}
    seen = seen_cluster(nodes=nodes, unread_bmcs=frozenset({"n1"}))
    views = dict.fromkeys((N1, NodeName("n2")))
    found = gather(seen, {}, views, NOW_S, Failures(CollectorRegistry())).nodes
    assert (found[N1].power, found[NodeName("n2")].power) == (UNREADABLE_POWER, None)


def test_the_power_of_every_server_is_told_also_of_one_without_a_node():
    found = facts(nodes=[seen_node("n1")], bmcs=[seen_bmc("n1"), seen_bmc("n9")])
    assert found.power == {N1: power_facts(seen_bmc("n1")), NodeName("n9"): power_facts(seen_bmc("n9"))}


# --- pods -------------------------------------------------------------------------------------------------------------


def test_pods_take_room_and_are_told_apart_by_what_they_mean():
    size = read_node(json.dumps(make_node("n1", cpu=64)).encode())
    found = node(
        nodes=[size],
        pods=[
            owned_pod("own", owner="DaemonSet", cpu=1),
            owned_pod("job", owner="Job", cpu=2),
            owned_pod("bare", owner=None, cpu=4),
            owned_pod("web", cpu=8),
            owned_pod("other", "n2", cpu=16),
        ],
    )
    assert found.free["cpu"] == 64 - 15
    assert found.protected_pods == 2
    assert [pod.requests["cpu"] for pod in found.movable_pods] == [8]
    assert found.free["pods"] == float(size.node.allocatable.get("pods", 0)) - 4


def test_a_resource_that_the_node_does_not_have_is_lacking():
    assert node(pods=[owned_pod("gpu", gpu=2)]).free["nvidia.com/gpu"] == -2


def test_where_a_pod_cannot_be_read_the_pods_of_every_node_are_unknown():
    assert node().protected_pods == 0
    assert node(unknown=True).protected_pods is None


def test_pods_that_have_found_no_node_are_pending():
    waiting = unschedulable(owned_pod("waits", None, cpu=3))
    ending = unschedulable(owned_pod("ends", None, cpu=4))
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    own = unschedulable(owned_pod("own", None, owner="DaemonSet", cpu=5))
    found = facts(pods=[waiting, ending, own, owned_pod("new", None, cpu=6), owned_pod("bound", cpu=7)])
    assert [pod.requests["cpu"] for pod in found.pending] == [3]


def test_a_node_is_waited_for_where_a_daemon_set_with_a_pod_on_it_rolls_out():
    agent = owned_pod("agent", owner="DaemonSet")
    for rolling, expected in ((True, True), (False, False)):
        sets = {"default/agent-owner": WatchedDaemonSet(rolling), "default/other": WatchedDaemonSet(True)}
        found = facts(nodes=[seen_node("n1"), seen_node("n2")], pods=[agent], daemon_sets=sets).nodes
        assert (found[N1].rollout_waiting, found[NodeName("n2")].rollout_waiting) == (expected, False)


@pytest.mark.parametrize(
    ("pending", "ending", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_node_is_waited_for_where_a_daemon_sets_pod_for_it_finds_no_place(pending, ending, expected):
    pod = owned_pod("agent", None, owner="DaemonSet")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    if ending:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert node(pods=[unschedulable(pod) if pending else pod]).rollout_waiting is expected


# --- the node itself --------------------------------------------------------------------------------------------------


def test_what_the_node_says_of_itself_is_taken():
    taint = {"key": "team", "value": "a", "effect": "NoExecute"}
    labels = {"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "b", "pool": "x"}
    seen = seen_node(taints=[OWN_TAINT, taint], labels=labels, conditions=[{"type": "Ready", "status": "True"}])
    found = node(nodes=[seen])
    assert (found.name, found.zone, found.ready, found.cordoned) == ("n1", "eu/b", True, True)
    assert found.labels == seen.node.labels
    assert [each.key for each in found.taints] == ["team"]
    assert found.power is None
    assert (found.group, found.idle_watts) == ("", 0)


def test_the_boot_and_a_maintenance_are_taken_from_the_node_also_where_it_cannot_be_judged():
    seen = seen_node(boot_id="a\nb", annotations={MAINTENANCE: ""})
    for each in (seen, without_allocatable(seen)):
        found = node(nodes=[each])
        assert (found.boot_id, found.maintenance) == ("a b", True)
    assert (node().boot_id, node().maintenance) == ("", False)


def test_a_node_without_zone_is_in_a_zone_of_its_own_kind():
    assert zone_of(seen_node()) == "/"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("node-role.kubernetes.io/control-plane", True),
        ("node-role.kubernetes.io/master", True),
        ("node-role.kubernetes.io/etcd", True),
        ("node-role.kubernetes.io/worker", False),
    ],
)
def test_nodes_of_the_control_plane_are_known_by_their_labels(key, expected):
    assert node(nodes=[seen_node(labels={key: ""})]).control_plane is expected


@pytest.mark.parametrize(("cordoned", "deleting"), [(True, False), (False, True), (False, False)])
def test_a_node_that_is_cordoned_by_people_or_deleted_takes_no_pods(cordoned, deleting):
    body = make_node("n1")
    body["spec"]["unschedulable"] = cordoned
    if deleting:
        body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    seen = read_node(json.dumps(body).encode())
    assert node(nodes=[seen]).unschedulable is (cordoned or deleting)
    assert node(nodes=[without_allocatable(seen)]).unschedulable is (cordoned or deleting)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, False),
        (rfc3339(NOW_S + 60, "seconds"), True),
        (rfc3339(NOW_S, "seconds"), False),
        (rfc3339(NOW_S - 60, "seconds"), False),
        ("tomorrow", True),
        ("", True),
    ],
)
def test_a_person_keeps_a_node_awake_until_a_time(value, expected):
    annotations = {} if value is None else {"joulie.io/awake-until": value}
    assert node(nodes=[seen_node(annotations=annotations)]).wake_requested is expected


@pytest.mark.parametrize(
    ("state", "label", "expected"),
    [
        (SleepState.QUARANTINED, "quarantined", False),
        (SleepState.QUARANTINED, None, True),
        (SleepState.QUARANTINED, "waking", True),
        (SleepState.WAKING, None, False),
    ],
)
def test_a_quarantine_is_cleared_by_removing_its_label(state, label, expected):
    seen = seen_node(labels={} if label is None else {STATE: label})
    records = {N1: SleepRecord(state=state, since_s=NOW_S)}
    assert node(nodes=[seen], records=records).quarantine_cleared is expected


def test_hardware_gives_the_family_and_the_watts_that_are_saved():
    view = view_of(cpu_model=EPYC, cpu_sockets=2)
    found = node(hardware=lambda _: view)
    assert (found.group, found.idle_watts) == (view.family, idle_watts(view))
    assert found.idle_watts > 50


def test_gpus_without_work_add_their_watts():
    plain = idle_watts(view_of(cpu_model=EPYC, cpu_sockets=2))
    two, four = (idle_watts(view_of(cpu_model=EPYC, cpu_sockets=2, gpus=n, gpu_model=H100)) for n in (2, 4))
    assert four - two > 20
    assert two > plain
    assert idle_watts(None) == 0


def test_idle_watts_are_those_at_the_wall_of_a_server_without_load():
    plain = view_of(cpu_model=EPYC, cpu_sockets=2)
    assert idle_watts(plain) == node_curves(plain).wall_watts[0]
    gpus = view_of(cpu_model=EPYC, cpu_sockets=2, gpus=4, gpu_model=H100)
    added_watts = gpus_at_wall(4 * gpus.gpu.spec.idle_watts, 4 * 700.0)
    assert idle_watts(gpus) == pytest.approx(idle_watts(plain) + added_watts)


def test_a_server_of_unknown_cpus_saves_nothing_that_is_known():
    assert idle_watts(replace(view_of(), cpu=None)) == 0


def test_a_node_whose_hardware_cannot_be_read_is_one_of_which_pods_are_unknown_too():
    labels = {"topology.kubernetes.io/zone": "b"}
    seen = seen_node(labels=labels, taints=[OWN_TAINT], conditions=[{"type": "Ready", "status": "True"}])
    found = facts(nodes=[seen], bmcs=[seen_bmc()], views={}).nodes[N1]
    assert (found.name, found.group, found.zone, found.labels) == ("n1", "", "/b", seen.node.labels)
    assert (found.protected_pods, found.free, found.idle_watts) == (None, {}, 0)
    assert (found.ready, found.cordoned) == (True, True)
    assert found.power == power_facts(seen_bmc())


# --- what fails -------------------------------------------------------------------------------------------------------


def told(logs):
    return [{key: each.get(key) for key in ("event", "source", "work", "node", "problem")} for each in logs]


def test_a_node_whose_quantities_cannot_be_read_is_named_once_until_they_can_be():
    registry = CollectorRegistry()
    failures = Failures(registry)
    with capture_logs() as logs:
        for seen in (without_allocatable(seen_node()), without_allocatable(seen_node()), seen_node()):
            facts(nodes=[seen, seen_node("n2")], failures=failures)
    subject = {"source": "nodes", "work": None, "node": "n1"}
    problem = "not a Kubernetes quantity: 'lots'"
    assert told(logs) == [
        {"event": "invalid input set aside", "problem": problem, **subject},
        {"event": "input valid again", "problem": None, **subject},
    ]
    assert registry.get_sample_value("joulie_invalid_input_total", {"source": "nodes"}) == 2
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": "judge node for sleep"}) is None


@pytest.mark.parametrize(
    ("defect", "work"),
    [
        ({"views": {N1: "no view", NodeName("n2"): None}}, "judge node for sleep"),
        ({"bmcs": [SimpleNamespace(name="n1"), seen_bmc("n2")]}, "read power of node"),
    ],
)
def test_a_defect_over_one_node_is_counted_and_leaves_what_it_is_about_unknown(defect, work):
    registry = CollectorRegistry()
    with capture_logs() as logs:
        found = facts(nodes=[seen_node(), seen_node("n2")], failures=Failures(registry), **defect)
    assert [(each["event"], each["work"], each["node"]) for each in logs] == [
        ("internal error, will be repeated", work, "n1")
    ]
    assert registry.get_sample_value("joulie_internal_errors_total", {"work": work}) == 1
    broken, other = found.nodes[N1], found.nodes[NodeName("n2")]
    unknown = (broken.protected_pods is None, broken.power == UNREADABLE_POWER)
    assert unknown == (work == "judge node for sleep", work == "read power of node")
    assert (other.protected_pods, N1 in found.power) == (0, False)
