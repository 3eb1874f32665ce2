"""How a body is received: at most so many bytes, alone and together with others, and what a refusal says."""

import asyncio

import msgspec
import pytest
from aiohttp import web

from joulie_api.claims import no_claims
from joulie_extender import bodies as under_test
from joulie_extender.bodies import Bodies, BodyLimits, LoopPauses
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.requests import BadRequestError, TooLargeError
from joulie_testing.api import make_pod

MIB = 1 << 20
LIMIT = MIB // 2


def body_of(size):
    """A request with names, of exactly so many bytes."""
    empty = msgspec.json.encode({"Pod": {"metadata": {"annotations": {"a": ""}}}, "NodeNames": ["n"]})
    return empty.replace(b'"a":""', b'"a":"' + b"x" * (size - len(empty)) + b'"')


async def parts_of(body, size=1 << 16):
    for at in range(0, len(body), size):
        yield body[at : at + size]


async def post(extender, data, **headers):
    async with extender.http.post("/prioritize", data=data, headers=headers) as answer:
        return answer.status, answer.headers, await answer.text()


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_of_as_many_bytes_as_one_may_have_is_read(announced, unwatched):
    body = body_of(LIMIT)
    assert (await post(unwatched, body if announced else parts_of(body)))[0] == 200
    assert unwatched.budget.held_bytes == 0


@pytest.mark.parametrize("announced", [True, False])
async def test_a_byte_more_is_refused_with_both_figures_and_the_connection_is_closed(announced, unwatched):
    body = body_of(LIMIT + 1)
    status, headers, text = await post(unwatched, body if announced else parts_of(body))
    assert (status, headers["Connection"]) == (413, "close")
    assert text == (
        f"the request has {LIMIT + 1} bytes, at most {LIMIT} are accepted: an eighth of the container's memory limit\n"
    )
    assert unwatched.budget.held_bytes == 0


async def test_what_the_budget_does_not_have_is_refused_with_when_to_come_back_and_the_connection_is_closed(unwatched):
    body = body_of(1000)
    assert unwatched.budget.take(MIB - 999)
    status, headers, text = await post(unwatched, body)
    assert (status, headers["Retry-After"], headers["Connection"]) == (429, "1", "close")
    assert text == "other requests are too large, try again\n"
    assert unwatched.budget.held_bytes == MIB - 999
    unwatched.budget.release(1)
    assert (await post(unwatched, body))[0] == 200
    assert unwatched.budget.held_bytes == MIB - 1000


class Request:
    """The part of a request that is received."""

    def __init__(self, *parts, announced=None):
        self.content_length = announced
        self.content = self
        self.parts = parts
        self.read = 0

    async def iter_any(self):
        for part in self.parts:
            self.read += 1
            yield part


async def test_what_is_announced_as_too_large_is_refused_before_any_of_it_has_come():
    request = Request(b"ab", announced=6)
    with pytest.raises(web.HTTPRequestEntityTooLarge, match="Request Entity Too Large") as refused:
        async with Bodies(5, ByteBudget(10)).received(request):
            pytest.fail("received")
    assert (request.read, refused.value.text.partition(",")[0]) == (0, "the request has 6 bytes")


async def test_nothing_of_no_announced_size_is_received_where_nothing_is_accepted():
    async with Bodies(0, ByteBudget(10)).received(Request()) as body:
        assert bytes(body) == b""


async def test_a_body_counts_until_its_use_ends_however_that_is():
    budget = ByteBudget(10)
    bodies = Bodies(5, budget)
    async with bodies.received(Request(b"ab", b"cde")) as body:
        assert (bytes(body), budget.held_bytes) == (b"abcde", 5)
    assert budget.held_bytes == 0
    with pytest.raises(ZeroDivisionError):
        async with bodies.received(Request(b"ab")):
            raise ZeroDivisionError
    assert budget.held_bytes == 0


