"""Whatever is posted, the answer is never a 5xx."""

import asyncio
import gzip
from contextlib import suppress
from dataclasses import replace
from io import BytesIO

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from joulie_api.claims import no_claims
from joulie_extender import bodies
from joulie_extender.bodies import Bodies, BodyLimits
from joulie_extender.byte_budget import ByteBudget
from joulie_extender.requests import (
    MAX_CANDIDATES,
    MAX_NAMES_BODY_BYTES,
    MAX_OBJECT_BYTES,
    BadRequestError,
    read_object,
    read_query,
    split_nodes,
)
from joulie_testing.api import claiming, make_node, make_pod

POD = make_pod()
PATHS = ["/filter", "/prioritize", "/debug/explain"]
MALFORMED = {
    "nothing": b"",
    "no JSON": b"{",
    "an array": b"[]",
    "null": b"null",
    "a number": b"1",
    "no pod": {"NodeNames": ["a"]},
    "a null pod": {"Pod": None, "NodeNames": ["a"]},
    "a pod that is a string": {"Pod": "p", "NodeNames": ["a"]},
    "names that are numbers": {"Pod": POD, "NodeNames": [1]},
    "names that are one string": {"Pod": POD, "NodeNames": "a"},
    "lower-case names that are numbers": {"Pod": POD, "nodenames": [1]},
    "nodes that are a number": {"Pod": POD, "Nodes": 7},
    "items that are a string": {"Pod": POD, "Nodes": {"items": "a"}},
    "a quantity that is none": {"Pod": make_pod(cpu="four"), "NodeNames": ["a"]},
    "an unknown selector operator": {
        "Pod": make_pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]
                    }
                }
            }
        ),
        "NodeNames": ["a"],
    },
    "text that is not UTF-8": b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":["a"]}',
    "half a surrogate": b'{"Pod":{"metadata":{}},"NodeNames":["\\ud800"]}',
    "nesting without end": b'{"Pod":' + b"[" * 100_000,
    "deep nesting that ends": b'{"Pod":{"metadata":{}},"Nodes":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_body_is_answered_400_with_a_reason(start, path, body):
    extender = await start()
    status, answer = await extender.post(path, body)
    assert status == 400
    assert answer.strip()


async def test_a_full_node_without_a_name_is_malformed_where_names_are_needed(start):
    extender = await start()
    pod = make_pod(workload_class="performance")
    for path in PATHS:
        assert (await extender.post(path, {"Pod": pod, "Nodes": {"items": [{}]}}))[0] == 400


async def test_a_body_of_more_than_a_mebibyte_is_accepted(start):
    extender = await start()
    nodes = [{"metadata": {"name": f"n{number}", "annotations": {"a": "x" * 10_000}}} for number in range(200)]
    status, answer = await extender.post("/prioritize", {"Pod": POD, "Nodes": {"items": nodes}, "NodeNames": None})
    assert (status, len(answer)) == (200, 200)


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(start):
    extender = await start()
    headers = {"Content-Length": str(BodyLimits.of_memory(None).one_bytes + 1)}
    async with extender.http.post("/filter", data=BytesIO(b""), headers=headers) as answer:
        assert answer.status == 413


async def test_a_body_of_unannounced_size_is_read(start):
    extender = await start()

    async def parts():
        yield b'{"Pod":{"metadata":{}},'
        yield b'"NodeNames":["a"]}'

    async with extender.http.post("/prioritize", data=parts()) as answer:
        assert await answer.json() == [{"Host": "a", "Score": 50}]


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_beyond_what_all_may_take_together_is_answered_429_until_another_is_done(start, path):
    extender = await start()
    extender.budget.limit_bytes = 150_000
    body = msgspec.json.encode({"Pod": make_pod(annotations={"filler": "x" * 100_000}), "NodeNames": ["a"]})
    ending = asyncio.Event()

    async def held():
        yield body[:-1]
        await ending.wait()
        yield body[-1:]

    async def whole():
        yield body

    async def post(parts):
        # Of unannounced size, so that it is received by aiohttp and not directly.
        async with extender.http.post(path, data=parts) as answer:
            await answer.read()
            return answer.status, answer.headers.get("Retry-After")

    first = asyncio.create_task(post(held()))
    await extender.wait_for(lambda: extender.budget.held_bytes == len(body) - 1)
    assert await post(whole()) == (429, "1")
    ending.set()
    assert (await first)[0] == 200
    assert (await post(whole()))[0] == 200
    assert extender.budget.held_bytes == 0


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "unknown"])
async def test_an_encoded_body_is_refused_whether_it_can_be_decoded_or_not(start, path, encoding):
    extender = await start()
    body = msgspec.json.encode({"Pod": POD, "NodeNames": ["a"]})
    for data in (body, gzip.compress(body)):
        async with extender.http.post(path, data=data, headers={"Content-Encoding": encoding}) as answer:
            assert answer.status == 415
            assert "without Content-Encoding" in await answer.text()


