"""Counts of requests from an audit log."""

import json

import msgspec
import pytest

from joulie_devcluster.control_plane.audit import (
    AuditLog,
    RequestKind,
    UserRequest,
    audit_policy,
    count_requests,
    read_requests,
)


def event(verb="patch", stage="ResponseComplete", agent="joulie-operator/0.1.0", **reference):
    return json.dumps({"stage": stage, "verb": verb, "userAgent": agent, "objectRef": reference}).encode()


def test_requests_are_counted_by_user_agent_verb_and_resource():
    counts = count_requests(
        [
            event(resource="nodetwins", subresource="status"),
            event(resource="nodetwins", subresource="status"),
            event(resource="nodes"),
            event(resource="nodes", agent="joulie-agent/0.2.0"),
        ]
    )
    assert counts == {
        RequestKind("joulie-operator", "patch", "nodetwins/status"): 2,
        RequestKind("joulie-operator", "patch", "nodes"): 1,
        RequestKind("joulie-agent", "patch", "nodes"): 1,
    }


def test_a_watch_counts_once_when_it_starts():
    counts = count_requests([event("watch", "ResponseStarted"), event("watch", "ResponseComplete")])
    assert counts == {RequestKind("joulie-operator", "watch", ""): 1}


def test_a_request_whose_answer_has_only_begun_is_not_counted_yet():
    assert not count_requests([event("get", "ResponseStarted")])


def test_each_request_is_taken_once_and_a_line_that_is_being_written_later(tmp_path):
    path = tmp_path / "audit.log"
    path.write_bytes(event() + b"\n" + event("get")[:10])
    log = AuditLog(path)
    assert log.take() == {RequestKind("joulie-operator", "patch", ""): 1}
    path.write_bytes(event() + b"\n" + event("get") + b"\n")
    assert log.take() == {RequestKind("joulie-operator", "get", ""): 1}


def test_a_line_that_is_no_event_is_an_error():
    with pytest.raises(msgspec.MsgspecError):
        count_requests([b"{}"])


def test_only_the_requests_of_the_given_users_are_logged():
    first, last = audit_policy(["joulie-agent"])["rules"]
    assert first == {"level": "Metadata", "users": ["joulie-agent"]}
    assert last == {"level": "None"}


def test_groups_of_users_are_logged_by_a_rule_of_their_own():
    group = "system:serviceaccounts:joulie-system"
    rules = audit_policy(["joulie-agent"], [group])["rules"]
    assert rules[1:] == [{"level": "Metadata", "userGroups": [group]}, {"level": "None"}]
    assert audit_policy([], [group])["rules"] == rules[1:]


def answered(code):
    reference = {"resource": "nodetwins", "subresource": "status", "apiGroup": "joulie.io"}
    user = {"user": {"username": "joulie-operator"}, "userAgent": "joulie-operator/0.1.0", "objectRef": reference}
    return json.dumps({"stage": "ResponseComplete", "verb": "patch", "responseStatus": {"code": code}, **user}).encode()


def test_the_different_requests_of_a_log_and_of_its_closed_parts_are_read(tmp_path):
    (tmp_path / "audit.log").write_bytes(answered(200) + b"\n" + answered(200) + b"\n" + answered(403)[:20])
    (tmp_path / "audit-2026-01-01T00-00-00.000.log").write_bytes(answered(403) + b"\n")
    (tmp_path / "kwok.log").write_bytes(b"not an event\n")

    def request(code):
        return UserRequest("joulie-operator", "joulie-operator", "patch", "joulie.io", "nodetwins/status", code)

    assert read_requests(tmp_path / "audit.log") == {request(200), request(403)}


def test_a_request_about_no_resource_has_neither_group_nor_resource(tmp_path):
    (tmp_path / "audit.log").write_bytes(b'{"stage": "ResponseComplete", "verb": "get"}\n')
    assert read_requests(tmp_path / "audit.log") == {UserRequest("", "", "get", "", "", 0)}