@pytest.mark.parametrize(
    ("memory", "one", "together"),
    [(None, 128 * MIB, 256 * MIB), (1 << 30, 128 * MIB, 256 * MIB), (256 * MIB + 7, 32 * MIB, 64 * MIB + 1)],
)
def test_limits_are_an_eighth_and_a_quarter_of_the_containers_memory_in_whole_bytes(memory, one, together):
    limits = BodyLimits.of_memory(memory)
    assert limits == BodyLimits(one_bytes=one, all_bytes=together)
    assert (type(limits.one_bytes), type(limits.all_bytes)) == (int, int)


def whole(*nodes, **others):
    items = {"metadata": {}, "items": list(nodes)}
    return msgspec.json.encode({"Pod": make_pod("p", cpu=2), "Nodes": items, "NodeNames": None} | others)


def named(name, **metadata):
    return {"metadata": {"name": name, **metadata}}


async def read(body, claimed_gpus=no_claims):
    return await Bodies(1 << 30, ByteBudget(1 << 30)).read(body, claimed_gpus)


@pytest.mark.parametrize("spaced", [False, True], ids=["as kube-scheduler writes it", "in another form"])
async def test_the_names_of_full_nodes_become_those_of_the_request(spaced):
    body = whole(named("b"), named("a"))
    query, nodes = await read(body.replace(b'"items":', b'"items" : ') if spaced else body)
    assert (query.names, query.demand.cpu_cores) == (["b", "a"], 2)
    assert [(node.name, bytes(node.raw)) for node in nodes] == [
        ("b", b'{"metadata":{"name":"b"}}'),
        ("a", b'{"metadata":{"name":"a"}}'),
    ]


async def test_names_alone_are_read_without_nodes():
    query, nodes = await read(whole(Nodes=None, NodeNames=["b", "a"]))
    assert (query.names, nodes) == (["b", "a"], None)


@pytest.mark.parametrize("spaced", [False, True])
async def test_claims_are_looked_up_however_the_body_is_written(spaced):
    body = whole(named("a"), Pod=make_pod("p", cpu=1) | {"spec": {"resourceClaims": [{"name": "c"}]}})
    query, _ = await read(body.replace(b'"items":', b'"items" : ') if spaced else body, lambda _pod: 3.0)
    assert query.demand.gpus == 3


async def test_a_node_without_a_name_is_refused_on_the_whole_body(monkeypatch):
    tried = []
    original = under_test.read_query
    monkeypatch.setattr(under_test, "read_query", lambda *of: tried.append(True) or original(*of))
    with pytest.raises(BadRequestError):
        await read(whole(named("a"), {"metadata": {}}))
    assert tried == [True]


async def test_a_node_that_is_too_large_is_refused_without_reading_the_whole_body(monkeypatch):
    monkeypatch.setattr(under_test, "read_query", lambda *_: pytest.fail("read as a whole"))
    with pytest.raises(TooLargeError):
        await read(whole(named("a", x="y" * 4 * MIB), named("b")))


async def turns(sizes):
    """After how many of these nodes others get the event loop."""
    pace, done, seen = LoopPauses(), [], []

    async def work():
        for size in sizes:
            await pace.add(*size)
            done.append(size)

    task = asyncio.ensure_future(work())
    while not task.done():
        await asyncio.sleep(0)
        seen.append(len(done))
    await task
    return sorted(set(seen) - {len(sizes)})


@pytest.mark.parametrize(
    ("sizes", "pauses"),
    [
        ([()] * 300, [127, 255]),
        ([(8192,)] * 130, [127]),
        ([(8193,)] * 130, [127]),
        ([(MIB - 1,), (1,), (MIB - 1,), (1,), (1,)], [1, 3]),
        ([(MIB,), (MIB,), (1,)], [0, 1]),
        ([()] * 127, []),
    ],
    ids=["128 nodes", "a mebibyte of 128 nodes", "the nodes first", "the last byte", "a mebibyte each", "a node less"],
)
async def test_others_get_the_event_loop_after_128_nodes_or_a_mebibyte(sizes, pauses):
    assert await turns(sizes) == pauses
