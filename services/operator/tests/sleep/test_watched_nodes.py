"""What is read of Nodes: taints, readiness, what is said about sleep, and maintenance."""

import json

import pytest
from services.operator.tests.sleep.sleep_objects import MAINTENANCE, OWN_TAINT, seen_node

from joulie_api.errors import DecodeError
from joulie_api.wire.nodes import WireTaint
from joulie_core.sleep.model import NodeTaint
from joulie_operator.sleep.nodes import read_node
from joulie_testing.api import make_node


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_only_where_its_kubelet_says_so(status, ready):
    conditions = [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": status}]
    assert seen_node(conditions=conditions).ready is ready


def test_the_boot_that_a_kubelet_is_of_is_read_so_that_it_can_be_stored():
    assert seen_node(boot_id="3f5a\x1b").boot_id == "3f5a\N{REPLACEMENT CHARACTER}"
    assert seen_node(boot_id="a" * 65).boot_id == "a" * 63 + "\N{HORIZONTAL ELLIPSIS}"


def test_the_reason_of_a_maintenance_is_shown_on_one_line_of_bounded_length():
    assert seen_node().maintenance is None
    assert seen_node(annotations={MAINTENANCE: "new fan\n(Ann)"}).maintenance == "new fan (Ann)"
    long = seen_node(annotations={MAINTENANCE: "x" * 257}).maintenance
    assert long == "x" * 255 + "\N{HORIZONTAL ELLIPSIS}"


def test_a_node_without_conditions_is_not_known_to_be_ready_and_says_nothing_about_sleep():
    found = seen_node()
    assert (found.ready, found.sleep_reason, found.cordoned) == (None, "", False)


def test_the_state_that_the_nodes_condition_says_is_read():
    condition = {"type": "joulie.io/Asleep", "reason": "Draining", "message": "2 pods are left"}
    found = seen_node(conditions=[condition])
    assert (found.sleep_reason, found.sleep_message) == ("Draining", "2 pods are left")


def test_taints_are_read_whole_as_they_are_written_back():
    taint = {"key": "team", "value": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    found = seen_node(taints=[taint, OWN_TAINT])
    assert found.taints[0] == WireTaint("team", "NoExecute", "a", "2026-01-01T00:00:00Z")
    assert found.taints[1] == WireTaint("joulie.io/asleep", "NoSchedule")
    assert found.cordoned is True


@pytest.mark.parametrize("own", [[], [OWN_TAINT]])
def test_taints_that_come_and_go_with_sleep_do_not_last(own):
    passing = [
        {"key": f"node.kubernetes.io/{each}", "effect": "NoExecute"}
        for each in ("not-ready", "unreachable", "unschedulable")
    ]
    bare = {"key": "bare", "effect": "NoSchedule"}
    named = {"key": "team", "value": "a", "effect": "NoExecute"}
    found = seen_node(taints=[*own, *passing, bare, named])
    assert found.lasting_taints == (NodeTaint("bare", "", "NoSchedule"), NodeTaint("team", "a", "NoExecute"))


def test_a_node_without_spec_and_status_is_read():
    body = make_node("n1")
    del body["spec"], body["status"]
    found = read_node(json.dumps(body).encode())
    assert (found.node.name, found.taints, found.ready) == ("n1", (), None)


def test_a_node_with_the_taints_of_others_only_is_not_cordoned():
    assert seen_node(taints=[{"key": "team", "effect": "NoSchedule"}]).cordoned is False


def test_a_node_that_says_nothing_has_no_taint_and_no_condition_and_is_of_no_known_boot():
    found = read_node(json.dumps({"metadata": {"name": "n1"}, "spec": {}, "status": {"nodeInfo": {}}}).encode())
    assert (found.taints, found.ready, found.cordoned, found.boot_id) == ((), None, False, "")
    assert (found.sleep_reason, found.sleep_message) == ("", "")


def test_a_taint_without_key_and_effect_is_written_back_as_it_is():
    assert seen_node(taints=[{}]).taints == (WireTaint("", ""),)


def test_a_condition_about_sleep_without_reason_and_message_says_nothing():
    found = seen_node(conditions=[{"type": "joulie.io/Asleep", "status": "False"}])
    assert (found.sleep_reason, found.sleep_message) == ("", "")


@pytest.mark.parametrize("raw", [b"[]", b"{", b'{"metadata": {"name": "n1"}, "spec": {"taints": 1}}', b"[" * 5000])
def test_what_is_no_node_is_refused(raw):
    with pytest.raises(DecodeError, match=r"^not a Node: "):
        read_node(raw)
