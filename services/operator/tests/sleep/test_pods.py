"""What is read of pods: which of them would be lost by a power-off, and where they fit."""

import json

import pytest
from services.operator.tests.sleep.sleep_objects import controlled_by, owned_pod

from joulie_api.errors import DecodeError
from joulie_core.sleep.model import PodToleration
from joulie_operator.sleep.pods import PodRole, read_pod

SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def read(pod, **metadata):
    pod["metadata"] |= metadata
    return read_pod(json.dumps(pod).encode())


def with_volumes(*volumes, safe=None):
    pod = owned_pod("p")
    pod["spec"]["volumes"] = list(volumes)
    return read(pod, annotations={} if safe is None else {SAFE: safe}).role


@pytest.mark.parametrize(
    ("owner", "role"),
    [
        ("DaemonSet", PodRole.NODE_OWN),
        ("Node", PodRole.NODE_OWN),
        ("Job", PodRole.PROTECTED),
        (None, PodRole.PROTECTED),
        ("ReplicaSet", PodRole.MOVABLE),
        ("StatefulSet", PodRole.MOVABLE),
        ("ReplicationController", PodRole.MOVABLE),
    ],
)
def test_what_a_pod_means_for_its_node_follows_from_its_controller(owner, role):
    assert read(owned_pod("p", owner=owner)).role is role


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("argoproj.io/v1alpha1", "Workflow"),
        ("argoproj.io/v1alpha1", "Rollout"),
        ("tekton.dev/v1", "TaskRun"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("ray.io/v1", "RayCluster"),
        ("kubevirt.io/v1", "VirtualMachineInstance"),
        ("apps.example.org/v1", "StatefulSet"),
        ("apps.example.org/v1", "ReplicaSet"),
        ("apps/v1", "ReplicationController"),
        ("v1", "ReplicaSet"),
    ],
)
@pytest.mark.parametrize("safe", ["true", None])
def test_a_controller_that_is_not_known_to_replace_pods_protects_them(api_version, kind, safe):
    owner = controlled_by(kind, "r", api_version=api_version)
    annotations = {} if safe is None else {SAFE: safe}
    assert read(owned_pod("p"), ownerReferences=[owner], annotations=annotations).role is PodRole.PROTECTED


@pytest.mark.parametrize(
    ("annotations", "selector", "role"),
    [
        ({}, {}, PodRole.MOVABLE),
        ({"joulie.io/workload-class": "standard"}, {}, PodRole.MOVABLE),
        ({"joulie.io/workload-class": "performance"}, {}, PodRole.PROTECTED),
        ({"joulie.io/workload-class": "fast"}, {}, PodRole.PROTECTED),
        ({}, {"joulie.io/power-profile": "performance"}, PodRole.PROTECTED),
        ({}, {"joulie.io/power-profile": "eco"}, PodRole.MOVABLE),
        ({"karpenter.sh/do-not-disrupt": "true"}, {}, PodRole.PROTECTED),
        ({"karpenter.sh/do-not-disrupt": "false"}, {}, PodRole.MOVABLE),
    ],
)
def test_only_standard_pods_that_do_not_refuse_are_moved(annotations, selector, role):
    pod = owned_pod("p")
    pod["spec"]["nodeSelector"] = selector
    assert read(pod, annotations=annotations).role is role


def test_an_owner_that_is_no_controller_replaces_no_pod():
    owner = controlled_by("ReplicaSet", "r") | {"controller": False}
    assert read(owned_pod("p"), ownerReferences=[owner]).role is PodRole.PROTECTED


def test_the_controller_counts_among_several_owners():
    owners = [{"kind": "Node", "name": "n1"}, {"kind": "DaemonSet", "name": "agent", "controller": True}]
    found = read(owned_pod("p"), ownerReferences=owners)
    assert (found.role, found.daemon_set) == (PodRole.NODE_OWN, "default/agent")


