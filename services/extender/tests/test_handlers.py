"""What is answered to kube-scheduler, and what is noted of a request."""

import asyncio
from http import HTTPStatus
from time import perf_counter

import msgspec
import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_extender import handlers as under_test
from joulie_extender.requests import MAX_CANDIDATES, read_query
from joulie_testing.api import claiming, make_pod

PERFORMANCE = make_pod("p", cpu="1n", workload_class="performance")
DIRECT = ["filter_names", "prioritize_names"]
PATHS = ["/filter", "/prioritize"]
WAYS = [("/filter", "filter_names"), ("/prioritize", "prioritize_names")]


def names_body(*names, pod=PERFORMANCE):
    return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": list(names)})


def nodes_body(*nodes, pod=PERFORMANCE):
    items = b",".join(nodes)
    return b'{"Pod":' + msgspec.json.encode(pod) + b',"Nodes":{"items":[' + items + b']},"NodeNames":null}'


def node(name, **labels):
    labels = {f"joulie.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return msgspec.json.encode({"metadata": {"name": name, "labels": labels}})


@pytest.fixture
def extender(unwatched, make_twin):
    """Two nodes: `eco`, which refuses performance pods, and `free`, the best one."""
    unwatched.put(make_twin("eco", "eco", measured=500))
    unwatched.put(make_twin("free", measured=0))
    return unwatched


def ask(extender, method, body, started=None):
    """The direct answer to a body, decoded."""
    reply = getattr(extender.handlers, method)(body, perf_counter() if started is None else started)
    assert (reply.status, reply.content_type) == (HTTPStatus.OK, b"application/json")
    return msgspec.json.decode(reply.body)


async def post(extender, path, body):
    async with extender.http.post(path, data=body) as answer:
        raw = await answer.read()
        return answer.status, answer.content_type, raw


async def series(extender):
    lines = (await extender.registry.render()).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


async def test_names_are_filtered_directly(extender):
    answer = ask(extender, "filter_names", names_body("eco", "free", "unknown"))
    assert (answer["Nodes"], answer["NodeNames"], answer["Error"]) == (None, ["free", "unknown"], "")
    assert [*answer["FailedNodes"]] == [*answer["FailedAndUnresolvableNodes"]] == ["eco"]


async def test_names_are_scored_directly(extender):
    answer = ask(extender, "prioritize_names", names_body("eco", "free", "unknown"))
    assert [each["Host"] for each in answer] == ["eco", "free", "unknown"]
    assert [each["Score"] for each in answer][1:] == [82, 50]


@pytest.mark.parametrize(("path", "method"), WAYS)
async def test_names_get_the_same_answer_by_both_ways(extender, path, method):
    body = names_body("eco", "free", "unknown", pod=make_pod("p", cpu=1))
    direct = extender.handlers.direct()[path](body, perf_counter())
    assert direct == getattr(extender.handlers, method)(body, perf_counter())
    assert await post(extender, path, body) == (200, "application/json", direct.body)


@pytest.mark.parametrize("method", DIRECT)
async def test_full_nodes_are_not_answered_directly(extender, method):
    assert getattr(extender.handlers, method)(nodes_body(node("free")), 0.0) is None


def filled(size):
    body = names_body("free", pod={"metadata": {"annotations": {"a": ""}}})
    return body.replace(b'"a":""', b'"a":"' + b"x" * (size - len(body)) + b'"')


def of_parts(count):
    body = names_body("free", pod={"metadata": {"annotations": {"a": ""}}})
    present = sum(map(body.count, (b",", b":", b"{")))
    third, rest = divmod(count - present, 3)
    return body.replace(b'"a":""', b'"a":"' + b",:{" * third + b"," * rest + b'"')


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize(("make", "limit"), [(filled, 128 * 1024), (of_parts, 6_000)])
async def test_an_unusually_large_body_is_not_answered_directly(*, extender, method, make, limit):
    assert getattr(extender.handlers, method)(make(limit), 0.0).status == HTTPStatus.OK
    assert getattr(extender.handlers, method)(make(limit + 1), 0.0) is None


@pytest.mark.parametrize("synced", [True, False])
@pytest.mark.parametrize(("path", "method"), WAYS)
async def test_a_body_that_cannot_be_read_is_answered_400_with_the_reason(*, extender, path, method, synced):
    extender.feeds.synced = synced
    reply = getattr(extender.handlers, method)(b"{}", 0.0)
    assert (reply.status, reply.body) == (HTTPStatus.BAD_REQUEST, b"no Pod in the request\n")
    assert reply.content_type.startswith(b"text/plain")
    assert await post(extender, path, b"{}") == (400, "text/plain", b"no Pod in the request\n")


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_beyond_a_limit_is_answered_413_with_the_limit(extender, path):
    status, _, text = await post(extender, path, names_body(*[""] * (MAX_CANDIDATES + 1)))
    assert (status, text) == (413, b"the candidates: 20001 nodes, at most 20000 are accepted\n")


@pytest.mark.parametrize(("path", "method"), WAYS)
async def test_before_the_first_sync_the_answer_is_503(extender, path, method):
    extender.feeds.synced = False
    reply = getattr(extender.handlers, method)(names_body("free"), 0.0)
    assert (reply.status, reply.body) == (HTTPStatus.SERVICE_UNAVAILABLE, b"the cluster is not known yet\n")
    for body in (names_body("free"), nodes_body(node("free"))):
        assert await post(extender, path, body) == (503, "text/plain", b"the cluster is not known yet\n")
    assert (extender.feeds.refreshes, extender.table.entry("free").state.assumed_watts) == (0, 0)


async def test_every_answer_is_of_this_moment(extender):
    for number, (path, method) in enumerate(WAYS):
        ask(extender, method, names_body("free"))
        assert extender.feeds.refreshes == 3 * number + 1
        for body in (names_body("free"), nodes_body(node("free"))):
            await post(extender, path, body)
        assert extender.feeds.refreshes == 3 * number + 3


@pytest.mark.parametrize("repeated", [True, False])
async def test_a_repeated_body_is_read_once_and_another_anew(extender, monkeypatch, repeated):
    read = []
    monkeypatch.setattr(under_test, "read_query", lambda body, gpus: read.append(body) or read_query(body, gpus))
    first, second = names_body("free"), names_body("free" if repeated else "eco", "unknown")
    second = first if repeated else second
    ask(extender, "filter_names", first)
    answer = ask(extender, "prioritize_names", second)
    assert [each["Host"] for each in answer] == (["free"] if repeated else ["eco", "unknown"])
    assert read == ([first] if repeated else [first, second])


@pytest.mark.parametrize("method", DIRECT)
async def test_the_claims_of_a_repeated_body_are_those_of_the_moment(extender, method):
    seen = []
    extender.feeds.claims.gpus = lambda pod: seen.append(pod) or 1.0
    for _ in range(2):
        ask(extender, method, names_body("free", pod=claiming(make_pod("p", cpu=1), template="small")))
    assert len(seen) == 2


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [names_body, lambda name, pod: nodes_body(node(name), pod=pod)])
async def test_the_claims_of_a_pod_are_looked_up(extender, path, body):
    seen = []
    extender.feeds.claims.gpus = lambda pod: seen.append(pod) or 1.0
    assert (await post(extender, path, body("free", pod=claiming(make_pod("p"), template="small"))))[0] == 200
    assert seen


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("way", ["direct", "names", "nodes"])
async def test_a_request_is_counted_with_its_class_and_its_duration(extender, verb, way):
    if way == "direct":
        ask(extender, f"{verb}_names", names_body("free"), started=perf_counter() - 0.25)
    else:
        await post(extender, f"/{verb}", names_body("free") if way == "names" else nodes_body(node("free")))
    found = await series(extender)
    assert found[f'joulie_scheduler_{verb}_requests_total{{workload_class="performance"}}'] == 1
    assert found[f'joulie_scheduler_{verb}_requests_total{{workload_class="standard"}}'] == 0
    duration_s = found[f'joulie_scheduler_{verb}_duration_seconds_sum{{workload_class="performance"}}']
    assert (0.25 if way == "direct" else 0.0) < duration_s < 60


