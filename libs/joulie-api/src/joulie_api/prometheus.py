"""Answers of a Prometheus server to an instant query.

Every series of the answer is returned, also one whose value is NaN or infinite: a caller that adds series up must know
that one of them has no value. Sending the query is left to the caller.
Source: Prometheus HTTP API, `/api/v1/query`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError

QUERY_PATH: Final = "/api/v1/query"


class QueryError(Exception):
    """The query has no usable answer; the message has the reason."""


@dataclass(frozen=True, slots=True)
class PrometheusSample:
    """One series of an instant vector, or a scalar (no labels)."""

    labels: Mapping[str, str]
    #: May be NaN or infinite.
    value: float


class _Series(msgspec.Struct):
    value: tuple[float, str]
    metric: dict[str, str] = {}


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct):
    status: str
    error: str = ""
    data: _Data | None = None


_WHAT: Final = "result of an instant query"
_ANSWER: Final = msgspec.json.Decoder(_Answer)
_VECTOR: Final = msgspec.json.Decoder(list[_Series])
_SCALAR: Final = msgspec.json.Decoder(tuple[float, str])


def decode_samples(raw: bytes) -> list[PrometheusSample]:
    """Return the series of an instant vector in the order of the answer, or the one number of a scalar.

    Raises:
        QueryError: an error of the server, or a result that is neither a vector nor a scalar.
    """
    try:
        answer = decode(_ANSWER.decode, raw, _WHAT)
        if answer.status != "success" or answer.data is None:
            raise QueryError(answer.error or f"status {answer.status}")
        match answer.data.result_type:
            case "vector":
                return [
                    PrometheusSample(series.metric, float(series.value[1]))
                    for series in decode(_VECTOR.decode, answer.data.result, _WHAT)
                ]
            case "scalar":
                return [PrometheusSample({}, float(decode(_SCALAR.decode, answer.data.result, _WHAT)[1]))]
            case other:
                raise QueryError(f"result type is {other}, must be vector or scalar")
    except DecodeError as error:
        raise QueryError(error.message) from error
    except ValueError as error:
        raise QueryError(f"not a {_WHAT}: {error}") from error
