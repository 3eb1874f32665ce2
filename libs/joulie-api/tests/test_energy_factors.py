"""The ConfigMap of energy factors: figures within bounds with their kind, or an error that names the key."""

import json
import re

import pytest

from joulie_api.energy_factors import (
    LONGEST_SOURCE,
    EmissionsFactor,
    EmissionsKind,
    EnergyFactors,
    EnergyPrice,
    decode_factors,
)
from joulie_api.errors import DecodeError

PRICE = {"pricePerKwh": "0.25", "currency": "EUR"}
EMISSIONS = {"gramsCo2ePerKwh": "350", "co2eKind": "marginal", "co2eSource": "grid operator, 2025"}


def raw(data):
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}).encode()


def test_price_and_emissions_are_read_with_currency_kind_and_source():
    found = decode_factors(raw({**PRICE, **EMISSIONS}))
    emissions = EmissionsFactor(350.0, EmissionsKind.MARGINAL, "grid operator, 2025")
    assert found == EnergyFactors(EnergyPrice(0.25, "EUR"), emissions)


@pytest.mark.parametrize("data", [None, {}])
def test_a_config_map_without_keys_has_no_factors(data):
    assert decode_factors(raw(data)) == EnergyFactors()


def test_one_of_both_is_enough():
    assert decode_factors(raw(PRICE)) == EnergyFactors(EnergyPrice(0.25, "EUR"))
    assert decode_factors(raw(EMISSIONS)).price is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "NaN", "nan", "inf", "-1", "-0.1", "+1", "1e308", "1e3", "0x10", "1_000", " 1", "1.", ".5", "1,5"),
        *("1000000.1", "\N{ARABIC-INDIC DIGIT THREE}", "9" * 400, "0." + "1" * 100_000, "0.25 EUR"),
    ],
)
@pytest.mark.parametrize("key", ["pricePerKwh", "gramsCo2ePerKwh"])
def test_what_is_no_plain_decimal_number_within_bounds_is_refused_by_key_and_value(key, text):
    with pytest.raises(DecodeError) as refused:
        decode_factors(raw({**PRICE, **EMISSIONS, key: text}))
    message = str(refused.value)
    assert message.startswith(f"ConfigMap joulie-energy-factors: key {key}: ")
    assert repr(text[:30])[:-1] in message
    assert len(message) < 200


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("currency", "euro"),
        ("currency", "eur"),
        ("currency", "E\x1b["),
        ("co2eKind", "Average"),
        ("co2eKind", ""),
        ("co2eSource", "   "),
        ("co2eSource", "x" * (LONGEST_SOURCE + 1)),
        ("co2eSource", "a\nb"),
        ("co2eSource", "\x1b[31mred"),
        ("co2eSource", "\u202ered"),
    ],
)
def test_texts_that_are_none_are_refused_by_key_and_value(key, text):
    with pytest.raises(DecodeError, match=f"key {key}: ") as refused:
        decode_factors(raw({**PRICE, **EMISSIONS, key: text}))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("key", [*PRICE, *EMISSIONS])
def test_a_figure_without_what_says_which_it_is_is_refused(key):
    data = {name: text for name, text in {**PRICE, **EMISSIONS}.items() if name != key}
    with pytest.raises(DecodeError, match=rf"key \w+ needs {key} beside it"):
        decode_factors(raw(data))


def test_a_key_that_is_not_known_is_refused_and_all_faults_are_named():
    with pytest.raises(DecodeError, match="unknown keys: price; known are pricePerKwh, ") as refused:
        decode_factors(raw({**EMISSIONS, "price": "1", "co2eKind": "both"}))
    assert re.search("key co2eKind: 'both' is not average or marginal", str(refused.value))


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data": []}', b'{"data": {"pricePerKwh": 0.25}}', b'{"data": "x"}'])
def test_what_is_no_config_map_is_refused(body):
    with pytest.raises(DecodeError, match="not a ConfigMap"):
        decode_factors(body)