async def test_the_demand_that_was_scored_last_is_known_to_the_metrics(extender):
    ask(extender, "prioritize_names", names_body("free"))
    assert 'joulie_scheduler_final_node_score{node="free",workload_class="performance"}' in await series(extender)


def asked_pod(name, *, uid):
    pod = make_pod(name, cpu=8, workload_class="performance")
    pod["metadata"]["uid"] = uid
    return pod


@pytest.mark.parametrize("way", ["direct", "names", "nodes"])
async def test_a_scored_pod_counts_on_the_best_node_after_the_answer(extender, way):
    pod, expected = asked_pod("p", uid="u"), []
    extender.table.expect_pod = lambda *pod_and_node: expected.append(pod_and_node)
    if way == "direct":
        ask(extender, "prioritize_names", names_body("eco", "free", pod=pod))
        assert not expected
        await asyncio.sleep(0)
    else:
        body = names_body("eco", "free", pod=pod) if way == "names" else nodes_body(node("eco"), node("free"), pod=pod)
        await post(extender, "/prioritize", body)
    assert expected == [("u", "free", PodDemand(8.0, workload_class=WorkloadClass.PERFORMANCE))]


@pytest.mark.parametrize(("uid", "names"), [("", ["free"]), ("u", [])])
async def test_a_pod_without_uid_or_without_candidates_is_expected_nowhere(extender, uid, names):
    expected = []
    extender.table.expect_pod = lambda *pod_and_node: expected.append(pod_and_node)
    ask(extender, "prioritize_names", names_body(*names, pod=asked_pod("p", uid=uid)))
    await asyncio.sleep(0)
    assert not expected


