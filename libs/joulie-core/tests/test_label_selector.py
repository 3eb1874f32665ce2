"""Label selectors by the grammar and the meaning that Kubernetes documents; tests/e2e asks a real API server."""

import pytest

from joulie_core.label_selector import parse_label_selector, selects
from joulie_core.pod import Requirement, SelectorOperator

LABELS = {"tier": "a", "empty": "", "n": "5", "joulie.io/managed": "true", "in": "x", "word": "5_0"}
#: Selectors with the answer for `LABELS`; tests/e2e/test_label_selectors.py asks the same of a real API server.
CASES = [
    ("", True),
    (" \t", True),
    ("tier=a", True),
    ("tier==a", True),
    (" tier = a ", True),
    ("tier=b", False),
    ("tier!=a", False),
    ("tier != b", True),
    ("gone=a", False),
    ("gone!=a", True),
    ("gone=", False),
    ("gone!=", True),
    ("empty=", True),
    ("empty", True),
    ("tier=", False),
    ("tier in (a, b)", True),
    ("tier in(a)", True),
    ("tier in (b,c)", False),
    ("gone in (a)", False),
    ("tier notin (a)", False),
    ("tier notin ( b )", True),
    ("gone notin (a)", True),
    ("empty in ()", True),
    ("empty in (a,)", True),
    ("tier in ()", False),
    ("gone in ()", False),
    ("tier", True),
    ("gone", False),
    ("!gone", True),
    ("! tier", False),
    ("in", True),
    ("in in (x)", True),
    ("n>4", True),
    ("n > 5", False),
    ("n<6", True),
    ("n<5", False),
    ("gone>0", False),
    ("tier>0", False),
    ("word>4", False),
    ("n>0004", True),
    ("joulie.io/managed=true,tier=a,!gone,n in (5,6)", True),
    ("joulie.io/managed=true,tier=b", False),
    ("tier in (a,b),tier notin (b)", True),
]
REFUSED = [
    ",",
    "tier,",
    ",tier",
    "tier,,n",
    "tier in a",
    "tier in (a",
    "tier in a)",
    "tier in (a b)",
    "tierin (a)",
    "tier=a b",
    "tier=a=b",
    "tier>=1",
    "n>x",
    "n>-1",
    "n>9223372036854775808",
    "!tier=a",
    "-tier",
    "tier-=a",
    "tier=-a",
    "a..b/tier",
    "/tier",
    "UPPER/tier",
    "tier=" + "a" * 64,
    "a" * 64,
    "t\N{LATIN SMALL LETTER E WITH ACUTE}r",
    "tier\N{NO-BREAK SPACE}in (a)",
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_selector_selects_what_kubernetes_documents(text, expected):
    assert selects(parse_label_selector(text), LABELS) is expected


@pytest.mark.parametrize("text", REFUSED)
def test_what_kubernetes_refuses_is_no_selector(text):
    with pytest.raises(ValueError, match="is no requirement of a label selector"):
        parse_label_selector(text)


def test_the_part_that_is_wrong_is_named():
    with pytest.raises(ValueError, match=r"^'b in c' is no requirement of a label selector$"):
        parse_label_selector("a=1, b in c ,d")


def test_the_longest_names_and_the_largest_number_are_taken():
    prefix = ".".join(["a" * 62] * 4) + "a"
    assert len(prefix) == 252
    parse_label_selector(f"{prefix}a/{'b' * 63}={'c' * 63},n<9223372036854775807")
    with pytest.raises(ValueError, match="is no requirement"):
        parse_label_selector(f"{prefix}aa/b")


@pytest.mark.parametrize(
    "value", ["-6", "5", "", "6_0", " 6", "\N{ARABIC-INDIC DIGIT SIX}", "6.0", "9223372036854775808", "9" * 64, "x"]
)
def test_a_label_that_is_no_larger_whole_number_of_64_bits_is_not_greater(value):
    assert Requirement("n", SelectorOperator.GT, ("5",)).holds(value) is False


@pytest.mark.parametrize("value", ["6", "+6", "06", "9223372036854775807"])
def test_a_label_that_is_a_larger_whole_number_is_greater(value):
    assert Requirement("n", SelectorOperator.GT, ("5",)).holds(value) is True


def test_a_comparison_without_a_number_holds_for_no_label():
    assert Requirement("n", SelectorOperator.LT).holds("1") is False
    assert Requirement("n", SelectorOperator.LT, ("x",)).holds("1") is False
