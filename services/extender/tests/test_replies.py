"""The bytes that kube-scheduler is sent about filtering."""

import pytest

from joulie_core.scoring.filter import FilterReason, FilterResult
from joulie_extender.replies import names_reply, objects_reply, refusal

_MEBIBYTE = 1 << 20
ECO = b'"eco":"too slow"'
ASLEEP = b'"asleep":"\\"off\\""'


def test_a_refused_node_is_its_name_and_the_message_as_json():
    assert (
        refusal('a"b', FilterResult(False, FilterReason.SLEEPING_NODE, 'it "sleeps"')) == b'"a\\"b":"it \\"sleeps\\""'
    )


def test_names_are_answered_in_their_order_with_every_refused_one_in_both_maps():
    refusals = {"asleep": ASLEEP, "another": b"", "eco": ECO}
    assert names_reply(["b", "eco", "a", "asleep"], refusals) == (
        b'{"Nodes":null,"NodeNames":["b","a"],'
        b'"FailedNodes":{"eco":"too slow","asleep":"\\"off\\""},'
        b'"FailedAndUnresolvableNodes":{"eco":"too slow","asleep":"\\"off\\""},"Error":""}'
    )


@pytest.mark.parametrize("refusals", [{}, {"another": ECO}])
def test_names_of_which_none_is_refused_are_answered_with_empty_maps(refusals):
    assert names_reply(["b", "a"], refusals) == (
        b'{"Nodes":null,"NodeNames":["b","a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def whole(nodes, refusals=()):
    return b"".join(objects_reply(nodes, refusals))


def test_full_nodes_are_answered_as_they_were_sent_with_every_refused_one_in_both_maps():
    assert whole([b'{"a": 1}', b'{"b":2}'], iter([ECO])) == (
        b'{"Nodes":{"metadata":{},"items":[{"a": 1},{"b":2}]},"NodeNames":null,'
        b'"FailedNodes":{"eco":"too slow"},"FailedAndUnresolvableNodes":{"eco":"too slow"},"Error":""}'
    )
    assert whole([]) == (
        b'{"Nodes":{"metadata":{},"items":[]},"NodeNames":null,'
        b'"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
    )


def sized(*sizes):
    return [b"x" * size for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([_MEBIBYTE - 1, 1, _MEBIBYTE - 1, 1, 7], [[0, 1], [2, 3], [4]]),
        ([_MEBIBYTE // 2] * 5, [[0, 1], [2, 3], [4]]),
        ([_MEBIBYTE] * 2, [[0], [1], []]),
    ],
    ids=["one byte completes a part", "two nodes are a part", "the last part is empty"],
)
def test_full_nodes_are_written_in_parts_of_a_mebibyte_that_join_to_one_list(sizes, parts):
    nodes = sized(*sizes)
    _, *written, _ = objects_reply(nodes, [])
    assert [part.lstrip(b",") for part in written] == [b",".join(nodes[at] for at in part) for part in parts]
    assert b"".join(written) == b",".join(nodes)
