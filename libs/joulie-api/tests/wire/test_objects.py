import json

import pytest

from joulie_api.errors import DecodeError
from joulie_api.wire import decode_identity, decode_kind, decode_node, decode_page, decode_pod
from joulie_core.kinds import NodePowerProfile, NodeTwin
from joulie_core.pod import PodClaim, Requirement, SelectorOperator
from joulie_testing.api import make_node, make_pod


def encode(obj):
    return json.dumps(obj).encode()


def test_a_node_keeps_what_decisions_read():
    raw = make_node("n1", labels={"joulie.io/rack": "r1"}, annotations={"a": "b"}, cpu=8, unschedulable=True)
    raw["metadata"] |= {"uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    node = decode_node(encode(raw))
    assert (node.name, node.uid, node.resource_version) == ("n1", "u", "7")
    assert node.labels["joulie.io/rack"] == "r1"
    assert node.annotations == {"a": "b"}
    assert node.allocatable["cpu"] == "8"
    assert node.unschedulable
    assert node.deleting


def test_null_fields_are_absent_fields():
    raw = b'{"metadata":{"name":"n1","labels":null,"annotations":null},"spec":null,"status":{"allocatable":null}}'
    node = decode_node(raw)
    assert (node.labels, node.annotations, node.allocatable, node.unschedulable) == ({}, {}, {}, False)


def test_of_a_nodes_capacity_the_resources_of_device_plugins_are_kept():
    raw = b'{"metadata":{"name":"n1"},"status":{"capacity":{"cpu":"8","memory":"1Gi","nvidia.com/gpu":8}}}'
    assert decode_node(raw).capacity == {"nvidia.com/gpu": "8"}


def test_a_pod_keeps_its_constraints():
    terms = [
        {"matchExpressions": [{"key": "joulie.io/power-profile", "operator": "NotIn", "values": ["eco"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}},
    }
    pod = decode_pod(encode(make_pod("p1", "web", node="n1", affinity=affinity, node_selector={"k": "v"})))
    assert (pod.key, pod.node_name, pod.phase) == ("web/p1", "n1", "Running")
    assert pod.node_selector == {"k": "v"}
    expression = pod.required_terms[0].expressions[0]
    assert (expression.key, expression.operator, expression.values) == (
        "joulie.io/power-profile",
        SelectorOperator.NOT_IN,
        ("eco",),
    )
    assert pod.required_terms[0].fields == ()
    assert pod.required_terms[1].fields == (Requirement("metadata.name", SelectorOperator.IN, ("n1",)),)


def test_no_required_affinity_is_not_the_same_as_one_without_terms():
    assert decode_pod(encode(make_pod("p1", affinity={"nodeAffinity": {}}))).required_terms is None
    empty = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    assert decode_pod(encode(make_pod("p1", affinity=empty))).required_terms == ()


def test_quantities_stay_as_written_and_numbers_become_text():
    raw = make_pod("p1", cpu="250m")
    raw["spec"]["containers"][0]["resources"]["limits"] = {"cpu": 1, "memory": "1Gi"}
    raw["spec"]["overhead"] = {"cpu": "10m"}
    pod = decode_pod(encode(raw))
    assert pod.containers[0].requests == {"cpu": "250m"}
    assert pod.containers[0].limits == {"cpu": "1", "memory": "1Gi"}
    assert pod.overhead == {"cpu": "10m"}


def test_requests_of_the_whole_pod_are_kept_beside_those_of_its_containers():
    raw = make_pod("p1", cpu="250m")
    raw["spec"]["resources"] = {"requests": {"cpu": 2}, "limits": {"cpu": "4", "memory": "1Gi"}}
    pod = decode_pod(encode(raw))
    assert (pod.requests, pod.limits) == ({"cpu": "2"}, {"cpu": "4", "memory": "1Gi"})
    assert pod.containers[0].requests == {"cpu": "250m"}
    raw["spec"]["resources"] = None
    assert (decode_pod(encode(raw)).requests, decode_pod(encode(raw)).limits) == ({}, {})


def test_a_pods_claims_are_named_by_its_spec_or_once_they_are_made_by_its_status():
    raw = make_pod("p1")
    raw["spec"]["resourceClaims"] = [
        {"name": "given", "resourceClaimName": "shared-gpu"},
        {"name": "made", "resourceClaimTemplateName": "one-gpu"},
        {"name": "waiting", "resourceClaimTemplateName": "nic"},
    ]
    raw["status"]["resourceClaimStatuses"] = [{"name": "made", "resourceClaimName": "p1-made-x7k2p"}]
    assert decode_pod(encode(raw)).claims == (
        PodClaim("shared-gpu"),
        PodClaim("p1-made-x7k2p", "one-gpu"),
        PodClaim(None, "nic"),
    )
    raw["status"] = None
    assert decode_pod(encode(raw)).claims[1] == PodClaim(None, "one-gpu")


def test_an_init_container_that_restarts_always_is_a_sidecar():
    raw = make_pod("p1")
    raw["spec"]["initContainers"] = [{"name": "a", "restartPolicy": "Always"}, {"name": "b"}]
    assert [container.sidecar for container in decode_pod(encode(raw)).init_containers] == [True, False]


def test_what_kubectl_applied_last_is_not_kept():
    raw = make_pod("p1", annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "k": "v"})
    assert decode_pod(encode(raw)).annotations == {"k": "v"}


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b"{", b"Unauthorized", b'{"metadata":{"name":1}}', b"\xff"])
def test_an_invalid_object_is_refused(raw):
    for decode in (decode_node, decode_pod, decode_kind(NodeTwin)):
        with pytest.raises(DecodeError):
            decode(raw)


