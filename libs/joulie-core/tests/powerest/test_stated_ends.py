"""The ledger of stated ends against a plain list of the pods."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.names import NodeName
from joulie_core.powerest.stated_ends import MOST_PODS, StatedEnds
from joulie_core.stated_time import covered_ninths

A, B = NodeName("a"), NodeName("b")
NOW_S = 1_000.0


def put(ends, node, uid, expected_s, *, started_s=None, bound_s=None, now_s=NOW_S):
    ends.put(node, uid, expected_s, started_s=started_s, bound_s=bound_s, now_s=now_s)


@pytest.fixture
def ends():
    return StatedEnds()


def test_a_node_covers_what_its_last_pod_still_runs(ends):
    put(ends, A, "short", 100.0, started_s=NOW_S)
    put(ends, A, "long", 900.0, started_s=NOW_S - 450.0)
    put(ends, B, "other", 90.0, started_s=NOW_S)
    assert ends.covered(900.0, NOW_S) == {"a": 4}
    assert ends.covered(90.0, NOW_S) == {"a": 9, "b": 9}
    ends.drop(A, "long")
    assert ends.covered(900.0, NOW_S) == {"a": 1}
    ends.drop(A, "short")
    ends.drop(B, "other")
    assert (ends.covered(90.0, NOW_S), len(ends)) == ({}, 0)


def test_a_pod_that_runs_longer_than_it_stated_covers_nothing(ends):
    put(ends, A, "late", 100.0, started_s=NOW_S - 100.0)
    assert ends.covered(1.0, NOW_S) == {}


def test_a_pod_counts_from_when_it_was_bound_until_the_kubelet_has_taken_it(ends):
    put(ends, A, "uid", 900.0, bound_s=NOW_S)
    assert ends.covered(900.0, NOW_S + 300.0) == {"a": 6}
    put(ends, A, "uid", 900.0, now_s=NOW_S + 200.0)
    assert ends.covered(900.0, NOW_S + 300.0) == {"a": 6}
    put(ends, A, "uid", 900.0, started_s=NOW_S + 100.0, now_s=NOW_S + 200.0)
    assert ends.covered(900.0, NOW_S + 300.0) == {"a": 7}


def test_a_pod_of_which_it_is_not_known_when_it_began_covers_nothing(ends):
    put(ends, A, "uid", 900.0)
    assert (ends.covered(1.0, NOW_S), len(ends)) == ({}, 0)
    ends.drop(A, "uid")
    put(ends, A, "uid", 900.0, started_s=NOW_S)
    assert ends.covered(900.0, NOW_S) == {"a": 9}


def test_a_start_in_the_future_counts_as_now(ends):
    put(ends, A, "uid", 90.0, started_s=NOW_S + 1e9)
    assert ends.covered(900.0, NOW_S + 9.0) == {}
    assert ends.covered(90.0, NOW_S + 10.0) == {"a": 8}


def test_a_time_that_is_stated_anew_counts_from_the_same_start(ends):
    put(ends, A, "uid", 900.0, started_s=NOW_S)
    put(ends, A, "uid", 90.0, started_s=NOW_S)
    assert ends.covered(90.0, NOW_S + 50.0) == {"a": 4}


def test_pods_beyond_what_a_node_can_have_are_left_out_and_those_that_are_known_stay_up_to_date(ends):
    for number in range(MOST_PODS):
        put(ends, A, f"uid-{number}", 90.0, started_s=NOW_S)
    put(ends, A, "more", 900.0, started_s=NOW_S)
    assert ends.covered(900.0, NOW_S + 1.0) == {}
    put(ends, A, "uid-7", 900.0, started_s=NOW_S)
    assert ends.covered(900.0, NOW_S) == {"a": 9}


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from("uvw"),
            st.none() | st.floats(1.0, 1e6),
            st.floats(0.0, NOW_S),
        )
    ),
    st.floats(1.0, 1e6),
)
def test_any_history_ends_in_what_the_pods_state_that_are_there(changes, run_s):
    ends, plain = StatedEnds(), {}
    for node, uid, expected_s, started_s in changes:
        if expected_s is None:
            ends.drop(NodeName(node), uid)
            plain.pop((node, uid), None)
        else:
            put(ends, NodeName(node), uid, expected_s, started_s=started_s)
            plain[node, uid] = started_s + expected_s
    nodes = {node for node, _ in plain}
    left_s = {each: max(end_s for (node, _), end_s in plain.items() if node == each) - NOW_S for each in nodes}
    expected = {node: covered_ninths(run_s, left) for node, left in left_s.items()}
    assert ends.covered(run_s, NOW_S) == {node: covered for node, covered in expected.items() if covered}
    assert len(ends) == len(nodes)
