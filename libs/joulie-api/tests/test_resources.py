import pytest

from joulie_api.resources import LEASES, NODE_TWINS, NODES, PODS


def test_core_resources_live_under_api():
    assert NODES.collection_path() == "/api/v1/nodes"
    assert NODES.object_path("n1", subresource="status") == "/api/v1/nodes/n1/status"
    assert (NODES.api_version, NODES.full_name) == ("v1", "nodes")


def test_other_groups_live_under_apis():
    assert NODE_TWINS.object_path("n1") == "/apis/joulie.io/v1alpha1/nodetwins/n1"
    assert (NODE_TWINS.api_version, NODE_TWINS.full_name) == ("joulie.io/v1alpha1", "nodetwins.joulie.io")


def test_namespaced_resources_are_listed_in_one_namespace_or_in_all():
    assert PODS.collection_path() == "/api/v1/pods"
    assert PODS.collection_path("web") == "/api/v1/namespaces/web/pods"
    assert LEASES.object_path("op", "kube-system") == ("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/op")


def test_names_cannot_leave_their_place_in_the_path():
    assert NODES.object_path("../pods?x=1") == "/api/v1/nodes/..%2Fpods%3Fx%3D1"


def test_a_namespace_that_is_missing_or_out_of_place_is_an_error():
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.object_path("p1")
    with pytest.raises(ValueError, match="cluster-scoped"):
        NODES.collection_path("web")
