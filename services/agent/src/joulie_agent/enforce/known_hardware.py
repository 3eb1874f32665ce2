"""The hardware of one node: as its sources have described it, and as it was published before they answered.

Hardware that does not answer just now is still the hardware of the last answer.
"""

import asyncio
from typing import Final

import structlog

from joulie_agent.backends.base import CpuReading, GpuReading, NodeReading, ReadingSource, Unavailable
from joulie_agent.backends.factory import NodeBackends
from joulie_agent.discovery.discoverer import DiscoveredHardware, Discoverer
from joulie_agent.discovery.facts import HardwareFacts
from joulie_core.kinds.node_hardware import Capabilities, NodeHardwareStatus
from joulie_core.kinds.telemetry_profile import ControlType, SourceType
from joulie_core.node import Node

_NO_FACTS: Final = HardwareFacts()


class KnownHardware:
    """Reads the sources of one node, and keeps what they tell of its hardware."""

    def __init__(self, discoverer: Discoverer, log: structlog.stdlib.BoundLogger) -> None:
        self._discoverer = discoverer
        self._log = log
        self._facts: HardwareFacts | None = None
        #: Subsystems whose source has not answered this agent yet.
        self._unread = {"cpu", "gpu"}

    @property
    def facts(self) -> HardwareFacts:
        """Facts of the sources, without those that labels and the inventory add."""
        return self._facts or _NO_FACTS

    async def read(self, backends: NodeBackends) -> tuple[CpuReading | None, GpuReading | None]:
        """Read CPUs and GPUs, and take over what their sources tell of them; None without a usable reading."""
        if backends.cpu_source is backends.gpu_source:
            reading = await self._query("cpu", backends.cpu_source)
            if reading is None:
                return None, None
            self._facts = reading.facts
            self._unread.clear()
            return reading.cpu, reading.gpu
        by_cpu, by_gpu = await asyncio.gather(
            self._query("cpu", backends.cpu_source), self._query("gpu", backends.gpu_source)
        )
        self._unread -= {name for name, answer in (("cpu", by_cpu), ("gpu", by_gpu)) if answer is not None}
        if by_cpu is not None or by_gpu is not None:
            old, of_cpu, of_gpu = self._facts or _NO_FACTS, by_cpu and by_cpu.facts, by_gpu and by_gpu.facts
            self._facts = HardwareFacts(
                cpu=of_cpu.cpu if of_cpu else old.cpu,
                gpu=of_gpu.gpu if of_gpu else old.gpu,
                memory=of_cpu.memory if of_cpu else old.memory,
                can=(of_cpu and of_cpu.can) or (of_gpu and of_gpu.can) or old.can,
                # Of a source that did not answer now what it told before stays, as its facts do.
                dropped=tuple(dict.fromkeys(each for part in (of_cpu or old, of_gpu or old) for each in part.dropped)),
            )
        return (by_cpu.cpu if by_cpu else None), (by_gpu.gpu if by_gpu else None)

    def discover(self, node: Node, published: NodeHardwareStatus | None, backends: NodeBackends) -> DiscoveredHardware:
        """Return the hardware of the node; `published` is the status of its NodeHardware, None without one."""
        if self._facts is None and published is not None and backends.capabilities.cpu_telemetry:
            # The backend has not answered this agent yet. Labels alone could have less than it reported before.
            return DiscoveredHardware(published.model_copy(update={"updated_at": None}))
        facts = self._facts or _NO_FACTS
        found = self._discoverer.discover(node, facts, _capabilities(backends, facts.can))
        return found if published is None else self._with_unread(found, published, backends)

    async def _query(self, subsystem: str, source: ReadingSource) -> NodeReading | None:
        answer = await source.read()
        if isinstance(answer, Unavailable):
            self._log.debug("no reading", subsystem=subsystem, reason=answer.reason, message=answer.message)
            return None
        return answer

    def _with_unread(
        self, found: DiscoveredHardware, published: NodeHardwareStatus, backends: NodeBackends
    ) -> DiscoveredHardware:
        """Keep as published what comes from a source that has not answered this agent yet."""
        # Where neither has answered, nothing is found yet and all is as published.
        kept: dict[str, object]
        if "cpu" in self._unread and backends.capabilities.cpu_telemetry:
            kept = {"cpu": published.cpu, "memory": published.memory, "quality": published.quality}
        elif "gpu" in self._unread and backends.capabilities.gpu_telemetry:
            kept = {"gpu": published.gpu, "quality": published.quality}
        else:
            return found
        return DiscoveredHardware(found.status.model_copy(update=kept))


def _capabilities(backends: NodeBackends, host: Capabilities | None) -> Capabilities:
    """Return what works on the node: where a subsystem is routed to the host, only what the host can do."""
    route, can = backends.route, backends.capabilities
    if host is None:
        return can
    on_host = {
        "cpu_control": route.cpu_control.type is ControlType.HOST,
        "gpu_control": route.gpu_control.type is ControlType.HOST,
        "cpu_telemetry": route.cpu_source.type is SourceType.HOST,
        "gpu_telemetry": route.gpu_source.type is SourceType.HOST,
    }
    lacking = {name: False for name, here in on_host.items() if here and not getattr(host, name)}
    return can.model_copy(update=lacking)
