"""Power readings from an HTTP endpoint per node, polled in the background.

Speaks the telemetry half of the HTTP backend, see `joulie_api.telemetry`. A node that does not answer keeps
its last reading, which ages, and so does one that answers 0 W or less.
"""

import asyncio
from collections.abc import Callable, Iterable

import aiohttp
import structlog

from joulie_api.answers import read_answer
from joulie_api.errors import DecodeError
from joulie_api.failure_log import FailureLog
from joulie_api.telemetry import TelemetryError, decode_telemetry
from joulie_core.kinds.node_twin import MeasurementSource
from joulie_core.names import NodeName
from joulie_operator.power import PowerSample, whole_node

#: Requests under way at once: 5,000 nodes at 5 ms each are polled within a second.
IN_FLIGHT = 32
#: An answer with a hundred devices has less than a tenth of it.
MAX_ANSWER_BYTES = 256 * 1024

_log = structlog.get_logger()


class HttpReadings:
    """Polls every node's endpoint: `poll` is called at intervals, `reading` is the answer."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        nodes: Callable[[], Iterable[NodeName]],
        *,
        interval_s: float,
        timeout_s: float = 3.0,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._nodes = nodes
        self.interval_s = interval_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._readings: dict[NodeName, PowerSample] = {}
        self._failures = FailureLog(
            _log.bind(source=MeasurementSource.HTTP), failed="power reading failed", recovered="power reading recovered"
        )

    def reading(self, name: NodeName) -> PowerSample | None:
        """Return the latest reading of the node."""
        return self._readings.get(name)

    async def poll(self) -> None:
        """Poll every node once."""
        names = set(self._nodes())
        for gone in self._readings.keys() - names:
            del self._readings[gone]
        self._failures.retain(lambda subject: subject["node"] in names)
        slots = asyncio.Semaphore(IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._poll_node(name, slots))

    async def _poll_node(self, name: NodeName, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                async with self._session.get(
                    self._endpoint.replace("{node}", name),
                    timeout=self._timeout,
                    raise_for_status=True,
                    allow_redirects=False,
                ) as answer:
                    raw = await read_answer(answer, max_bytes=MAX_ANSWER_BYTES, what="the endpoint")
                    telemetry = decode_telemetry(raw)
            except (aiohttp.ClientError, TimeoutError, ValueError, DecodeError, TelemetryError) as error:
                self._failures.failed(error, node=name)
                return
        if telemetry.cpu_watts is None:
            self._failures.failed("the answer has no CPU power above 0 W", node=name)
            return
        self._failures.recovered(node=name)
        now = asyncio.get_running_loop().time()
        self._readings[name] = whole_node(telemetry.cpu_watts, telemetry.gpu_watts, now, MeasurementSource.HTTP)
