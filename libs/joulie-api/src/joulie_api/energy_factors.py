"""Cost and emissions of a kilowatt hour, as administrators write it in a ConfigMap; read by `kubectl joulie`.

Guarantees that every figure is a finite number within its bounds, that emissions come with the kind of figure that they
are, and that an error names the ConfigMap, the key and the value. Joulie has no figures of its own.
Source: docs/decisions/0063-receipts.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.text import first_of, printable

#: Name of the ConfigMap, in the namespace of the release.
FACTORS_NAME: Final = "joulie-energy-factors"
PRICE_KEY: Final = "pricePerKwh"
CURRENCY_KEY: Final = "currency"
GRAMS_KEY: Final = "gramsCo2ePerKwh"
KIND_KEY: Final = "co2eKind"
SOURCE_KEY: Final = "co2eSource"
#: Of a kWh, in any currency: some have a thousand times the units of others.
MOST_PRICE: Final = 1_000_000.0
#: Of a kWh: lignite emits some 1,200.
MOST_GRAMS: Final = 10_000.0
LONGEST_SOURCE: Final = 200
_LONGEST_QUOTE: Final = 40
_MOST_FAULTS: Final = 5
#: Neither NaN nor infinity, sign, exponent, or digits of other scripts.
_DECIMAL: Final = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,9})?")
#: Of ISO 4217.
_CURRENCY: Final = re.compile(r"[A-Z]{3}")


class EmissionsKind(StrEnum):
    """Kind of a figure of emissions."""

    #: Emissions of all supply over its energy.
    AVERAGE = "average"
    #: Emissions of the supply that one more kWh is drawn from.
    MARGINAL = "marginal"


@dataclass(frozen=True, slots=True)
class EnergyPrice:
    """Price of energy."""

    #: Within 0 to `MOST_PRICE`.
    per_kwh: float
    #: Three capital letters; None where the price was named without one.
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class EmissionsFactor:
    """Emissions of energy, in CO2 equivalents."""

    #: Within 0 to `MOST_GRAMS`.
    grams_per_kwh: float
    #: None where the figure was named without it.
    kind: EmissionsKind | None = None
    #: Where the figure is from, for people; empty where that was not said.
    source: str = ""

    @property
    def kilograms_per_kwh(self) -> float:
        """The same figure in kilograms."""
        return self.grams_per_kwh / 1000.0


@dataclass(frozen=True, slots=True)
class EnergyFactors:
    """Multipliers of energy; None: not given."""

    price: EnergyPrice | None = None
    emissions: EmissionsFactor | None = None


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_CONFIG_MAPS: Final = msgspec.json.Decoder(_ConfigMap)


def decode_factors(raw: bytes) -> EnergyFactors:
    """Read the factors of a ConfigMap.

    Raises:
        DecodeError: it is no ConfigMap, or a key is missing, unknown or has a value that cannot be used. Nothing of it
            is used then.
    """
    data = decode(_CONFIG_MAPS.decode, raw, "ConfigMap").data or {}
    faults = list(_faults(data))
    if faults:
        raise DecodeError(f"ConfigMap {FACTORS_NAME}: {'; '.join(faults[:_MOST_FAULTS])}")
    price = emissions = None
    if PRICE_KEY in data:
        price = EnergyPrice(float(data[PRICE_KEY]), data[CURRENCY_KEY])
    if GRAMS_KEY in data:
        kind = EmissionsKind(data[KIND_KEY])
        emissions = EmissionsFactor(float(data[GRAMS_KEY]), kind, data[SOURCE_KEY].strip())
    return EnergyFactors(price, emissions)


def _is_amount(text: str, most: float) -> bool:
    return _DECIMAL.fullmatch(text) is not None and float(text) <= most


def _is_source(text: str) -> bool:
    return bool(text.strip()) and len(text) <= LONGEST_SOURCE and text.isprintable()


#: By key: what its value has to be, and the rule.
_RULES: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    PRICE_KEY: (f"a decimal number from 0 to {MOST_PRICE:.0f}", lambda text: _is_amount(text, MOST_PRICE)),
    CURRENCY_KEY: ("three capital letters, as EUR", lambda text: _CURRENCY.fullmatch(text) is not None),
    GRAMS_KEY: (f"a decimal number from 0 to {MOST_GRAMS:.0f}", lambda text: _is_amount(text, MOST_GRAMS)),
    KIND_KEY: (" or ".join(EmissionsKind), lambda text: text in set(EmissionsKind)),
    SOURCE_KEY: (f"printable text of at most {LONGEST_SOURCE} characters", _is_source),
}
#: Keys that need each other.
TOGETHER: Final = ((PRICE_KEY, CURRENCY_KEY), (GRAMS_KEY, KIND_KEY, SOURCE_KEY))


def _faults(data: Mapping[str, str]) -> Iterator[str]:
    for key, (wanted, is_right) in _RULES.items():
        if key in data and not is_right(data[key]):
            yield f"key {key}: {printable(data[key], _LONGEST_QUOTE)!r} is not {wanted}"
    for keys in TOGETHER:
        missing = [key for key in keys if key not in data]
        if missing and len(missing) < len(keys):
            there = next(key for key in keys if key in data)
            yield f"key {there} needs {' and '.join(missing)} beside it"
    unknown = sorted(key for key in data if key not in _RULES)
    if unknown:
        names = first_of([printable(key, _LONGEST_QUOTE) for key in unknown], _MOST_FAULTS)
        yield f"unknown keys: {names}; known are {', '.join(_RULES)}"
