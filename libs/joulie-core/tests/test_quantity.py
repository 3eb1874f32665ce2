from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joulie_core.quantity import QuantityError, parse_quantity

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
} | {f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("2", "2"),
        ("250m", "0.25"),
        ("0.5", "0.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1.5Gi", "1610612736"),
        ("-3k", "-3000"),
        ("128974848", "128974848"),
        ("129e6", "129000000"),
        ("129M", "129000000"),
        ("128974848000m", "128974848"),
        ("123Mi", "128974848"),
        ("1E", "1000000000000000000"),
        ("1E2", "100"),
        ("1e-3", "0.001"),
        ("1E+2", "100"),
        ("1Ei", "1152921504606846976"),
        ("100u", "0.0001"),
        ("1n", "0.000000001"),
        ("007", "7"),
    ],
)
def test_every_form_of_the_grammar_is_read_exactly(text, value):
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "abc",
        "1 Gi",
        "1gi",
        "1K",
        "1ki",
        "1mi",
        "--1",
        "1e",
        "1e1.5",
        "1.2.3",
        ".",
        "m",
        "+",
        "1Mi2",
        "0x10",
        "1,5",
        "1\n",
        "٣",
        "1" * 200,
    ],
)
def test_a_text_outside_the_grammar_is_refused_by_name(text):
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(("number", "value"), [(4, "4"), (0.1, "0.1"), (-2, "-2"), (1e3, "1000")])
def test_json_numbers_are_taken_as_written(number, value):
    assert parse_quantity(number) == Decimal(value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), True])
def test_what_is_no_number_is_refused(number):
    with pytest.raises(QuantityError):
        parse_quantity(number)


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.1n", "1e-9"), ("-0.1n", "-1e-9"), ("1.0000000001", "1.000000001"), ("1e-400", "1e-9"), ("0e-400", "0")],
)
def test_finer_than_nano_rounds_up_as_in_kubernetes(text, value):
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["8Ei", "9223372036854775808", "1e400", "1e999999999999999999999", "1000E"])
def test_more_than_an_int64_is_capped_as_in_kubernetes(text):
    assert parse_quantity(text) == 2**63 - 1
    assert parse_quantity("-" + text) == -(2**63 - 1)


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.integers(0, 10**6),
    fraction=st.text("0123456789", max_size=6),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_number_times_suffix_is_the_value(sign, whole, fraction, suffix):
    exact = Fraction(f"{whole}.{fraction or 0}") * SUFFIXES[suffix] * (-1 if sign == "-" else 1)
    value = Fraction(parse_quantity(f"{sign}{whole}.{fraction}{suffix}"))
    if abs(exact) > 2**63 - 1:
        assert abs(value) == 2**63 - 1
    else:
        assert abs(value) >= abs(exact)
        assert abs(value - exact) < Fraction(1, 10**9)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_integers_round_trip(number):
    assert parse_quantity(str(number)) == number


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert abs(value) <= 2**63 - 1
