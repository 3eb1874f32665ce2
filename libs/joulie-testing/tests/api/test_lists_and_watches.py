import asyncio
import time

import aiohttp
import pytest

from joulie_testing.api import FakeApiServer, Respond, make_node, make_pod


async def test_a_list_carries_the_revision_and_the_objects_in_order(fake_api, raw):
    fake_api.put_all([make_node("b"), make_node("a")])
    status, body = await raw("GET", "/api/v1/nodes")
    assert (status, body["kind"], body["metadata"]["resourceVersion"]) == (200, "NodeList", "2")
    assert [item["metadata"]["name"] for item in body["items"]] == ["a", "b"]


async def test_items_of_built_in_lists_come_without_kind_and_custom_ones_with_it(fake_api, raw, make_profile):
    fake_api.put_all([make_node("a"), make_profile("a")])
    _, nodes = await raw("GET", "/api/v1/nodes")
    _, profiles = await raw("GET", "/apis/joulie.io/v1alpha1/nodepowerprofiles")
    assert "kind" not in nodes["items"][0]
    assert profiles["items"][0]["kind"] == "NodePowerProfile"


async def test_pages_show_the_state_of_the_first_page(fake_api, raw):
    fake_api.put_all([make_node(f"n{i}") for i in range(5)])
    _, first = await raw("GET", "/api/v1/nodes", limit="2")
    fake_api.remove("Node", "n3")
    _, second = await raw("GET", "/api/v1/nodes", limit="2", **{"continue": first["metadata"]["continue"]})
    _, third = await raw("GET", "/api/v1/nodes", limit="2", **{"continue": second["metadata"]["continue"]})
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == ["n0", "n1", "n2", "n3", "n4"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {"5"}
    assert "continue" not in third["metadata"]


async def test_an_expired_continue_token_is_410(fake_api, raw):
    fake_api.put_all([make_node(f"n{i}") for i in range(3)])
    _, first = await raw("GET", "/api/v1/nodes", limit="2")
    fake_api.expire_continue_tokens()
    status, body = await raw("GET", "/api/v1/nodes", limit="2", **{"continue": first["metadata"]["continue"]})
    assert (status, body["reason"]) == (410, "Expired")


async def test_a_list_from_a_future_revision_is_refused_as_too_large(fake_api, raw):
    status, body = await raw("GET", "/api/v1/nodes", resourceVersion="99")
    assert (status, body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=a", ["n1"]),
        ("tier==a", ["n1"]),
        ("tier!=a", ["n2", "n3"]),
        ("tier in (a, b)", ["n1", "n2"]),
        ("tier notin (a,b)", ["n3"]),
        ("tier", ["n1", "n2"]),
        ("!tier", ["n3"]),
        ("tier,joulie.io/managed=true,tier!=b", ["n1"]),
    ],
)
async def test_label_selectors(fake_api, raw, selector, expected):
    fake_api.put_all([make_node("n1", labels={"tier": "a"}), make_node("n2", labels={"tier": "b"}), make_node("n3")])
    _, body = await raw("GET", "/api/v1/nodes", labelSelector=selector)
    assert [item["metadata"]["name"] for item in body["items"]] == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b"]),
        ("spec.nodeName!=", ["a", "c"]),
        ("status.phase!=Succeeded,spec.nodeName!=", ["a"]),
        ("metadata.name=b,metadata.namespace=default", ["b"]),
    ],
)
async def test_field_selectors(fake_api, raw, selector, expected):
    pods = [make_pod("a", node="n1"), make_pod("b"), make_pod("c", node="n2", phase="Succeeded")]
    fake_api.put_all(pods)
    _, body = await raw("GET", "/api/v1/pods", fieldSelector=selector)
    assert [item["metadata"]["name"] for item in body["items"]] == expected


@pytest.mark.parametrize("query", [{"fieldSelector": "spec.color=red"}, {"labelSelector": "a b"}])
async def test_selectors_a_real_server_refuses_are_400(raw, query):
    status, _ = await raw("GET", "/api/v1/pods", **query)
    assert status == 400


async def test_a_list_of_a_namespace_holds_only_its_objects(fake_api, raw):
    fake_api.put_all([make_pod("a", "one"), make_pod("b", "two")])
    _, body = await raw("GET", "/api/v1/namespaces/two/pods")
    assert [item["metadata"]["name"] for item in body["items"]] == ["b"]


async def test_a_watch_sends_every_later_change_once_and_in_order(fake_api, raw):
    fake_api.put(make_node("old"))
    async with raw.watch("/api/v1/nodes", resourceVersion="1") as watch:
        fake_api.put(make_node("n"))
        fake_api.patch("Node", "n", {"metadata": {"labels": {"x": "y"}}})
        fake_api.remove("Node", "n")
        events = [await watch.event() for _ in range(3)]
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [obj["metadata"]["resourceVersion"] for _, obj in events] == ["2", "3", "4"]
    assert events[1][1]["kind"] == "Node"


