"""Instant queries to a Prometheus server. Source: Prometheus HTTP API, `/api/v1/query`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import msgspec


class QueryError(Exception):
    """The query has no usable answer; the message says why."""


@dataclass(frozen=True, slots=True)
class PrometheusSample:
    """One series of an instant vector, or a scalar (no labels)."""

    labels: Mapping[str, str]
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


class Prometheus:
    """One server; `address` is its base URL."""

    def __init__(self, session: aiohttp.ClientSession, address: str, *, timeout_s: float = 10.0) -> None:
        self._session = session
        self._url = f"{address.rstrip('/')}/api/v1/query"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def query(self, expression: str) -> list[PrometheusSample]:
        """Return the finite samples of an instant query.

        Raises:
            QueryError: no answer, an error, or something that is neither a vector nor a scalar.

        """
        try:
            async with self._session.post(self._url, data={"query": expression}, timeout=self._timeout) as response:
                raw = await response.read()
                if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise QueryError(f"{self._url} answers {response.status}")
            answer = msgspec.json.decode(raw, type=_Answer)
            if answer.status != "success" or answer.data is None:
                raise QueryError(answer.error or f"status {answer.status}")
            samples = _samples(answer.data)
        except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError, ValueError) as error:
            raise QueryError(f"{type(error).__name__}: {error}") from error
        return [sample for sample in samples if math.isfinite(sample.value)]

    async def value(self, expression: str) -> float:
        """Return the one number that the query answers.

        Raises:
            QueryError: as `query`, or not exactly one series.

        """
        samples = await self.query(expression)
        if len(samples) != 1:
            raise QueryError(f"{expression} answers {len(samples)} series, one is needed")
        return samples[0].value


def _samples(data: _Data) -> list[PrometheusSample]:
    if data.result_type == "vector":
        vector = msgspec.json.decode(data.result, type=list[_Series])
        return [PrometheusSample(series.metric, float(series.value[1])) for series in vector]
    if data.result_type == "scalar":
        return [PrometheusSample({}, float(msgspec.json.decode(data.result, type=tuple[float, str])[1]))]
    raise QueryError(f"the result is a {data.result_type}, a vector is needed")
