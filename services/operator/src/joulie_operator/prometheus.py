"""Instant queries to a Prometheus server."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final

import aiohttp

from joulie_api.answers import read_answer
from joulie_api.errors import DecodeError
from joulie_api.prometheus import QUERY_PATH, PrometheusSample, QueryError, decode_series, split_samples

#: 5,000 nodes with a dozen series each, of 250 bytes.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
#: Series that are decoded before others get the event loop: some milliseconds.
PART: Final = 2000
#: A sample that is older has no value; Prometheus looks back as long by default.
MAX_AGE_S: Final = 300.0
_REDIRECTS: Final = range(HTTPStatus.MULTIPLE_CHOICES, HTTPStatus.BAD_REQUEST)


class Prometheus:
    """One server; `address` is its base URL, `session` one with `joulie_api.answers.session_options`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        address: str,
        *,
        timeout_s: float = 10.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._session = session
        self._url = f"{address.rstrip('/')}{QUERY_PATH}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._wall = wall

    async def query(self, expression: str) -> list[PrometheusSample]:
        """Return the samples of an instant query, also those that are not finite; one of another time is not a number.

        Raises:
            QueryError: no answer, an error, or something that is neither a vector nor a scalar.

        """
        try:
            async with self._session.post(
                self._url, data={"query": expression}, timeout=self._timeout, allow_redirects=False
            ) as response:
                raw = await read_answer(response, max_bytes=MAX_ANSWER_BYTES, what=self._url)
                if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status in _REDIRECTS:
                    raise QueryError(f"{self._url} answers {response.status}")
        except DecodeError as error:
            raise QueryError(error.message) from error
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise QueryError(f"{type(error).__name__}: {error}") from error
        samples = []
        for number, part in enumerate(split_samples(raw), start=1):
            samples.append(self._dated(part if isinstance(part, PrometheusSample) else decode_series(part)))
            if number % PART == 0:
                await asyncio.sleep(0)
        return samples

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

    def _dated(self, sample: PrometheusSample) -> PrometheusSample:
        # Written so that a time that is not a number is no time. A clock may be ahead as well as behind.
        return sample if abs(self._wall() - sample.at_s) <= MAX_AGE_S else replace(sample, value=math.nan)