async def test_full_nodes_are_filtered_in_their_order_and_returned_as_they_were_sent(extender):
    first, second = b'{"metadata":{"name":"unknown"} ,"x":1e0}', b'{"metadata":{"name":"free"},"y":[ ]}'
    status, content_type, raw = await post(extender, "/filter", nodes_body(first, node("eco"), second))
    assert (status, content_type) == (200, "application/json")
    assert b'"items":[' + first + b"," + second + b"]" in raw
    answer = msgspec.json.decode(raw)
    assert (answer["NodeNames"], [*answer["FailedNodes"]]) == (None, ["eco"])
    assert answer["FailedNodes"]["eco"] == "joulie: node is eco, performance pods are kept off it"


async def test_the_label_that_the_scheduler_sends_counts_before_the_watched_one(extender):
    """A node that is asleep by its own label refuses every pod."""
    pod = make_pod("p", cpu=1)
    _, _, raw = await post(extender, "/filter", nodes_body(node("free", sleep_state="asleep"), node("eco"), pod=pod))
    assert [*msgspec.json.decode(raw)["FailedNodes"]] == ["free"]


async def test_full_nodes_are_scored(extender):
    _, _, raw = await post(extender, "/prioritize", nodes_body(node("free"), node("unknown")))
    assert msgspec.json.decode(raw) == [{"Host": "free", "Score": 82}, {"Host": "unknown", "Score": 50}]


async def test_the_loop_is_left_between_parts_of_nodes_that_are_judged(extender, monkeypatch):
    judged, longest, seen = [], 0, 0
    entry = extender.table.entry
    monkeypatch.setattr(extender.table, "entry", lambda name: judged.append(name) or entry(name))
    nodes = [node(f"n{number}") for number in range(300)]
    request = asyncio.ensure_future(post(extender, "/filter", nodes_body(*nodes)))
    while not request.done():
        await asyncio.sleep(0)
        longest, seen = max(longest, len(judged) - seen), len(judged)
    assert (len(judged), longest) == (300, 128)


async def test_liveness_is_answered_before_the_first_sync(extender):
    extender.feeds.synced = False
    async with extender.http.get("/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok\n")
