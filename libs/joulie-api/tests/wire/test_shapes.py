"""Shapes that several modules read: owners, conditions, the state of a Node, Secrets."""

import json

import msgspec
import pytest

from joulie_api.errors import DecodeError
from joulie_api.wire.metadata import WireCondition, WireConditions, WireOwner, controller_of
from joulie_api.wire.nodes import WireTaint, decode_node, decode_node_state
from joulie_api.wire.pods import WirePorts
from joulie_api.wire.secrets import decode_secret


def encode(obj):
    return json.dumps(obj).encode()


def conditions(*each):
    return msgspec.json.decode(encode({"conditions": list(each)}), type=WireConditions)


def test_the_controller_is_the_owner_that_says_so():
    owners = [
        {"apiVersion": "batch/v1", "kind": "CronJob", "name": "a", "uid": "1"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b", "uid": "2", "controller": True},
    ]
    found = controller_of(msgspec.json.decode(encode(owners), type=list[WireOwner]))
    assert found == WireOwner("ReplicaSet", controller=True, api_version="apps/v1", name="b", uid="2")


@pytest.mark.parametrize("owners", [None, [], [WireOwner("ReplicaSet")]])
def test_an_object_without_a_controlling_owner_has_no_controller(owners):
    assert controller_of(owners) is None


def test_a_condition_is_found_by_its_type():
    # Kubernetes writes null for a time that is not set.
    ready = {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": None}
    found = conditions({"type": "Disk", "status": "True"}, ready)
    assert found.find("Ready") == WireCondition("Ready", "True", "r", "m", None)
    assert found.find("ready") is None


@pytest.mark.parametrize(("status", "holds"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_condition_holds_only_where_it_is_true(status, holds):
    assert conditions({"type": "Ready", "status": status}).holds("Ready") is holds


@pytest.mark.parametrize("raw", [b"{}", b'{"conditions": null}', b'{"conditions": []}'])
def test_of_a_status_without_conditions_nothing_is_known(raw):
    found = msgspec.json.decode(raw, type=WireConditions)
    assert (found.find("Ready"), found.holds("Ready")) == (None, None)


def test_the_state_of_a_node_is_its_taints_and_what_its_kubelet_reports():
    taint = {"key": "team", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": "b"}}
    state = decode_node_state(encode({"metadata": {}, "spec": {"taints": [taint]}, "status": status}))
    assert list(state.taints) == [WireTaint("team", "NoExecute", "a", "2026-01-01T00:00:00Z")]
    assert (state.report.boot_id, state.report.holds("Ready")) == ("b", True)
    assert msgspec.to_builtins(state.taints) == [taint]


@pytest.mark.parametrize(
    ("status", "boot_id"), [({"nodeInfo": {"bootID": "b"}}, "b"), ({"nodeInfo": None}, ""), ({}, ""), (None, "")]
)
def test_a_node_has_the_boot_that_its_kubelet_reports(status, boot_id):
    assert decode_node(encode({"metadata": {"name": "n1"}, "status": status})).boot_id == boot_id


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"spec": None, "status": None},
        {"spec": {"taints": None}, "status": {"conditions": None, "nodeInfo": None}},
        {"spec": {}, "status": {"nodeInfo": {}}},
    ],
)
def test_a_node_that_says_nothing_has_no_taints_no_conditions_and_no_known_boot(body):
    state = decode_node_state(encode(body))
    assert (list(state.taints), state.report.boot_id, state.report.find("Ready")) == ([], "", None)


@pytest.mark.parametrize("raw", [b"[]", b'{"spec": {"taints": {}}}', b"[" * 5000])
def test_what_has_no_state_of_a_node_is_refused(raw):
    with pytest.raises(DecodeError, match=r"^not a Node: "):
        decode_node_state(raw)


def test_ports_that_are_none_of_the_node_are_not_written_out_again():
    ports = msgspec.json.decode(b'{"name": "c", "ports": [{"containerPort": 80}, {"hostPort": 9}]}', type=WirePorts)
    assert msgspec.json.encode(ports) == b'{"ports":[{},{"hostPort":9}]}'


@pytest.mark.parametrize(("raw", "entries"), [(b'{"data": {"a": "Yg=="}}', {"a": "Yg=="}), (b'{"data": null}', {})])
def test_the_entries_of_a_secret_stay_as_they_are_written(raw, entries):
    assert decode_secret(raw) == entries


@pytest.mark.parametrize("raw", [b"[]", b'{"data": {"a": 1}}'])
def test_what_is_no_secret_is_refused(raw):
    with pytest.raises(DecodeError, match=r"^not a Secret: "):
        decode_secret(raw)
