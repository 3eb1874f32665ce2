"""Readings of the actuator, in the hardware's units, as those of a backend, in watts and seconds."""

from typing import Final

from joulie_actuator.hardware.gpu.driver import MW_PER_WATT
from joulie_actuator.hardware.power_meter import total_watts
from joulie_actuator.hardware.rapl import UW_PER_WATT
from joulie_actuator.hardware.rapl_domains import ConstraintReading
from joulie_actuator.replies import CpuReadings, GpuReadings
from joulie_agent.backends.base import CoreFrequency, CpuReading, GpuReading, GpuSample, PowerConstraint, ZoneSample

_US_PER_S: Final = 1_000_000
_PERCENT: Final = 100


def cpu_reading(readings: CpuReadings) -> CpuReading:
    """Return a reading of the CPUs."""
    return CpuReading(
        power_watts=total_watts(readings.zones),
        throttle_pct=readings.throttle_pct,
        zones=tuple(
            ZoneSample(zone.zone, zone.energy_uj, zone.power_watts, zone.range_uj, zone.max_watts)
            for zone in readings.zones
        ),
        frequencies=tuple(
            CoreFrequency(str(cpu), policy.current_khz, policy.max_khz)
            for policy in readings.policies
            for cpu in policy.cpus
        ),
        overwritten=sum(readings.overwritten.values()),
        domains=tuple(ZoneSample(domain.zone, domain.energy_uj, domain.power_watts) for domain in readings.domains),
        constraints=tuple(_constraint(constraint) for constraint in readings.constraints),
        throttled_by_class=readings.throttled_by_class,
    )


def _constraint(reading: ConstraintReading) -> PowerConstraint:
    limit_watts = None if reading.limit_uw is None else reading.limit_uw / UW_PER_WATT
    window_s = None if reading.time_window_us is None else reading.time_window_us / _US_PER_S
    return PowerConstraint(reading.zone, reading.constraint, limit_watts, window_s)


def gpu_reading(readings: GpuReadings) -> GpuReading:
    """Return a reading of the GPUs; without the power of one, that of all is not known."""
    draws = [gpu.power_mw for gpu in readings.gpus]
    total_mw = sum(draw for draw in draws if draw is not None)
    return GpuReading(
        power_watts=total_mw / MW_PER_WATT if draws and None not in draws else None,
        gpus=tuple(
            GpuSample(
                gpu.uuid,
                _watts(gpu.power_mw),
                _watts(gpu.limit_mw),
                # What an actuator has left of before it started is not told apart, and counts as a cap's.
                gpu.clock_limit_mhz if gpu.class_clock_mhz is None else gpu.cap_clock_mhz,
                gpu.clock_bound,
                gpu.clock_mhz,
                None if gpu.busy_pct is None else gpu.busy_pct / _PERCENT,
                gpu.class_clock_mhz,
            )
            for gpu in readings.gpus
        ),
        overwritten=sum(readings.overwritten.values()),
    )


def _watts(milli_watts: int | None) -> float | None:
    return None if milli_watts is None else milli_watts / MW_PER_WATT
