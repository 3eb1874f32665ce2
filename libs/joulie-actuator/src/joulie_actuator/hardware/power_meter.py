"""Power of the packages from their energy counters. Stores the last sample; one meter per process.

A power value needs two plausible samples of a zone, and a total a value for every zone: a part of the power is never
reported as the whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from joulie_actuator.hardware.knob import HardwareFailure
from joulie_actuator.hardware.rapl import UW_PER_WATT, RaplZone
from joulie_actuator.hardware.rapl_domains import RaplDomain
from joulie_core.control.energy_meter import EnergyCounter, MeterState, SampleResult, step


@dataclass(frozen=True, slots=True)
class ZoneReading:
    """One reading of one zone."""

    zone: str
    energy_uj: int | None = None
    power_watts: float | None = None
    #: How the sample was judged; None where the counter could not be read.
    sampled: SampleResult | None = None
    failure: HardwareFailure | None = None
    #: Where the counter wraps around, and the most that is drawn for long; None where the hardware does not report it.
    range_uj: int | None = None
    max_watts: float | None = None


class PowerMeter:
    """Turns counters into watts, zone by zone."""

    def __init__(self) -> None:
        self._states: dict[str, MeterState] = {}

    def sample(self, zones: Iterable[RaplZone], now: float) -> tuple[ZoneReading, ...]:
        """Read every zone; `now` is monotonic seconds."""
        return tuple(self._read_zone(zone, now) for zone in zones)

    def sample_domains(self, domains: Iterable[RaplDomain], now: float) -> tuple[ZoneReading, ...]:
        """Read every domain beside the packages; `now` is monotonic seconds."""
        return tuple(self._read(domain, now, EnergyCounter(domain.energy_range_uj)) for domain in domains)

    def _read_zone(self, zone: RaplZone, now: float) -> ZoneReading:
        reading = self._read(zone, now, _counter(zone))
        return reading if reading.failure is None else _sensed(zone, reading.failure)

    def _read(self, zone: RaplZone | RaplDomain, now: float, counter: EnergyCounter) -> ZoneReading:
        energy_uj = zone.read_energy_uj()
        if isinstance(energy_uj, HardwareFailure):
            self._states.pop(zone.path, None)
            return ZoneReading(zone.name, failure=energy_uj)
        state, sampled = step(self._states.get(zone.path, MeterState()), energy_uj=energy_uj, now=now, counter=counter)
        self._states[zone.path] = state
        return ZoneReading(
            zone.name,
            energy_uj,
            state.power_watts,
            sampled,
            range_uj=counter.range_uj,
            max_watts=counter.max_watts,
        )


def _counter(zone: RaplZone) -> EnergyCounter:
    return EnergyCounter(zone.energy_range_uj, zone.max_power_uw / UW_PER_WATT if zone.max_power_uw else None)


def _sensed(zone: RaplZone, no_counter: HardwareFailure) -> ZoneReading:
    """Return the power that a sensor averages, where there is no energy counter to measure by."""
    power_uw = zone.read_power_uw()
    if isinstance(power_uw, HardwareFailure):
        return ZoneReading(zone.name, failure=no_counter if zone.power_sensor is None else power_uw)
    return ZoneReading(zone.name, power_watts=power_uw / UW_PER_WATT)


def total_watts(readings: Sequence[ZoneReading]) -> float | None:
    """Return the power of all packages together; None unless every zone has a value."""
    watts = [reading.power_watts for reading in readings]
    return sum(each for each in watts if each is not None) if watts and None not in watts else None