async def test_a_watch_without_a_revision_begins_with_everything_there_is(fake_api, raw):
    fake_api.put_all([make_node("a"), make_node("b")])
    async with raw.watch("/api/v1/nodes") as watch:
        assert await watch.named(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_the_end_of_initial_events_is_an_annotated_bookmark(fake_api, raw):
    fake_api.put(make_node("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with raw.watch("/api/v1/nodes", **query) as watch:
        await watch.event()
        kind, obj = await watch.event()
    assert (kind, obj["metadata"]["annotations"]) == ("BOOKMARK", {"k8s.io/initial-events-end": "true"})


async def test_objects_enter_and_leave_a_selected_watch_as_added_and_deleted(fake_api, raw):
    fake_api.put(make_node("n", managed=False))
    async with raw.watch("/api/v1/nodes", resourceVersion="1", labelSelector="joulie.io/managed=true") as watch:
        fake_api.patch("Node", "n", {"metadata": {"labels": {"joulie.io/managed": "true"}}})
        fake_api.patch("Node", "n", {"metadata": {"labels": {"joulie.io/managed": None}}})
        assert await watch.named(2) == [("ADDED", "n"), ("DELETED", "n")]


async def test_a_timed_watch_ends_with_a_bookmark_at_the_current_revision(fake_api, raw):
    fake_api.put(make_pod("p"))
    async with raw.watch("/api/v1/nodes", resourceVersion="1", timeoutSeconds="0.05", allowWatchBookmarks="true") as w:
        kind, obj = await w.event()
        assert (kind, obj["metadata"]["resourceVersion"]) == ("BOOKMARK", "1")
        assert await w.event() is None


async def test_bookmarks_come_at_the_interval(raw):
    async with (
        FakeApiServer(bookmark_interval_s=0.02) as server,
        aiohttp.ClientSession(server.url) as session,
        type(raw)(session).watch("/api/v1/nodes", resourceVersion="0", allowWatchBookmarks="true") as watch,
    ):
        assert [(await watch.event())[0] for _ in range(2)] == ["BOOKMARK", "BOOKMARK"]


async def test_a_watch_from_before_the_history_gets_a_410_event_and_ends(fake_api, raw):
    fake_api.put_all([make_node("a"), make_node("b")])
    fake_api.compact()
    async with raw.watch("/api/v1/nodes", resourceVersion="1") as watch:
        kind, status = await watch.event()
        assert (kind, status["code"]) == ("ERROR", 410)
        assert await watch.event() is None


async def test_history_is_bounded(raw):
    async with FakeApiServer(history=10) as server, aiohttp.ClientSession(server.url) as session:
        for index in range(50):
            server.put(make_node("n", labels={"i": str(index)}))
        client = type(raw)(session)
        async with client.watch("/api/v1/nodes", resourceVersion="5") as watch:
            assert (await watch.event())[0] == "ERROR"
        async with client.watch("/api/v1/nodes", resourceVersion="49") as watch:
            assert (await watch.event())[1]["metadata"]["resourceVersion"] == "50"


async def test_a_watch_survives_while_the_history_behind_it_is_forgotten(fake_api, raw):
    async with raw.watch("/api/v1/nodes", resourceVersion="0") as watch:
        fake_api.put(make_node("a"))
        assert await watch.named(1) == [("ADDED", "a")]
        fake_api.compact()
        fake_api.put(make_node("b"))
        assert await watch.named(1) == [("ADDED", "b")]


async def test_a_stopped_server_comes_back_on_the_same_port_with_its_objects(fake_api, raw):
    fake_api.put(make_node("a"))
    url = fake_api.url
    await fake_api.stop()
    with pytest.raises(aiohttp.ClientConnectionError):
        await raw("GET", "/api/v1/nodes")
    await fake_api.start()
    assert fake_api.url == url
    assert (await raw("GET", "/api/v1/nodes/a"))[0] == 200


async def test_it_holds_five_thousand_nodes_and_fifty_thousand_pods(fake_api, raw):
    fake_api.put_all(make_node(f"n{i}") for i in range(5_000))
    fake_api.put_all(make_pod(f"p{i}", node=f"n{i % 5000}", cpu="500m") for i in range(50_000))
    start = time.perf_counter()
    async with raw.session.get("/api/v1/pods") as response:
        body = await response.read()
    async with raw.watch("/api/v1/nodes", resourceVersion=str(fake_api.resource_version)) as watch:
        for index in range(5_000):
            fake_api.patch("Node", f"n{index}", {"metadata": {"labels": {"x": "1"}}})
        for _ in range(5_000):
            await watch.line()
    # Generous: a loaded machine needs about a tenth of it. It fails when the cost per object grows with their number.
    assert time.perf_counter() - start < 20
    assert body.count(b'"uid"') == 50_000


async def test_wait_for_returns_when_a_change_makes_the_condition_true(fake_api):
    async with asyncio.TaskGroup() as group:
        group.create_task(fake_api.wait_for(lambda: fake_api.count("Node") == 1))
        await asyncio.sleep(0)
        fake_api.put(make_node("a"))


async def test_wait_for_times_out(fake_api):
    with pytest.raises(TimeoutError):
        await fake_api.wait_for(lambda: False, timeout_s=0.01)


async def test_a_served_group_is_discovered_and_another_is_not_found(fake_api, raw):
    status, found = await raw("GET", "/apis/joulie.io/v1alpha1")
    assert status == 200
    assert "nodetwins" in {each["name"] for each in found["resources"]}
    assert (await raw("GET", "/apis/joulie.io/v9"))[0] == 404


async def test_a_request_to_a_service_is_answered_as_scripted(fake_api, raw):
    fake_api.faults.add(Respond(200, body=b'{"a":1}'), verb="create", path="/proxy/debug")
    path = "/api/v1/namespaces/x/services/http:s:80/proxy/debug/explain"
    assert await raw("POST", path, {"b": 2}) == (200, {"a": 1})
    assert fake_api.requests[-1].subresource == "proxy"