@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
async def test_a_get_is_refused(start, path):
    extender = await start()
    async with extender.http.get(path) as answer:
        assert answer.status == 405


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "spec", "containers", "items", "resources", "requests", "cpu", "labels"]
            )
            | st.text(),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("Pod", "pod", "Nodes", "nodes", "NodeNames", "nodeNames", "Extra"), JSON),
)


def read_all(body):
    """Nothing but BadRequestError comes of any body, and what can be cut is what the whole says."""
    cut = None
    with suppress(BadRequestError):
        if query := split_nodes(body):
            cut = replace(query, objects=[read_object(raw) for raw in query.objects])
    whole = None
    with suppress(BadRequestError):
        query = read_query(body)
        whole = query if query.objects is None else replace(query, objects=[read_object(raw) for raw in query.objects])
    if cut is not None:
        assert whole is not None
        assert [node.name for node in cut.objects] == [node.name for node in whole.objects]
        assert [bytes(node.raw) for node in cut.objects] == [bytes(node.raw) for node in whole.objects]
        assert (cut.uid, cut.demand) == (whole.uid, whole.demand)
    return cut


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(BODIES)
def test_any_json_is_read_or_refused(body):
    read_all(msgspec.json.encode(body))


@given(st.binary())
def test_any_bytes_are_read_or_refused(body):
    read_all(body)


@given(st.integers(0, 200), st.binary(max_size=4))
def test_a_damaged_body_is_read_or_refused(position, damage):
    body = msgspec.json.encode({"Pod": make_pod(cpu=2), "Nodes": {"items": [make_node("a")]}, "NodeNames": None})
    read_all(body[:position] + damage + body[position + len(damage) :])


TEXTS = st.text() | st.sampled_from(['},{"metadata":{', '"Nodes":{', '"items":[{', "}]}"])
NODES = st.lists(
    st.fixed_dictionaries(
        {"metadata": st.fixed_dictionaries({"name": TEXTS, "labels": st.dictionaries(TEXTS, TEXTS, max_size=2)})},
        optional={"status": st.fixed_dictionaries({"images": st.lists(JSON | TEXTS, max_size=3)})},
    ).map(lambda node: {"metadata": node["metadata"]} | node),
    min_size=1,
    max_size=5,
)


@given(NODES, TEXTS)
def test_nodes_as_a_scheduler_writes_them_are_cut_where_they_end(nodes, text):
    pod = make_pod(cpu=2, annotations={"text": text})
    body = msgspec.json.encode({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})
    cut = read_all(body)
    assert cut is not None
    assert [bytes(node.raw) for node in cut.objects] == [msgspec.json.encode(node) for node in nodes]


def test_objects_within_a_node_that_look_like_nodes_are_left_to_the_whole_body():
    inner = {"metadata": {"name": "inner"}}
    node = {"metadata": {"name": "a"}, "x": [inner, inner]}
    body = msgspec.json.encode({"Pod": POD, "Nodes": {"items": [node, node]}, "NodeNames": None})
    assert read_all(body) is None
    assert [read_object(raw).name for raw in read_query(body).objects] == ["a", "a"]


async def test_such_objects_are_answered_as_any_other(start):
    extender = await start()
    inner = {"metadata": {"name": "inner"}}
    nodes = [{"metadata": {"name": "a"}, "x": [inner, inner]}]
    status, answer = await extender.post("/prioritize", {"Pod": POD, "Nodes": {"items": nodes}})
    assert (status, answer) == (200, [{"Host": "a", "Score": 50}])


async def chunks(body):
    yield body


