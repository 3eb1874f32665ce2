"""Counts of requests from an audit log."""

import json

import msgspec
import pytest

from joulie_devcluster.control_plane.audit import AuditLog, RequestKind, audit_policy, count_requests


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