def test_a_custom_resource_comes_with_its_metadata():
    raw = {
        "metadata": {
            "name": "n1",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "labels": {"l": "v"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "n1", "profile": "eco", "draining": False, "cpu": {"packagePowerCapWatts": 72}},
    }
    profile = decode_kind(NodePowerProfile)(encode(raw))
    assert profile.name == "n1"
    assert (profile.metadata.uid, profile.metadata.resource_version, profile.metadata.generation) == ("u", "7", 3)
    assert profile.metadata.labels == {"l": "v"}
    assert profile.metadata.created_at == "2026-01-01T00:00:00Z"
    assert not profile.metadata.deleting
    assert profile.model.spec.cpu.package_power_cap_watts == 72


def test_a_custom_resource_that_does_not_fit_names_the_field():
    raw = {"metadata": {"name": "n1"}, "spec": {"nodeName": "n1", "profile": "turbo"}}
    with pytest.raises(DecodeError, match=r"n1: spec\.profile"):
        decode_kind(NodePowerProfile)(encode(raw))


def test_a_list_page_is_split_without_decoding_its_items():
    page = decode_page(b'{"metadata":{"resourceVersion":"9","continue":"t"},"items":[{"a":1},{"b":[]}]}')
    assert (page.metadata.resource_version, page.metadata.continue_) == ("9", "t")
    assert [bytes(item) for item in page.items] == [b'{"a":1}', b'{"b":[]}']
    assert decode_page(b'{"metadata":{"resourceVersion":"9"},"items":null}').items is None


_DEEP = b"[" * 20_000 + b"]" * 20_000


def test_a_page_with_an_item_that_no_decoder_takes_has_all_items() -> None:
    good = b'{"metadata":{"name":"a","resourceVersion":"1"}}'
    meta = b'{"managedFields":%s,"name":"b","namespace":"x","resourceVersion":"2"}' % _DEEP
    bad = b'{"metadata":%s,"spec":%s}' % (meta, _DEEP)
    page = decode_page(b'{"metadata":{"resourceVersion":"9","continue":"c"},"items":[%s,%s]}' % (bad, good))
    assert (page.metadata.resource_version, page.metadata.continue_) == ("9", "c")
    assert page.items is not None
    assert [bytes(each) for each in page.items] == [bad, good]
    identity = decode_identity(page.items[0])
    assert (identity.name, identity.namespace, identity.resource_version) == ("b", "x", "2")


@pytest.mark.parametrize("items", [b"null", b"[]"])
def test_a_deep_page_without_items_has_none(items: bytes) -> None:
    page = decode_page(b'{"deep":%s,"metadata":{"resourceVersion":"9"},"items":%s}' % (_DEEP, items))
    assert not page.items


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b'{"items":[]}', b'{"metadata":{},"items":{}}', _DEEP])
def test_what_is_no_list_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_page(raw)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"metadata":[]}', b'{"metadata":{"name":1}}', _DEEP])
def test_what_has_no_identity_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_identity(raw)
