"""What is read of a request, and its limits to the byte."""

import msgspec
import pytest

from joulie_core.demand import WorkloadClass
from joulie_core.powerest.pod_demand import PodDemand
from joulie_extender.requests import (
    BadRequestError,
    ExtenderRequest,
    SentNode,
    TooLargeError,
    check_candidates,
    read_object,
    read_query,
    split_nodes,
)
from joulie_testing.api import claiming, make_pod

MIB = 1024 * 1024
POD = make_pod("p", cpu=2) | {"metadata": {"uid": "u"}}
DEMAND = PodDemand(2.0, workload_class=WorkloadClass.STANDARD)
CLAIMING = claiming(make_pod("p", cpu=1), template="small")
NODES = [b'{"metadata":{"name":"a"},"x":1}', b'{"metadata":{"name":"b"}}', b'{"metadata":{"name":"c"},"y":[{}]}']


def two_gpus(_pod):
    return 2.0


def encoded(**fields):
    return msgspec.json.encode(fields)


def body_of(nodes, *, pod=None, before=b'"metadata":{},', after=b""):
    """The body of kube-scheduler with these full nodes."""
    pod = msgspec.json.encode(POD) if pod is None else pod
    items = b",".join(nodes)
    return b'{"Pod":' + pod + b',"Nodes":{' + before + b'"items":[' + items + b"]}" + after + b',"NodeNames":null}'


def of_size(size, make):
    """Bytes of the given size, filled up in a text."""
    return make(b"x" * (size - len(make(b""))))


def node_of(size):
    return of_size(size, lambda filler: b'{"metadata":{"name":"n","a":"' + filler + b'"}}')


def pod_of(size):
    return of_size(size, lambda filler: b'{"metadata":{"name":"' + filler + b'"}}')


def cut(body):
    query = split_nodes(body)
    return None if query is None else [bytes(each) for each in query.objects]


@pytest.mark.parametrize(
    ("key", "nodes"),
    [
        ("NodeNames", {"Nodes": None}),
        ("NodeNames", {}),
        ("NodeNames", {"Nodes": {"items": [{"metadata": {"name": "c"}}]}}),
        ("nodenames", {"Nodes": None}),
        ("nodeNames", {"nodes": None}),
        ("NODENAMES", {}),
    ],
)
def test_names_are_read_whatever_else_is_sent(key, nodes):
    expected = ExtenderRequest("u", DEMAND, ["a", "b"], objects=None, with_claims=False)
    assert read_query(encoded(**nodes, Pod=POD, **{key: ["a", "b"]})) == expected


@pytest.mark.parametrize("none", [{}, {"NodeNames": None, "Nodes": None}, {"NodeNames": []}, {"nodes": None}])
def test_a_request_without_candidates_has_none(none):
    assert read_query(encoded(Pod=POD, **none)) == ExtenderRequest("u", DEMAND, [], objects=None)


@pytest.mark.parametrize("keys", ["Pod Nodes items", "pod nodes items", "POD NODES ITEMS", "Pod nodes Items"])
def test_full_nodes_are_the_bytes_that_were_sent(keys):
    pod, nodes, items = keys.split()
    body = encoded(**{pod: POD, nodes: {items: [msgspec.Raw(each) for each in NODES]}, "NodeNames": None})
    query = read_query(body)
    assert (query.uid, query.demand, query.names, query.with_claims) == ("u", DEMAND, [], False)
    assert [bytes(each) for each in query.objects] == NODES


@pytest.mark.parametrize("nodes", [{"items": []}, {"items": None}, {}, {"Items": []}])
def test_full_nodes_may_be_none(nodes):
    query = read_query(encoded(Pod=POD, Nodes=nodes, NodeNames=None))
    assert (query.names, query.objects) == ([], [])


def test_a_pod_in_another_spelling_is_used_and_a_null_one_is_not():
    assert read_query(encoded(Pod=None, pod=POD, NodeNames=["a"])).uid == "u"


@pytest.mark.parametrize("candidates", [{"NodeNames": ["a"]}, {"Nodes": {"items": [{"metadata": {"name": "a"}}]}}])
def test_keys_in_the_usual_spelling_count_before_others(candidates):
    assert read_query(encoded(Pod=POD, pod={"metadata": {"uid": "other"}}, **candidates)).uid == "u"