def test_a_static_pod_ends_with_its_node():
    found = read(owned_pod("p", owner=None), annotations={"kubernetes.io/config.mirror": "abc"})
    assert found.role is PodRole.NODE_OWN


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {"hostPath": {"path": "/data"}}])
def test_data_on_the_node_keeps_it_awake_unless_its_owner_permits_the_eviction(volume):
    assert with_volumes({"name": "v", **volume}) is PodRole.PROTECTED
    assert with_volumes({"name": "v", **volume}, safe="false") is PodRole.PROTECTED
    assert with_volumes({"name": "v", **volume}, safe="true") is PodRole.MOVABLE


def test_other_volumes_move_with_the_pod():
    assert with_volumes({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}) is PodRole.MOVABLE


def test_a_pod_that_must_not_be_evicted_keeps_its_node_awake():
    assert with_volumes(safe="false") is PodRole.PROTECTED
    assert read(owned_pod("p", owner="Job"), annotations={SAFE: "true"}).role is PodRole.PROTECTED


def test_a_pod_has_its_name_namespace_and_node():
    found = read(owned_pod("p", "n7", namespace="team"))
    assert (found.name, found.namespace, found.node, found.ending) == ("p", "team", "n7", False)
    assert read(owned_pod("p", None)).node is None
    assert read(owned_pod("p"), namespace="").namespace == "default"


def test_a_pod_that_is_being_deleted_is_ending():
    assert read(owned_pod("p"), deletionTimestamp="2026-01-01T00:00:00Z").ending is True


@pytest.mark.parametrize(
    ("type_", "status", "reason", "expected"),
    [
        ("PodScheduled", "False", "Unschedulable", True),
        ("PodScheduled", "False", "SchedulingGated", False),
        ("PodScheduled", "True", "Unschedulable", False),
        ("Ready", "False", "Unschedulable", False),
    ],
)
def test_a_pod_is_unschedulable_where_kube_scheduler_says_so(type_, status, reason, expected):
    pod = owned_pod("p", None)
    pod["status"]["conditions"] = [
        {"type": "Other", "status": "True"},
        {"type": type_, "status": status, "reason": reason},
    ]
    assert read(pod).unschedulable is expected


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        ({}, True),
        ({"node": "n1"}, False),
        ({"reason": "SchedulingGated"}, False),
        ({"deleting": True}, False),
    ],
)
def test_a_pod_waits_while_it_has_no_node_and_kube_scheduler_finds_none(pod, waits):
    assert read(refused(**pod)).waits is waits


def refused(node=None, *, reason="Unschedulable", deleting=False):
    pod = owned_pod("p", node, deleting=deleting)
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "0/3 nodes are available"}
    pod["status"]["conditions"] = [condition | {"lastTransitionTime": "2027-01-15T08:00:00Z"}]
    return pod


def test_a_pod_that_finds_no_node_has_the_time_since_when():
    assert read(refused()).refused_since_s == 1_800_000_000.0
    assert read(refused(reason="SchedulingGated")).refused_since_s is None
    assert read(owned_pod("p", None)).refused_since_s is None


def test_labels_are_read_and_equal_ones_kept_once():
    found = [read(owned_pod(name, labels={"app": "web"})) for name in ("a", "b")]
    assert found[0].labels == {"app": "web"}
    assert found[0].labels is found[1].labels
    assert read(owned_pod("c"), labels=None).labels == {}


def test_the_claims_of_a_pods_volumes_are_read_in_their_order():
    pod = owned_pod("p")
    pod["spec"]["volumes"] = [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "c1"}},
    ]
    assert read(pod).claims == ("p-scratch", "c1")


def pinned(pod, name="n3"):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    return pod


def test_a_pod_of_a_daemon_set_is_meant_for_the_node_that_it_names_until_it_is_there():
    assert read(pinned(owned_pod("p", None, owner="DaemonSet"))).meant_for == "n3"
    assert read(pinned(owned_pod("p", "n3", owner="DaemonSet"))).meant_for == ""
    assert read(pinned(owned_pod("p", None, owner="ReplicaSet"))).meant_for == ""
    assert read(owned_pod("p", None, owner="ReplicaSet")).daemon_set == ""


