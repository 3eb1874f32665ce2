"""Power readings from an HTTP endpoint per node, polled in the background.

Speaks the telemetry half of the HTTP backend: `GET .../telemetry/{node}` answers `{"packagePowerWatts": w}` or
`{"cpu": {"packagePowerWatts": w}, "gpu": {"powerWatts": w}}`, further fields welcome. A node that does not answer keeps
its last reading, which ages, and so does one that answers 0 W or less. Source: contracts, section 4.
"""

import asyncio
from collections.abc import Callable, Iterable

import aiohttp
import msgspec
import structlog

from joulie_core.kinds.node_twin import MeasurementSource
from joulie_core.names import NodeName
from joulie_core.plausible import reading_watts
from joulie_operator.power import PowerSample, whole_node

#: Requests under way at once: 5,000 nodes at 5 ms each are asked within a second.
IN_FLIGHT = 32

_log = structlog.get_logger()


class _Cpu(msgspec.Struct, rename="camel"):
    package_power_watts: float | None = None


class _Gpu(msgspec.Struct, rename="camel"):
    power_watts: float | None = None


class Telemetry(msgspec.Struct, rename="camel"):
    """The part of the answer that is read."""

    package_power_watts: float | None = None
    cpu: _Cpu | None = None
    gpu: _Gpu | None = None

    def cpu_watts(self) -> float | None:
        """Return the power of all packages."""
        nested = self.cpu.package_power_watts if self.cpu is not None else None
        return self.package_power_watts if nested is None else nested

    def gpu_watts(self) -> float | None:
        """Return the power of all GPUs."""
        return self.gpu.power_watts if self.gpu is not None else None


class HttpReadings:
    """Polls every node's endpoint; `run` is a task, `reading` the answer."""

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
        self._interval_s = interval_s
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._readings: dict[NodeName, PowerSample] = {}
        self._failing: dict[NodeName, str] = {}

    def reading(self, name: NodeName) -> PowerSample | None:
        """Return the latest reading of the node."""
        return self._readings.get(name)

    async def run(self) -> None:
        """Poll for ever."""
        loop = asyncio.get_running_loop()
        while True:
            started_at = loop.time()
            await self.poll()
            await asyncio.sleep(max(0.0, started_at + self._interval_s - loop.time()))

    async def poll(self) -> None:
        """Ask every node once."""
        names = list(self._nodes())
        for gone in self._readings.keys() - set(names):
            del self._readings[gone]
        slots = asyncio.Semaphore(IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._ask(name, slots))

    async def _ask(self, name: NodeName, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                async with self._session.get(
                    self._endpoint.replace("{node}", name), timeout=self._timeout, raise_for_status=True
                ) as answer:
                    telemetry = msgspec.json.decode(await answer.read(), type=Telemetry)
            except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as error:
                self._report(name, f"{type(error).__name__}: {error}")
                return
        cpu = reading_watts(telemetry.cpu_watts())
        if cpu is None:
            self._report(name, "the answer has no CPU power above 0 W")
            return
        self._report(name, None)
        now = asyncio.get_running_loop().time()
        self._readings[name] = whole_node(cpu, telemetry.gpu_watts(), now, MeasurementSource.HTTP)

    def _report(self, name: NodeName, problem: str | None) -> None:
        """Log the beginning and the end of a node's silence, not each poll of it."""
        if problem is None:
            if self._failing.pop(name, None) is not None:
                _log.info("power reading works again", node=name, source="http")
        elif name not in self._failing:
            self._failing[name] = problem
            _log.warning("no power reading", node=name, source="http", problem=problem)
