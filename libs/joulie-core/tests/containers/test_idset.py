import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.containers.idset import EMPTY, IdSet, InvalidIdListError, union

IDS = st.sets(st.integers(0, 2_000), max_size=40)


@given(IDS, IDS)
def test_a_set_of_ids_behaves_as_a_set_of_numbers(left: set[int], right: set[int]) -> None:
    a, b = IdSet(left), IdSet(right)
    assert set(a | b) == left | right
    assert set(a & b) == left & right
    assert set(a - b) == left - right
    assert (a <= b) == (left <= right)
    assert a.isdisjoint(b) == left.isdisjoint(right)
    assert list(a) == sorted(left)
    assert (len(a), bool(a)) == (len(left), bool(left))
    assert (a == b) == (left == right)
    assert union([a, b]) == a | b


@given(IDS)
def test_the_list_format_is_read_back(ids: set[int]) -> None:
    assert IdSet.parse(str(IdSet(ids))) == IdSet(ids)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("0", [0]),
        ("0-3,8", [0, 1, 2, 3, 8]),
        (" 1 - 2 , 5 \n", [1, 2, 5]),
        ("0-6:2", [0, 2, 4, 6]),
        ("2047", [2047]),
        ("0,1,2", [0, 1, 2]),
    ],
)
def test_the_kernels_lists_are_read(text: str, ids: list[int]) -> None:
    assert list(IdSet.parse(text)) == ids


@pytest.mark.parametrize(
    ("ids", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0-1"), ([3, 1, 2, 7, 9, 10], "1-3,7,9-10"), ([1023, 1024], "1023-1024")],
)
def test_a_list_has_the_shortest_form(ids: list[int], text: str) -> None:
    assert str(IdSet(ids)) == text


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0-3:0", "1.5", "0-99999999", "0x3", "²"])
def test_other_texts_are_refused_with_the_part_that_is_wrong(text: str) -> None:
    with pytest.raises(InvalidIdListError, match="is not"):
        IdSet.parse(f"0,{text}")


@given(IDS, st.integers(0, 50))
def test_the_lowest_members_are_the_first_in_order(ids: set[int], count: int) -> None:
    assert list(IdSet(ids).lowest(count)) == sorted(ids)[:count]


def test_an_empty_set_has_no_lowest_id() -> None:
    assert IdSet([4, 9]).min() == 4
    with pytest.raises(ValueError, match="empty"):
        EMPTY.min()


def test_negative_numbers_are_in_no_set() -> None:
    assert -1 not in IdSet([0, 1])
    with pytest.raises(ValueError, match="negative"):
        IdSet([-1])
