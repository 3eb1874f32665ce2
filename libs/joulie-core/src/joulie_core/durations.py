"""Durations as people write them in settings: `30s`, `1h30m`, `1.5s`.

Guarantees the grammar of Go's time.ParseDuration, which users of Kubernetes know, and its canonical form on output.
Values are seconds; what is finer than a nanosecond is cut off, as Go does.
"""

import re
from typing import Final

_NS_PER_UNIT: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,  # micro sign
    "\u03bcs": 10**3,  # Greek mu, which looks the same
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_NS_PER_S: Final = 10**9
_MAX_NS: Final = 2**63 - 1
#: A nanosecond count has 19 digits at most; leading zeros beyond this are not intended.
_MAX_LENGTH: Final = 128


class DurationError(ValueError):
    """A text is no duration; the message names it and shows the form."""

    def __init__(self, value: object) -> None:
        super().__init__(f"not a duration: {value!r} (write for example 30s, 5m or 1h30m)")
        self.value = value


def parse_duration(text: str) -> float:
    """Return the seconds that a Go duration stands for; negative durations are allowed.

    Raises:
        DurationError: the text does not follow the grammar, or is beyond about 292 years.
    """
    body = text[1:] if text[:1] in ("+", "-") else text
    if body == "0":
        return 0.0
    if not body or len(body) > _MAX_LENGTH:
        raise DurationError(text)
    total_ns, position = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None:
            raise DurationError(text)
        total_ns += _part_ns(match, text)
        position = match.end()
    if total_ns > _MAX_NS:
        raise DurationError(text)
    seconds = total_ns / _NS_PER_S
    return -seconds if text[0] == "-" else seconds


def _part_ns(match: re.Match[str], text: str) -> int:
    whole, fraction = match["whole"], match["fraction"] or ""
    if not whole and not fraction:
        raise DurationError(text)
    unit_ns = _NS_PER_UNIT[match["unit"]]
    scale: int = 10 ** len(fraction)
    return int(whole or "0") * unit_ns + int(fraction or "0") * unit_ns // scale


def format_duration(seconds: float) -> str:
    """Return the canonical Go form, rounded to nanoseconds: `1m30s`, `1h0m0s`, `250ms`, `0s`.

    Raises:
        DurationError: the value is not finite or beyond what Go can hold.
    """
    if not abs(seconds) * _NS_PER_S <= _MAX_NS:
        raise DurationError(seconds)
    total_ns = round(abs(seconds) * _NS_PER_S)
    sign = "-" if seconds < 0 and total_ns else ""
    return sign + (_small(total_ns) if total_ns < _NS_PER_S else _large(total_ns))


def _small(total_ns: int) -> str:
    if total_ns == 0:
        return "0s"
    unit = "ms" if total_ns >= _NS_PER_UNIT["ms"] else "us" if total_ns >= _NS_PER_UNIT["us"] else "ns"
    return _decimal(total_ns, _NS_PER_UNIT[unit]) + ("\u00b5s" if unit == "us" else unit)


def _large(total_ns: int) -> str:
    minutes, rest_ns = divmod(total_ns, _NS_PER_UNIT["m"])
    text = _decimal(rest_ns, _NS_PER_S) + "s"
    if not minutes:
        return text
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{text}" if hours else f"{minutes}m{text}"


def _decimal(amount_ns: int, unit_ns: int) -> str:
    whole, rest = divmod(amount_ns, unit_ns)
    fraction = str(rest).rjust(len(str(unit_ns)) - 1, "0").rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)