@pytest.mark.parametrize("candidates", [{"NodeNames": ["a"]}, {"Nodes": {"items": [{"metadata": {"name": "a"}}]}}])
def test_claims_of_the_pod_are_in_its_demand_and_the_request_says_so(candidates):
    query = read_query(encoded(Pod=CLAIMING, **candidates), two_gpus)
    assert (query.demand.gpus, query.with_claims) == (2.0, True)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "not a request: "),
        (b"[]", "not a request: "),
        (b'{"NodeNames":["a"]}', "no Pod in the request"),
        (b'{"Pod":null,"NodeNames":["a"]}', "no Pod in the request"),
        (b'{"Pod":7,"NodeNames":["a"]}', "not a Pod: "),
        (b'{"Pod":true,"NodeNames":["a"]}', "not a Pod: "),
        (b'{"Pod":{"metadata":{}},"Nodes":7}', "not a NodeList: "),
        (b'{"Pod":{"metadata":{}},"nodes":7}', "not a JSON object: "),
        (b'{"Pod":{"metadata":{}},"NodeNames":[1]}', "not a request: "),
    ],
)
def test_the_fault_names_the_part_that_cannot_be_read(body, fault):
    with pytest.raises(BadRequestError) as caught:
        read_query(body)
    assert str(caught.value).startswith(fault)
    assert not isinstance(caught.value, TooLargeError)


def test_the_text_of_a_fault_is_short_however_long_the_value():
    with pytest.raises(BadRequestError, match="quantity") as caught:
        read_query(encoded(Pod=make_pod(cpu="9" * 100_000), NodeNames=["a"]))
    assert 200 < len(str(caught.value)) <= 300


def names_body(size):
    return of_size(size, lambda filler: b'{"Pod":{"metadata":{}},"NodeNames":["' + filler + b'"]}')


@pytest.mark.parametrize(
    ("make", "limit", "message"),
    [
        (
            lambda size: (read_query, names_body(size)),
            4 * MIB,
            "a request other than kube-scheduler's with full nodes: {} bytes, at most {} are accepted",
        ),
        (
            lambda size: (read_query, b'{"Pod":' + pod_of(size) + b',"NodeNames":["a"]}'),
            2 * MIB,
            "the pod: {} bytes, at most {} are accepted",
        ),
        (
            lambda size: (cut, body_of(NODES, pod=pod_of(size))),
            2 * MIB,
            "the pod: {} bytes, at most {} are accepted",
        ),
        (
            lambda size: (
                read_query,
                b'{"Pod":{"metadata":{}},"Nodes":{"items":[' + node_of(size - len(b'{"items":[]}')) + b"]}}",
            ),
            MIB,
            "full nodes that are not written as kube-scheduler writes them: {} bytes, at most {} are accepted",
        ),
        (
            lambda size: (cut, body_of([NODES[0], node_of(size)])),
            2 * MIB,
            "a full node, or several that are not written as kube-scheduler writes them: {} bytes, at most {} are accepted",  # noqa: E501
        ),
    ],
    ids=["names", "pod", "pod before full nodes", "full nodes in one go", "full node"],
)
def test_a_part_may_be_as_large_as_its_limit_and_no_larger(make, limit, message):
    read, body = make(limit)
    assert read(body)
    read, body = make(limit + 1)
    with pytest.raises(TooLargeError) as caught:
        read(body)
    assert str(caught.value) == message.format(limit + 1, limit)


def test_a_full_node_before_others_has_the_same_limit():
    assert [len(each) for each in cut(body_of([node_of(2 * MIB), *NODES]))[:1]] == [2 * MIB]
    with pytest.raises(TooLargeError):
        cut(body_of([node_of(2 * MIB + 1), *NODES]))


def test_a_cluster_has_at_most_20000_nodes():
    check_candidates(20_000)
    with pytest.raises(TooLargeError, match="the candidates: 20001 nodes, at most 20000 are accepted"):
        check_candidates(20_000 + 1)
    assert len(read_query(encoded(Pod=POD, NodeNames=["a"] * 20_000)).names) == 20_000
    with pytest.raises(TooLargeError, match="20001 nodes"):
        read_query(encoded(Pod=POD, nodenames=[""] * (20_000 + 1)))


def test_too_many_names_are_refused_before_one_is_read():
    with pytest.raises(TooLargeError, match="20001 nodes"):
        read_query(encoded(Pod=POD, NodeNames=[1000] * (20_000 + 1)))
    with pytest.raises(BadRequestError) as caught:
        read_query(encoded(Pod=POD, NodeNames=[1000] * 20_000))
    assert not isinstance(caught.value, TooLargeError)


def test_commas_elsewhere_are_no_names():
    pod = make_pod(annotations={"a": "," * 70_000})
    assert read_query(encoded(Pod=pod, NodeNames=["a"])).names == ["a"]
    with pytest.raises(BadRequestError, match="not a request"):
        read_query(b'{"Pod":' + b"," * 70_000)