def test_a_pod_needs_what_its_containers_request_and_one_place():
    found = read(owned_pod("p", cpu="1500m", gpu=2)).fit
    assert found.requests["cpu"] == 1.5
    assert found.requests["nvidia.com/gpu"] == 2
    assert found.requests["pods"] == 1
    assert "memory" not in found.requests, "none is requested"


def test_equal_pods_share_what_they_need():
    assert read(owned_pod("a", cpu=2)).fit is read(owned_pod("b", cpu=2)).fit


def test_where_a_pod_fits_is_read_of_selector_affinity_and_tolerations():
    pod = pinned(owned_pod("p", None))
    pod["spec"] |= {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [
            {"key": "a", "operator": "Exists", "value": "x", "effect": "NoSchedule"},
            {"key": "b", "value": "1"},
            {"operator": "Exists"},
        ],
    }
    found = read(pod).fit
    assert found.node_selector == {"disk": "ssd"}
    assert len(found.required_terms) == 1
    assert found.tolerations == (PodToleration("a", None, "NoSchedule"), PodToleration("b", "1"), PodToleration())


def test_a_pod_without_spec_is_read():
    found = read_pod(b'{"metadata": {"name": "bare"}}')
    assert (found.node, found.role, found.unschedulable) == (None, PodRole.PROTECTED, False)
    assert found.fit.requests == {"pods": 1}
    assert found.fit.tolerations == ()


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"metadata": {"name": 1}}', b"[" * 5000])
def test_what_is_no_pod_is_refused(raw):
    with pytest.raises(DecodeError, match=r"^not a Pod: "):
        read_pod(raw)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": 1},
        {"containers": 1},
        {"tolerations": [{"key": 1}]},
        {"affinity": 1},
        {"volumes": [{"name": "v", "persistentVolumeClaim": 1}]},
        {"volumes": [{"name": 1, "ephemeral": {}}]},
        {"volumes": [{"ephemeral": {}}]},
    ],
)
def test_a_pod_with_a_part_that_is_none_is_refused(spec):
    pod = owned_pod("p")
    pod["spec"] |= spec
    with pytest.raises(DecodeError, match=r"^not a Pod: "):
        read(pod)


def test_a_pod_with_labels_that_are_none_is_refused():
    with pytest.raises(DecodeError, match=r"^not a Pod: "):
        read(owned_pod("p"), labels=1)


def test_a_port_of_which_nothing_is_given_is_none_of_the_node():
    pod = owned_pod("p")
    pod["spec"]["containers"][0]["ports"] = [{}]
    assert read(pod).fit.uncertain is False
    pod["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    assert read(pod).fit.uncertain is True


def test_a_toleration_without_operator_and_value_is_one_of_the_empty_value():
    pod = owned_pod("p", None)
    pod["spec"]["tolerations"] = [{"key": "b"}]
    assert read(pod).fit.tolerations == (PodToleration("b", ""),)


def test_a_pod_without_a_namespace_is_in_the_default_one():
    assert read_pod(b'{"metadata": {"name": "bare"}}').namespace == "default"


def test_resources_of_the_whole_pod_count():
    pod = owned_pod("p", None)
    pod["spec"]["resources"] = {"requests": {"cpu": "3", "memory": "1Ki"}}
    assert read(pod).fit.requests == {"cpu": 3, "memory": 1024, "pods": 1}


def test_the_overhead_of_a_pod_counts_also_where_its_containers_request_nothing():
    pod = owned_pod("p", None)
    pod["spec"]["overhead"] = {"cpu": "250m", "memory": "1Ki"}
    assert read(pod).fit.requests == {"cpu": 0.25, "memory": 1024, "pods": 1}


@pytest.mark.parametrize("safe", ["true", "false"])
def test_a_pod_of_the_system_is_not_evicted_even_where_its_owner_permits_it(safe):
    assert read(owned_pod("p"), namespace="kube-system").role is PodRole.PROTECTED
    assert read(owned_pod("p"), namespace="kube-system", annotations={SAFE: safe}).role is PodRole.PROTECTED


def test_a_daemon_sets_pod_of_the_system_ends_with_its_node():
    assert read(owned_pod("p", owner="DaemonSet"), namespace="kube-system").role is PodRole.NODE_OWN
