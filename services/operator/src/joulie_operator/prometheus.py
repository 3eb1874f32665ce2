"""Instant queries to a Prometheus server."""

import math
from http import HTTPStatus

import aiohttp

from joulie_api.prometheus import QUERY_PATH, PrometheusSample, QueryError, decode_samples


class Prometheus:
    """One server; `address` is its base URL."""

    def __init__(self, session: aiohttp.ClientSession, address: str, *, timeout_s: float = 10.0) -> None:
        self._session = session
        self._url = f"{address.rstrip('/')}{QUERY_PATH}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def query(self, expression: str) -> list[PrometheusSample]:
        """Return the samples of an instant query, also those that are not finite.

        Raises:
            QueryError: no answer, an error, or something that is neither a vector nor a scalar.

        """
        try:
            async with self._session.post(self._url, data={"query": expression}, timeout=self._timeout) as response:
                raw = await response.read()
                if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise QueryError(f"{self._url} answers {response.status}")
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise QueryError(f"{type(error).__name__}: {error}") from error
        return decode_samples(raw)

    async def value(self, expression: str) -> float:
        """Return the one finite number that the query answers.

        Raises:
            QueryError: as `query`, or not exactly one series, or one without a number.

        """
        samples = await self.query(expression)
        if len(samples) != 1:
            raise QueryError(f"{expression} answers {len(samples)} series, one is needed")
        if not math.isfinite(samples[0].value):
            raise QueryError(f"{expression} answers {samples[0].value}")
        return samples[0].value