def test_another_spelling_is_looked_for_in_bodies_of_256_kib():
    def body(size):
        return of_size(size, lambda filler: b'{"pod":{"metadata":{"uid":"' + filler + b'"}},"NodeNames":["a"]}')

    assert read_query(body(MIB // 4)).names == ["a"]
    with pytest.raises(BadRequestError, match="no Pod"):
        read_query(body(MIB // 4 + 1))


def test_nodes_are_cut_where_kube_scheduler_separates_them():
    query = split_nodes(body_of(NODES), two_gpus)
    assert (query.uid, query.demand, query.names, query.with_claims) == ("u", DEMAND, [], False)
    assert [bytes(each) for each in query.objects] == NODES
    assert cut(body_of(NODES[:1])) == NODES[:1]


def test_claims_of_a_pod_before_full_nodes_are_in_its_demand():
    query = split_nodes(body_of(NODES, pod=msgspec.json.encode(CLAIMING)), two_gpus)
    assert (query.demand.gpus, query.with_claims) == (2.0, True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (encoded(Pod=POD, Nodes=None, NodeNames=["a"]), "names"),
        (body_of(NODES).replace(b"null}", b'["a"]}'), "names beside full nodes"),
        (body_of(NODES).replace(b"null}", b"null }"), "a space"),
        (body_of([]), "no node"),
        (body_of(NODES).replace(b'"Nodes":{', b'"nodes":{'), "another key"),
        (body_of(NODES).replace(b'"items":[{', b'"Items":[{'), "another key within"),
        (body_of(NODES).replace(b"]}", b"] }"), "another end"),
        (body_of(NODES, pod=b"7"), "no pod"),
        (body_of(NODES, before=b'"a":"' + b"x" * 65_536 + b'",'), "much before the nodes"),
        (body_of(NODES, after=b',"a":"' + b"x" * 65_536 + b'"'), "much after the nodes"),
        (body_of(NODES, pod=pod_of(2 * MIB + 65_536)), "a pod beyond any"),
        (b'{"Pod":{"metadata":{}},"x":{"items":[{}]},"Nodes":{"y":[{}]},"NodeNames":null}', "items before the nodes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_written_otherwise_is_not_cut(body, reason):
    assert split_nodes(body) is None, reason


@pytest.mark.parametrize(
    "spare", [{"before": b'"a":"' + b"x" * 65_000 + b'",'}, {"after": b',"a":"' + b"x" * 65_000 + b'"'}]
)
def test_what_stands_around_the_nodes_may_have_some_length(spare):
    assert cut(body_of(NODES, **spare)) == NODES


def test_of_a_full_node_the_name_and_the_labels_that_the_filter_needs_are_read():
    labels = {"joulie.io/power-profile": "eco", "joulie.io/sleep-state": "asleep", "zone": "a"}
    raw = encoded(metadata={"name": "a", "labels": labels}, spec={"x": 1})
    expected = {"joulie.io/power-profile": "eco", "joulie.io/sleep-state": "asleep"}
    assert read_object(raw) == SentNode("a", expected, raw)
    for none in (None, {}, {"joulie.io/power-profile": None}):
        assert read_object(encoded(metadata={"name": "a", "labels": none})).labels == {}
    assert read_object(encoded(metadata={"name": "a"})).labels == {}


@pytest.mark.parametrize("raw", [b"{}", b'{"metadata":{}}', b"[]", b'{"metadata":{"name":1}}'])
def test_an_object_without_a_name_is_refused(raw):
    with pytest.raises(BadRequestError, match="not a Node: "):
        read_object(raw)


def timed_pod(expected=None, deadline_s=None):
    pod = make_pod("p", cpu=2)
    if expected is not None:
        pod["metadata"].setdefault("annotations", {})["joulie.io/expected-duration"] = expected
    if deadline_s is not None:
        pod["spec"]["activeDeadlineSeconds"] = deadline_s
    return pod


@pytest.mark.parametrize(
    ("pod", "run_s"),
    [
        (timed_pod(), None),
        (timed_pod("90m"), 5_400.0),
        (timed_pod(deadline_s=60), 60.0),
        (timed_pod("90m", 60), 60.0),
        (timed_pod("often"), None),
        (timed_pod("often", 60), 60.0),
        (timed_pod(deadline_s="60"), None),
    ],
)
def test_the_run_time_of_a_pod_is_what_it_states_or_what_bounds_it(pod, run_s):
    assert read_query(encoded(Pod=pod, NodeNames=["a"])).run_s == run_s
    assert read_query(encoded(pod=pod, nodeNames=["a"])).run_s == run_s
    cut = split_nodes(body_of(NODES, pod=msgspec.json.encode(pod)))
    assert cut is not None
    assert cut.run_s == run_s
