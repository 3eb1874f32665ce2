"""The page over real sockets."""

import asyncio
import json
import re

import aiohttp
import pytest
from services.operator.tests.ui.invented import devices, fill
from yarl import URL

from joulie_api import http_server
from joulie_operator.ui.access import SECURITY_HEADERS
from joulie_operator.ui.feed import MOST_PAGES
from joulie_operator.ui.server import page_files


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as found:
        yield found


@pytest.fixture
async def url(world):
    async with world.served() as found:
        yield found


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - the condition is a plain function
            await asyncio.sleep(0.005)


async def events(answer):
    """The events of an open stream, as name and content."""
    while True:
        async with asyncio.timeout(10):
            block = (await answer.content.readuntil(b"\n\n")).decode()
        if block.startswith("event: "):
            name, data = re.fullmatch(r"event: (\w+)\ndata: (.*)\n\n", block).groups()
            yield name, json.loads(data)


async def test_every_file_is_served_with_its_type(session, url):
    for name in page_files():
        async with session.get(f"{url}/ui/{name}") as answer:
            assert answer.status == 200
            assert await answer.read() == page_files()[name]
            assert answer.content_type in {"text/html", "text/css", "text/javascript", "image/svg+xml"}


@pytest.mark.parametrize("path", ["/", "/ui", "/ui/"])
async def test_the_page_is_found_from_the_shorter_addresses(session, url, path):
    async with session.get(f"{url}{path}") as answer:
        assert str(answer.url) == f"{url}/ui/"
        assert answer.content_type == "text/html"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ui/", 200),
        ("GET", "/ui/absent", 404),
        ("GET", "/metrics", 404),
        ("GET", "/ui/%2e%2e/app.py", 404),
        ("GET", "/ui/..%2fapp.py", 404),
        ("POST", "/ui/", 405),
        ("DELETE", "/ui/events", 405),
        ("HEAD", "/ui/events", 404),
        ("GET", "/ui/devices/n1", 200),
        ("GET", "/ui/devices/", 404),
        ("GET", "/ui/devices/a/b", 404),
        ("POST", "/ui/devices/n1", 405),
    ],
)
async def test_every_answer_has_the_security_headers(session, url, method, path, status):
    async with session.request(method, URL(url + path, encoded=True)) as answer:
        assert answer.status == status
        assert SECURITY_HEADERS.items() <= dict(answer.headers).items()
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_name_that_may_be_pointed_here_is_refused_also_for_events(session, url, world):
    for path in ("/ui/", "/ui/events", "/ui/devices/n1"):
        async with session.get(f"{url}{path}", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403
    assert world.feed.open_pages == 0


async def test_a_configured_name_is_answered(session, world):
    async with (
        world.served(hosts=["Power.Example"]) as url,
        session.get(f"{url}/ui/", headers={"Host": "power.example"}) as answer,
    ):
        assert answer.status == 200


async def test_the_stream_brings_the_nodes_and_then_their_changes(session, url, world):
    fill(world, 3)
    async with session.get(f"{url}/ui/events") as answer:
        assert answer.content_type == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        stream = events(answer)
        names = [await anext(stream) for _ in range(4)]
        assert [name for name, _ in names] == ["start", "state", "history", "nodes"]
        assert [tile[0] for tile in names[3][1]["tiles"]] == ["node-0", "node-1", "node-2"]
        world.put_twin("node-1", watts=77)
        async for name, content in stream:
            if name == "nodes":
                assert [(tile[0], tile[4]) for tile in content["tiles"]] == [("node-1", 77)]
                return


async def test_a_page_that_reconnects_starts_again_with_everything(session, url, world):
    fill(world, 3)
    for _ in range(2):
        async with session.get(f"{url}/ui/events", headers={"Last-Event-ID": "7"}) as answer:
            seen = {}
            async for name, content in events(answer):
                seen[name] = content
                if name == "nodes":
                    break
            assert len(seen["nodes"]["tiles"]) == 3
            assert "start" in seen
        await until(lambda: world.feed.open_pages == 0)


async def test_a_stream_outlives_the_time_limit_of_requests(session, url, world, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.3)
    loop = asyncio.get_running_loop()
    async with session.get(f"{url}/ui/events") as answer:
        until_s = loop.time() + 0.5
        async for _ in events(answer):
            if loop.time() > until_s:
                return


async def test_pages_beyond_the_limit_are_refused_until_one_closes(session, url, world):
    open_pages = [await session.get(f"{url}/ui/events") for _ in range(MOST_PAGES)]
    async with session.get(f"{url}/ui/events") as answer:
        assert answer.status == 503
        assert answer.headers["Retry-After"] == "10"
    open_pages.pop().close()
    await until(lambda: world.feed.open_pages < MOST_PAGES)
    async with session.get(f"{url}/ui/events") as answer:
        assert answer.status == 200
    for each in open_pages:
        each.close()


async def test_a_client_that_does_not_read_is_dropped_and_the_others_are_served(session, world):
    fill(world, 200)
    async with world.served(backlog_bytes=1 << 20) as url:
        _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=1024)
        writer.write(b"GET /ui/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: world.feed.open_pages == 1)
        async with session.get(f"{url}/ui/events") as answer:
            watts = 0
            async for name, _ in events(answer):
                if name != "state":
                    continue
                if watts and world.feed.open_pages == 1:
                    break
                watts += 1
                for number in range(200):
                    world.put_twin(f"node-{number}", watts=watts)
        writer.close()


async def test_closing_the_server_ends_open_streams_at_once(session, world):
    async with world.served() as url:
        answer = await session.get(f"{url}/ui/events")
    async with asyncio.timeout(30):
        await answer.content.read()


async def test_the_gpus_of_a_node_are_answered_as_its_agent_reports_them(session, url, world):
    holder = {"namespace": "ml", "pod": "train-0", "container": "main", "workloadClass": "standard"}
    limit = {"reason": "ClockLimited", "clockMhz": 1282, "now": {"limited": True, "limitMhz": 1300}}
    world.devices["n1"] = devices(
        {"heldAs": "standard", "reason": "AllStandard", "holders": [holder], "holderCount": 1, "classLimit": limit}
    )
    async with session.get(f"{url}/ui/devices/n1") as answer:
        assert answer.content_type == "application/json"
        assert answer.headers["Cache-Control"] == "no-store"
        (found,) = (await answer.json())["devices"]
    assert (found["heldAs"], found["holders"], found["classLimit"]["clockMhz"]) == ("standard", [holder], 1282)
    assert found["classLimit"]["now"]["limitMhz"] == 1300
    assert "watts" not in found, "not known, and not zero"


@pytest.mark.parametrize("name", ["n2", "%3Cb%3E", "x" * 4000])
async def test_a_node_without_a_report_of_gpus_has_none_that_are_known(session, url, world, name):
    world.devices["n1"] = devices({})
    async with session.get(URL(f"{url}/ui/devices/{name}", encoded=True)) as answer:
        assert await answer.json() == {"devices": None}