@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
@pytest.mark.parametrize("workload_class", ["standard", "performance"])
async def test_a_chunked_body_gets_the_same_answer_as_one_of_announced_length(start, make_twin, path, workload_class):
    extender = await start()
    extender.api.put_all([make_twin("a", measured=200), make_twin("b", "eco")])
    await extender.wait_for(lambda: len(extender.table) == 2)
    pod = make_pod(cpu=1, workload_class=workload_class)
    for body in ({"Pod": pod, "NodeNames": ["a", "b", "c"]}, {"Pod": pod, "NodeNames": [1]}):
        raw = msgspec.json.encode(body)
        direct = await extender.post(path, raw)
        async with extender.http.post(path, data=chunks(raw)) as answer:
            is_json = answer.content_type == "application/json"
            assert direct == (answer.status, await (answer.json() if is_json else answer.text()))


async def test_the_claims_of_a_repeated_body_are_those_of_the_moment(start):
    extender = await start()
    bodies = [
        {"Pod": claiming(make_pod("p", cpu=1), template="small"), "NodeNames": ["a"]},
        {"Pod": make_pod("p", cpu=1), "NodeNames": ["a"]},
    ]
    seen = []

    def gpus(pod):
        seen.append(pod)
        return 0.0

    extender.feeds.claims.gpus = gpus
    for body in bodies:
        for path in ("/filter", "/prioritize", "/prioritize"):
            assert (await extender.post(path, body))[0] == 200
    assert len(seen) == 3


def with_spec(spec):
    return {"Pod": {"metadata": {"name": "p"}, "spec": spec}, "NodeNames": ["a"]}


def required(terms):
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    return with_spec({"affinity": affinity})


TOO_LARGE = {
    "a pod beyond what etcd stores": {"Pod": make_pod(annotations={"a": "x" * MAX_OBJECT_BYTES}), "NodeNames": ["a"]},
    "names beyond any cluster": {"Pod": POD, "NodeNames": ["a"] * (MAX_CANDIDATES + 1)},
    "names of more bytes": {"Pod": POD, "NodeNames": ["a" * MAX_NAMES_BODY_BYTES]},
    "nodes beyond any cluster": {
        "Pod": POD,
        "Nodes": {"items": [{"metadata": {"name": "a"}}] * (MAX_CANDIDATES + 1)},
        "NodeNames": None,
    },
    "a node beyond what etcd stores": {
        "Pod": POD,
        "Nodes": {"items": [{"metadata": {"name": "a" * MAX_OBJECT_BYTES}}, {"metadata": {"name": "b"}}]},
        "NodeNames": None,
    },
    "a mebibyte of nodes in another form": {
        "Pod": POD,
        "Nodes": {"items": [{"kind": "Node", "metadata": {"name": "a" * 1000}}] * 1100},
    },
}
TOO_MANY_PARTS = {
    "containers": with_spec({"containers": [{}] * 100_001}),
    "init containers": with_spec({"initContainers": [{}] * 100_001}),
    "containers with requests": with_spec({"containers": [{"resources": {"requests": {"cpu": "1"}}}] * 2000}),
    "requests": with_spec({"containers": [{"resources": {"requests": {f"a.b/{n}": "1" for n in range(10_000)}}}]}),
    "terms of node affinity": required([{}] * 10_000),
    "labels of a node selector": with_spec({"nodeSelector": {f"a{n}": "b" for n in range(10_000)}}),
    "claims": with_spec({"resourceClaims": [{"name": "c"}] * 5_000}),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", TOO_LARGE.values(), ids=TOO_LARGE.keys())
async def test_what_kubernetes_does_not_have_is_answered_413_with_the_limit(start, path, body):
    extender = await start()
    status, answer = await extender.post(path, body)
    assert status == 413
    assert "at most" in answer
    assert len(answer) < 500


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", TOO_MANY_PARTS.values(), ids=TOO_MANY_PARTS.keys())
async def test_a_pod_with_more_parts_than_any_real_one_is_answered_400_with_the_limit(start, path, body):
    extender = await start()
    status, answer = await extender.post(path, body)
    assert status == 400
    assert "at most" in answer
    assert len(answer) < 500


LARGEST = {
    "a pod of a mebibyte": {"Pod": make_pod(annotations={"a": "<" * (1 << 20)}), "NodeNames": ["a"]},
    "five hundred containers": with_spec(
        {
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}, "env": [{"name": "A"}] * 20}
            ]
            * 500
        }
    ),
    "a term for each node": required(
        [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a" * 63] * 5000}]}]
    ),
    "the names of five thousand nodes": {"Pod": POD, "NodeNames": ["n" * 63] * 5000},
    "the names of the most nodes": {"Pod": POD, "NodeNames": ["n" * 63] * MAX_CANDIDATES},
    "a pod of a mebibyte and full nodes": {
        "Pod": make_pod(annotations={"a": "x" * (1 << 20)}),
        "Nodes": {"items": [{"metadata": {"name": "n", "annotations": {"a": "x" * 9000}}}] * 5000},
        "NodeNames": None,
    },
}


