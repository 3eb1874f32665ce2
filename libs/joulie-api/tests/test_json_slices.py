"""Tests of cutting JSON without recursion."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_api.errors import DecodeError
from joulie_api.json_slices import elements, members

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), each, max_size=3),
    max_leaves=8,
)
#: How it is written.
_FORMS = st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}])


@given(st.lists(_VALUES, max_size=4), _FORMS)
def test_elements_are_those_of_a_decoder(values: list[Any], form: dict[str, Any]) -> None:
    raw = json.dumps(values, **form).encode()
    assert [json.loads(each) for each in elements(raw)] == values


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), _VALUES, max_size=4), _FORMS)
def test_members_are_those_of_a_decoder(value: dict[str, Any], form: dict[str, Any]) -> None:
    raw = json.dumps(value, **form).encode()
    assert {key: json.loads(each) for key, each in members(raw).items()} == value


@given(st.binary(max_size=60) | st.text(alphabet='[]{},:"\\ a1', max_size=30).map(str.encode))
def test_other_input_is_refused_or_cut(raw: bytes) -> None:
    for cut in (members, elements):
        try:
            cut(raw)
        except DecodeError:
            pass
        else:
            assert raw.strip()[:1] in (b"{", b"[")


@pytest.mark.parametrize("cut", [members, elements])
@pytest.mark.parametrize(
    "raw",
    [b"", b"1", b'"a"', b"[", b"[1", b"[1]]", b"[1] 2", b"[}", b'["a]', b"{", b'{"a":[}', b'{"a":1}}', b"{1:2}"],
)
def test_what_is_not_balanced_is_refused(cut: Any, raw: bytes) -> None:
    with pytest.raises(DecodeError):
        cut(raw)


@pytest.mark.parametrize("raw", [b"\x0b[]", b"[]\x0c", b"\x0b{}", b'{\x0b"a":1}', b'{"a"\x0c:1}'])
def test_white_space_of_pythons_that_is_none_in_json_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        (members if b"{" in raw else elements)(raw)


def test_depth_does_not_matter_and_brackets_in_strings_do_not_count() -> None:
    deep = b"[" * 200_000 + b"]" * 200_000
    assert elements(b'[1, "]\\"[", %s ,2]' % deep) == [b"1", b'"]\\"["', deep, b"2"]
    assert members(b'{"a": %s, "b\\u0041": 2, "a": 3}' % deep) == {"a": b"3", "bA": b"2"}


@pytest.mark.parametrize(
    "nested",
    [
        b"[" * 50_000 + b"]" * 50_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'[1, {"]": ' * 25_000 + b'"x"' + b" }\n]" * 25_000,
        b"[" * 1_000 + b"[]" + b", {}" * 50_000 + b"]" * 1_000,
        b"[" * 1_000 + b"[[]]" + b', [[1], {"}": []}]' * 10_000 + b"]" * 1_000,
    ],
    ids=["arrays", "objects", "both", "wide", "wide and deep"],
)
def test_what_is_beside_a_nested_value_of_any_shape_is_cut_out(nested: bytes) -> None:
    assert elements(b"[ %s, 1 ,%s]" % (nested, nested)) == [nested, b"1", nested]
    assert members(b'{"a": %s, "b":%s ,"c":1}' % (nested, nested)) == {"a": nested, "b": nested, "c": b"1"}
    for broken in (nested[:-1], nested + b"]", nested[:-1] + b"}}", b"[" + nested, nested[:-1] + b'"]'):
        with pytest.raises(DecodeError):
            elements(b"[%s]" % broken)


def test_empty_brackets_have_no_part() -> None:
    assert elements(b" [ ] ") == []
    assert members(b"{\n}") == {}
