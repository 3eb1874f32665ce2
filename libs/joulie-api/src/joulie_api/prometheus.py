"""Answers of a Prometheus server to an instant query.

Every series of the answer is returned, also one whose value is NaN, infinite or no number, such as a histogram: a
caller that adds series up must know that one of them has no value. A series whose labels cannot be read makes the
answer invalid, since what it is about is not known. Sending the query is left to the caller.
Source: Prometheus HTTP API, `/api/v1/query`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_core.text import printable

QUERY_PATH: Final = "/api/v1/query"


class QueryError(Exception):
    """The query has no usable answer; the message has the reason."""


@dataclass(frozen=True, slots=True)
class PrometheusSample:
    """One series of an instant vector, or a scalar (no labels)."""

    labels: Mapping[str, str]
    #: May be NaN or infinite; NaN where the answer has no number.
    value: float
    #: Seconds since the epoch; of which the value is. NaN where the answer has no number.
    at_s: float


class _Series(msgspec.Struct):
    value: tuple[float, str]
    metric: dict[str, str] = {}


class _Labels(msgspec.Struct):
    metric: dict[str, str] = {}


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    status: str
    error: str = ""
    data: _Data | None = None


#: Characters of a server's own text in a message.
_MAX_ERROR: Final = 300
_WHAT: Final = "result of an instant query"
_ANSWER: Final = msgspec.json.Decoder(_Answer)
_VECTOR: Final = msgspec.json.Decoder(list[msgspec.Raw])
_SERIES: Final = msgspec.json.Decoder(_Series)
_LABELS: Final = msgspec.json.Decoder(_Labels)
_SCALAR: Final = msgspec.json.Decoder(tuple[float, str])


def error_text(raw: bytes) -> str | None:
    """Return the text of an error answer; None where it is not one, such as an error of what is in between."""
    try:
        answer = decode(_ANSWER.decode, raw, _WHAT)
    except DecodeError:
        return None
    return _error_of(answer) if answer.status == "error" else None


def decode_samples(raw: bytes) -> list[PrometheusSample]:
    """Return the series of an instant vector in the order of the answer, or the one number of a scalar.

    Raises:
        QueryError: an error of the server, or a result that is neither a vector nor a scalar.
    """
    return [part if isinstance(part, PrometheusSample) else decode_series(part) for part in split_samples(raw)]


def split_samples(raw: bytes) -> Sequence[msgspec.Raw | PrometheusSample]:
    """Return the series undecoded, for `decode_series`, or the one number of a scalar. Raise as `decode_samples`."""
    try:
        answer = decode(_ANSWER.decode, raw, _WHAT)
        if answer.status != "success" or answer.data is None:
            raise QueryError(_error_of(answer))
        match answer.data.result_type:
            case "vector":
                return decode(_VECTOR.decode, answer.data.result, _WHAT)
            case "scalar":
                return [_sample({}, decode(_SCALAR.decode, answer.data.result, _WHAT))]
            case other:
                raise QueryError(f"result type is {printable(other, _MAX_ERROR)}, must be vector or scalar")
    except DecodeError as error:
        raise QueryError(error.message) from error


def decode_series(raw: msgspec.Raw) -> PrometheusSample:
    """Return one series. Raise as `decode_samples`."""
    try:
        series = decode(_SERIES.decode, raw, _WHAT)
        return _sample(series.metric, series.value)
    except (DecodeError, QueryError):
        pass  # Perhaps its value alone cannot be read.
    try:
        labels = decode(_LABELS.decode, raw, _WHAT).metric
    except DecodeError as error:
        raise QueryError(error.message) from error
    return PrometheusSample(labels, math.nan, math.nan)


def _error_of(answer: _Answer) -> str:
    return printable(answer.error, _MAX_ERROR) or f"status {printable(answer.status, _MAX_ERROR)}"


def _sample(labels: Mapping[str, str], value: tuple[float, str]) -> PrometheusSample:
    try:
        return PrometheusSample(labels, float(value[1]), value[0])
    except ValueError as error:
        raise QueryError(f"not a {_WHAT}: {printable(str(error), _MAX_ERROR)}") from error
