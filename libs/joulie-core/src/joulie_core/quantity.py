"""Kubernetes resource quantities, read exactly.

Guarantees the value that Kubernetes itself would use: the whole grammar of resource.Quantity (sign, decimals, decimal
exponent, decimal and binary suffixes), rounded up to nano units and capped at 2^63-1 in magnitude as Kubernetes does.
Does not write quantities and does not keep the form in which one was written.
Source: Kubernetes API reference, Quantity.
"""

import math
import re
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Final

_GRAMMAR: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?P<suffix>[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?",
)
_FACTORS: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_MAX: Final = Decimal(2**63 - 1)
_NANO: Final = Decimal("1e-9")
#: Longest text that is read; Kubernetes writes at most about 20 characters.
_MAX_LENGTH: Final = 128
#: Exponents beyond this are outside [1n, 2^63-1] whatever the digits (their number is bounded above).
_EXPONENT_LIMIT: Final = 1000
#: Exact for every product of a text of `_MAX_LENGTH` digits and a factor.
_EXACT: Final = Context(prec=_MAX_LENGTH + 64)


class QuantityError(ValueError):
    """A value is no Kubernetes quantity; the message names it."""

    def __init__(self, value: object) -> None:
        super().__init__(f"not a Kubernetes quantity: {value!r}")
        self.value = value


def parse_quantity(value: str | float) -> Decimal:
    """Return the exact value of a quantity in its base unit (cores, bytes, devices).

    `1E` is one exa, `1E2` is one hundred, as in Kubernetes. JSON numbers are taken as they are written.

    Raises:
        QuantityError: the value does not follow the grammar.
    """
    if isinstance(value, str):
        return _parse(value)
    if isinstance(value, bool) or not math.isfinite(value):
        raise QuantityError(value)
    return _bounded(Decimal(repr(value)))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Decimal:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise QuantityError(text)
    number = Decimal(match["number"])
    suffix = match["suffix"] or ""
    factor = _FACTORS.get(suffix)
    if factor is None:
        exponent = max(-_EXPONENT_LIMIT, min(_EXPONENT_LIMIT, int(suffix[1:])))
        return _bounded(number.scaleb(exponent, _EXACT))
    return _bounded(_EXACT.multiply(number, factor))


def _bounded(value: Decimal) -> Decimal:
    if abs(value) > _MAX:
        return _MAX.copy_sign(value)
    if value and abs(value) < _NANO:
        return _NANO.copy_sign(value)
    return value.quantize(_NANO, ROUND_UP, _EXACT) if int(value.as_tuple().exponent) < _NANO.adjusted() else value
