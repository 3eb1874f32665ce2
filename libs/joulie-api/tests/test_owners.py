"""Owner references."""

from joulie_api.owners import owned_by
from joulie_core.names import NodeName
from joulie_core.node import Node


def test_a_node_owns_by_its_uid():
    assert owned_by(Node(NodeName("n1"), uid="u-1")) == {
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-1"}]
    }


def test_a_node_whose_uid_is_unknown_owns_nothing():
    assert owned_by(Node(NodeName("n1"))) == {}
