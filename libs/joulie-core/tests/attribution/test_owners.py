"""Workloads of pods."""

import pytest

from joulie_core.attribution.owners import workload_of

HASH = {"pod-template-hash": "6d4cf"}


@pytest.mark.parametrize(
    ("pod", "kind", "controller", "labels", "workload"),
    [
        ("web-6d4cf-x", "ReplicaSet", "web-6d4cf", HASH, "deployment/web"),
        ("web-x", "ReplicaSet", "web-6d4cf", {}, "replicaset/web-6d4cf"),
        ("web-x", "ReplicaSet", "web", HASH, "replicaset/web"),
        ("db-0", "StatefulSet", "db", {}, "statefulset/db"),
        ("train-x", "PyTorchJob", "train", {}, "pytorchjob/train"),
        ("alone", "", "", {}, "pod/alone"),
        ("alone", "Job", "", {}, "pod/alone"),
        ("etcd-n1", "Node", "n1", {}, "pod/etcd"),
    ],
)
def test_a_pod_has_the_workload_that_people_know(pod, kind, controller, labels, workload):
    assert workload_of(pod, kind, controller, labels) == workload


def test_a_name_from_outside_is_printable_and_short():
    found = workload_of("p", "Job\n", "x" * 1000, {})
    assert "\n" not in found
    assert len(found) <= 320
