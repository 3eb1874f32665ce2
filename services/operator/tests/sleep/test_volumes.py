"""What is read of PersistentVolumeClaims and PersistentVolumes: which nodes can use the data."""

import json

import pytest

from joulie_api.errors import DecodeError
from joulie_core.pod import Requirement, SelectorOperator, Term
from joulie_operator.sleep.volumes import WatchedClaim, WatchedVolume, read_claim, read_volume

EXPRESSION = {"key": "zone", "operator": "In", "values": ["a", "b"]}
FIELD = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def volume(**spec):
    return read_volume(json.dumps({"metadata": {"name": "pv"}, "spec": spec}).encode())


def reaching(*terms):
    return volume(csi={}, nodeAffinity={"required": {"nodeSelectorTerms": list(terms)}}).required_terms


def test_a_claim_names_its_volume_once_it_is_bound():
    assert read_claim(b'{"spec": {"volumeName": "pv", "storageClassName": "fast"}}') == WatchedClaim("pv")
    assert read_claim(b'{"spec": {"storageClassName": "fast"}}') == WatchedClaim("")


@pytest.mark.parametrize(
    ("source", "local"),
    [({"local": {"path": "/d"}}, True), ({"hostPath": {}}, True), ({"csi": {}}, False), ({}, False)],
)
def test_data_on_a_node_is_local(source, local):
    assert volume(**source) == WatchedVolume(None, local)


@pytest.mark.parametrize("affinity", [None, {}, {"required": None}])
def test_a_volume_without_required_affinity_is_for_all_nodes(affinity):
    assert volume(csi={}, nodeAffinity=affinity).required_terms is None


def test_the_terms_of_a_volume_are_read_with_labels_and_fields():
    zone = Requirement("zone", SelectorOperator.IN, ("a", "b"))
    name = Requirement("metadata.name", SelectorOperator.IN, ("n1",))
    assert reaching({"matchExpressions": [EXPRESSION]}, {"matchFields": [FIELD]}, {}) == (
        Term((zone,)),
        Term((), (name,)),
        Term(),
    )
    assert reaching() == (), "it is for no node"


@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"spec": 1}', b'{"spec": {"nodeAffinity": 1, "volumeName": 1}}'])
@pytest.mark.parametrize(("read", "kind"), [(read_claim, "PersistentVolumeClaim"), (read_volume, "PersistentVolume")])
def test_what_is_no_claim_or_volume_is_refused(read, kind, raw):
    with pytest.raises(DecodeError, match=f"^not a {kind}: "):
        read(raw)
