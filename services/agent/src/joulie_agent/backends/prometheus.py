"""Power readings from a Prometheus query.

The reading is the sum of the samples, in watts, as CPU or as GPU power. An empty answer is no reading, and neither is a
sum with an implausible sample, 0 W included: it is the rate of a counter that stands still, and a sum without it would
make the node look cooler.
"""

from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuReading, GpuReading, NodeReading, Unavailable
from joulie_agent.backends.transport import HttpTarget, HttpTransport
from joulie_api.prometheus import QueryError, decode_samples
from joulie_core.plausible import is_measured


class PrometheusSource:
    """One query of one node; `gpu` selects the subsystem that the reading is of."""

    def __init__(self, transport: HttpTransport, target: HttpTarget, query: str, *, gpu: bool) -> None:
        self._transport = transport
        self._target = target
        self._query = query
        self._gpu = gpu

    async def read(self) -> NodeReading | Unavailable:
        """Query once."""
        raw = await self._transport.get(self._target, {"query": self._query})
        if isinstance(raw, Unavailable):
            return raw
        watts = _watts(raw)
        if isinstance(watts, Unavailable):
            return watts
        return (
            NodeReading(gpu=GpuReading(power_watts=watts))
            if self._gpu
            else NodeReading(cpu=CpuReading(power_watts=watts))
        )

    async def read_cpu(self) -> CpuReading | Unavailable:
        """Query once and return the CPU values."""
        reading = await self.read()
        return reading if isinstance(reading, Unavailable) else reading.cpu


def _watts(raw: bytes) -> float | Unavailable:
    try:
        values = [sample.value for sample in decode_samples(raw)]
    except QueryError as error:
        return Unavailable(Reason.MALFORMED_REPLY, str(error))
    if not values:
        return Unavailable(Reason.NO_READING, "the query answers no sample")
    unusable = [watts for watts in (*values, sum(values)) if not is_measured(watts)]
    if unusable:
        return Unavailable(Reason.NO_READING, f"the query answers {unusable[0]:g} W, which is no measurement")
    return sum(values)
