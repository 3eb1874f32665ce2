"""Trees as they are shown."""

from hypothesis import given
from hypothesis import strategies as st

from joulie_core.tree_order import tree_order


def test_parents_are_first_and_siblings_by_name():
    parents = {"b": "feed", "a": "feed", "a2": "a", "a1": "a", "feed": None, "other": None}
    assert tree_order(parents) == [("feed", 0), ("a", 1), ("a1", 2), ("a2", 2), ("b", 1), ("other", 0)]


def test_names_without_their_parent_are_roots_and_cycles_are_at_the_end():
    parents = {"x": "y", "y": "x", "under": "x", "lost": "gone", "self": "self", "z": None, "": None}
    assert tree_order(parents) == [
        ("", 0), ("lost", 0), ("z", 0), ("self", 0), ("under", 0), ("x", 0), ("y", 1),
    ]  # fmt: skip


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.sampled_from("abcdefghi"))))
def test_every_name_is_shown_once_and_below_its_parent_where_that_is_no_cycle(parents):
    ordered = tree_order(parents)
    assert sorted(name for name, _ in ordered) == sorted(parents)
    place = {name: (number, depth) for number, (name, depth) in enumerate(ordered)}
    for name, (number, depth) in place.items():
        if depth:
            before, above = place[parents[name]]
            assert before < number
            assert above == depth - 1
