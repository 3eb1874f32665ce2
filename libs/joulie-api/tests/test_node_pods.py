"""Which pods of a node would be lost with its power."""

import json

import pytest

from joulie_api.errors import DecodeError, ServerError
from joulie_api.node_pods import ends_with_node, pod_in_the_way
from joulie_testing.api import Respond, make_pod

MIRROR = {"kubernetes.io/config.mirror": "abc"}


class Lists:
    """Answers with the given pages, and notes what was asked for."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.made = []

    async def list_page(self, res, **query):
        self.made.append((res.full_name, query))
        return self.pages.pop(0)


def page(*metadata, token=""):
    return json.dumps({"metadata": {"continue": token}, "items": [{"metadata": each} for each in metadata]}).encode()


def meta(name="p", *owners, **more):
    references = [{"kind": kind, "name": "o", "controller": controller} for kind, controller in owners]
    return {"name": name, "namespace": "a", "ownerReferences": references, **more}


@pytest.mark.parametrize(
    ("annotations", "controller", "ends"),
    [({}, "DaemonSet", True), ({}, "Node", True), (MIRROR, "", True), ({}, "", False), ({}, "ReplicaSet", False)],
)
def test_static_pods_and_those_of_daemonsets_end_with_their_node(annotations, controller, ends):
    assert ends_with_node(annotations, controller) is ends


async def test_the_present_pods_of_the_node_are_asked_for_without_their_specs(fake_api, fake_client):
    fake_api.put(make_pod("work", node="n1", namespace="a"))
    fake_api.put(make_pod("elsewhere", node="n2", namespace="a"))
    assert await pod_in_the_way(fake_client, "n1") == "a/work"
    request = fake_api.requests[-1]
    assert (request.verb, request.path) == ("list", "/api/v1/pods")
    assert request.query["fieldSelector"] == "spec.nodeName=n1,status.phase!=Succeeded,status.phase!=Failed"
    assert "resourceVersion" not in request.query  # which would permit the answer of a cache
    assert "as=PartialObjectMetadataList" in request.accept


async def test_a_pod_that_has_ended_and_one_of_another_node_are_not_in_the_way(fake_api, fake_client):
    for phase in ("Succeeded", "Failed"):
        fake_api.put(make_pod(phase.lower(), node="n1", phase=phase))
    fake_api.put(make_pod("elsewhere", node="n2"))
    assert await pod_in_the_way(fake_client, "n1") is None


async def test_a_pod_that_is_being_deleted_is_in_the_way():
    ending = meta("p", ("ReplicaSet", True), deletionTimestamp="2026-01-01T00:00:00Z")
    assert await pod_in_the_way(Lists(page(ending)), "n1") == "a/p"


async def test_an_owner_that_is_not_the_controller_does_not_count():
    assert await pod_in_the_way(Lists(page(meta("p", ("DaemonSet", False)))), "n1") == "a/p"
    assert await pod_in_the_way(Lists(page(meta("p", ("Node", False), ("DaemonSet", True)))), "n1") is None


async def test_every_page_is_looked_at_until_one_has_a_pod():
    own = meta("own", ("DaemonSet", True))
    lists = Lists(page(own, token="x"), page(own, token="y"), page(meta("work")))
    assert await pod_in_the_way(lists, "n1") == "a/work"
    assert [query["continue_token"] for _, query in lists.made] == ["", "x", "y"]


async def test_a_list_that_does_not_end_is_not_an_empty_node():
    lists = Lists(*[page(token="more")] * 9)
    assert "more than 8 pages" in await pod_in_the_way(lists, "n1")
    assert len(lists.made) == 8


@pytest.mark.parametrize("poison", [b"[]", b'{"metadata": {"annotations": ' + b"[" * 5000 + b"]" * 5000 + b"}}"])
async def test_a_pod_that_cannot_be_read_is_in_the_way(poison):
    assert await pod_in_the_way(Lists(b'{"metadata": {}, "items": [' + poison + b"]}"), "n1") is not None


async def test_names_are_made_printable_and_bounded():
    found = await pod_in_the_way(Lists(page(meta("\x1b[2J" + "x" * 1000))), "n1")
    assert found.isprintable()
    assert len(found) <= 317


async def test_an_answer_that_is_not_a_list_or_none_at_all_is_an_error(fake_api, fake_client):
    with pytest.raises(DecodeError):
        await pod_in_the_way(Lists(b"<html>"), "n1")
    fake_api.faults.add(Respond(503), verb="list")
    with pytest.raises(ServerError):
        await pod_in_the_way(fake_client, "n1")
