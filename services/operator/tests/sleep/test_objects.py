"""What pods mean for a node that is to sleep."""

import json

import pytest

from joulie_operator.sleep.objects import PodRole, read_pod


def role(namespace, kind="ReplicaSet", **annotations):
    owner = {"kind": kind, "name": "owner", "controller": True}
    metadata = {"name": "pod", "namespace": namespace, "ownerReferences": [owner], "annotations": annotations}
    return read_pod(json.dumps({"metadata": metadata, "spec": {"nodeName": "n1"}}).encode()).role


def test_a_pod_that_its_controller_replaces_can_be_evicted():
    assert role("shop") is PodRole.MOVABLE


@pytest.mark.parametrize("safe", ["true", "false"])
def test_a_pod_of_the_system_is_not_evicted_even_where_its_owner_permits_it(safe):
    assert role("kube-system") is PodRole.PROTECTED
    assert role("kube-system", **{"cluster-autoscaler.kubernetes.io/safe-to-evict": safe}) is PodRole.PROTECTED


def test_a_daemon_sets_pod_of_the_system_ends_with_its_node():
    assert role("kube-system", "DaemonSet") is PodRole.NODE_OWN