@pytest.mark.parametrize("path", ["/filter", "/prioritize"])
@pytest.mark.parametrize("body", LARGEST.values(), ids=LARGEST.keys())
async def test_the_largest_requests_of_kubernetes_are_answered(start, path, body):
    extender = await start()
    status, answer = await extender.post(path, body)
    assert status == 200, answer


async def test_the_loop_is_left_between_parts_of_full_nodes(monkeypatch):
    """Of 1,000 nodes none is read more than 128 after the last turn of the others."""
    read = []
    monkeypatch.setattr(bodies, "read_object", lambda raw: read.append(raw) or read_object(raw))
    body = msgspec.json.encode(
        {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "n"}}] * 1000}, "NodeNames": None}
    )
    assert await longest_run(Bodies(1 << 30, ByteBudget(1 << 30)).read(body, no_claims), read) == bodies.PART_NODES


async def test_the_loop_is_left_after_a_mebibyte_of_full_nodes(monkeypatch):
    read = []
    monkeypatch.setattr(bodies, "read_object", lambda raw: read.append(raw) or read_object(raw))
    node = {"metadata": {"name": "n", "annotations": {"a": "x" * (1 << 19)}}}
    body = msgspec.json.encode({"Pod": POD, "Nodes": {"items": [node] * 12}, "NodeNames": None})
    assert await longest_run(Bodies(1 << 30, ByteBudget(1 << 30)).read(body, no_claims), read) == 2


async def longest_run(work, done):
    """Most entries that `done` grew by between two turns of the event loop."""
    task = asyncio.ensure_future(work)
    longest = seen = 0
    while not task.done():
        await asyncio.sleep(0)
        longest, seen = max(longest, len(done) - seen), len(done)
    await task
    return longest


async def test_of_bodies_that_arrive_together_one_is_read_in_a_turn_of_the_loop(monkeypatch):
    read = []
    monkeypatch.setattr(bodies, "read_query", lambda *of: read.append(of) or read_query(*of))
    body = msgspec.json.encode({"Pod": POD, "NodeNames": ["a"]})
    received = Bodies(1 << 30, ByteBudget(1 << 30))
    assert await longest_run(asyncio.gather(*[received.read(body, no_claims) for _ in range(10)]), read) == 1
    assert len(read) == 10


@pytest.mark.parametrize("names", [["b"], []])
async def test_where_names_and_full_nodes_are_sent_the_names_count(start, names):
    extender = await start()
    body = {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": "a"}}]}, "NodeNames": names}
    _, scores = await extender.post("/prioritize", body)
    assert [each["Host"] for each in scores] == names
    _, passed = await extender.post("/filter", body)
    assert (passed["Nodes"], passed["NodeNames"]) == (None, names)


def test_the_labels_that_the_filter_needs_are_read_from_full_nodes():
    labels = {"joulie.io/power-profile": "eco", "joulie.io/sleep-state": "asleep", "zone": "a"}
    node = read_object(msgspec.json.encode({"metadata": {"name": "a", "labels": labels}}))
    assert node.labels == {key: value for key, value in labels.items() if key != "zone"}


async def test_a_full_node_that_sleeps_by_its_own_label_is_refused(start):
    extender = await start()
    node = {"metadata": {"name": "a", "labels": {"joulie.io/sleep-state": "asleep"}}}
    _, answer = await extender.post("/filter", {"Pod": POD, "Nodes": {"items": [node]}, "NodeNames": None})
    assert (answer["Nodes"]["items"], [*answer["FailedNodes"]]) == ([], ["a"])


def test_the_text_of_a_refusal_does_not_repeat_a_long_value():
    body = msgspec.json.encode({"Pod": make_pod(cpu="9" * 100_000), "NodeNames": ["a"]})
    with pytest.raises(BadRequestError, match="quantity") as refused:
        read_query(body)
    assert len(str(refused.value)) <= 300
