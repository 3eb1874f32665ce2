"""Mean power of a node since its last sample: all CPU packages and GPUs together, or nothing.

CPU packages are measured by their energy counters where they have them; else, and of GPUs, by the power that the source
reports. Guarantees that no figure is lower than what the counters show for any time that can have passed, and none
where a device was not read.
"""

from dataclasses import dataclass, replace

from joulie_agent.backends.base import CpuReading, GpuReading
from joulie_core.budget.device_caps import LimitedDevices
from joulie_core.control.energy_meter import EnergyCounter, MeterState, step
from joulie_core.units import milliwatts_up


@dataclass(frozen=True, slots=True)
class DeviceReadings:
    """Readings of a node's CPUs and GPUs, each None without a usable one that was taken at the request."""

    cpu: CpuReading | None
    gpu: GpuReading | None
    #: Times of the agent's monotonic clock between which they were taken.
    from_s: float
    to_s: float


class DrawnMeter:
    """Meter of one node."""

    def __init__(self) -> None:
        #: Counters at the last sample, by zone.
        self._zones: dict[str, MeterState] = {}

    def sample(self, reading: DeviceReadings, devices: LimitedDevices) -> int | None:
        """Return the mean power since the last sample in milliwatts, rounded up; None where a device was not read."""
        cpu_watts = self._cpu_watts(reading, devices.packages)
        gpu_watts = (reading.gpu.power_watts if reading.gpu else None) if devices.gpus else 0.0
        if devices.problem or devices.packages < 1 or cpu_watts is None or gpu_watts is None:
            return None
        return milliwatts_up(cpu_watts + gpu_watts)

    def _cpu_watts(self, reading: DeviceReadings, packages: int) -> float | None:
        before, self._zones = self._zones, {}
        if reading.cpu is None:
            return None
        counters = {zone.zone: zone.energy_uj for zone in reading.cpu.zones}
        if not counters or None in counters.values():
            return reading.cpu.power_watts
        watts = []
        for zone in reading.cpu.zones:
            assert zone.energy_uj is not None
            counter = EnergyCounter(zone.range_uj, zone.max_watts)
            # From the end of the last reading to the start of this one: more than that has passed.
            state, _ = step(
                before.get(zone.zone, MeterState()), energy_uj=zone.energy_uj, now=reading.from_s, counter=counter
            )
            self._zones[zone.zone] = replace(state, at=reading.to_s)
            watts.append(state.power_watts)
        if len(watts) < packages or None in watts:
            return None
        return sum(each for each in watts if each is not None)
