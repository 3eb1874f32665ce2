"""Energy counters of this machine's CPU packages and GPUs, from the actuator's readings."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_actuator.client import HardwareClient
from joulie_actuator.protocol import ReadCpu, ReadGpu
from joulie_actuator.replies import CpuReadings, GpuReadings
from joulie_core.attribution.packages import ZoneCounter
from joulie_core.control.energy_meter import EnergyCounter

#: Seconds that a reading may take: later, the time of the counters is not known well enough.
LONGEST_READ_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class HostCounters:
    """Counters at one moment; None where they could not be read in time."""

    #: Monotonic.
    at_s: float
    #: By zone; None for one without a counter, or whose counter could not be read.
    zones: Mapping[str, ZoneCounter | None] | None
    #: Millijoules by UUID; None for a GPU without a counter, or that could not be read.
    gpus_mj: Mapping[str, int | None] | None


async def read_counters(client: HardwareClient, longest_s: float = LONGEST_READ_S) -> HostCounters:
    """Read all counters once; those that take longer are not used."""
    now = asyncio.get_running_loop().time
    started = now()
    (cpu, cpu_at), (gpu, gpu_at) = await asyncio.gather(
        _timed(client, ReadCpu(power_only=True)), _timed(client, ReadGpu(energy_only=True))
    )
    zones = gpus = None
    if isinstance(cpu, CpuReadings) and cpu_at - started <= longest_s:
        zones = {
            each.zone: None
            if each.energy_uj is None
            else ZoneCounter(each.energy_uj, EnergyCounter(each.range_uj, each.max_watts))
            for each in cpu.zones
        }
    if isinstance(gpu, GpuReadings) and gpu_at - started <= longest_s:
        gpus = {each.uuid: each.energy_mj for each in gpu.gpus}
    return HostCounters(started, zones, gpus)


async def _timed(client: HardwareClient, request: ReadCpu | ReadGpu) -> tuple[object, float]:
    reply = await client.execute(request)
    return reply, asyncio.get_running_loop().time()
